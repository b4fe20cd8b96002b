"""The command line. A command imports simulate, reference or proofs_check only when it runs."""

from spectheory.cli.main import app

__all__ = ["app"]
