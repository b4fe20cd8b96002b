"""`python -m spectheory` is the command line."""

from spectheory.cli import app

if __name__ == "__main__":
    app(prog_name="spectheory")
