"""The application: its commands, and one line instead of a traceback where the input is at fault."""

from __future__ import annotations

import sys

import typer

from spectheory.cli import demo, measuring, planning

app = typer.Typer(
    help="Plan, simulate and measure tree-based speculative decoding.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    measuring.trace,
    measuring.profile,
    planning.plan,
    planning.simulate,
    measuring.decode,
    planning.compare,
    demo.demo,
    measuring.train,
):
    app.command()(command)


def main() -> None:
    """Run the command line; bad input exits with status 2, an interruption with 130."""
    try:
        app()
    except KeyboardInterrupt:
        print("interrupted: what was finished is kept, the same command goes on from there", file=sys.stderr)
        sys.exit(130)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "transformers", "tokenizers", "pyarrow", "safetensors"):
            raise
        print(
            f"error: this command needs {error.name}: pip install 'spectheory[reference]'",
            file=sys.stderr,
        )
        sys.exit(2)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
