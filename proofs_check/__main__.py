"""`python -m proofs_check` is `spectheory check`."""

from spectheory.cli import app

if __name__ == "__main__":
    import sys

    app(["check", *sys.argv[1:]])
