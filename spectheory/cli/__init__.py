"""The command line. A command imports simulate, reference or proofs_check only when it runs."""

import sys

try:
    from spectheory.cli.main import app
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    sys.exit(130)

__all__ = ["app"]
