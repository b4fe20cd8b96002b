"""The command line. Packages below spectheory are imported inside the command that needs them."""

from spectheory.cli.main import app

__all__ = ["app"]
