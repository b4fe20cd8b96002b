"""The application: its commands, and one line instead of a traceback where the input is at fault."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

from spectheory import __version__
from spectheory.cli import calibrating, certifying, checking, clocking, comparing, demo, importing, measuring, planning

EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "tokenizers", "safetensors", "pyarrow"), "reference"),
    "hypothesis": "certify",
    **dict.fromkeys(("cvxpy", "sympy"), "proofs"),
}
"""Packages that come with an extra."""


def _end(line: str, status: int) -> NoReturn:
    print(line, file=sys.stderr)
    raise typer.Exit(status)


@contextmanager
def in_one_line() -> Iterator[None]:
    """Say what went wrong in one line: status 2 for bad input, 130 for an interruption."""
    try:
        yield
    except KeyboardInterrupt:
        _end("interrupted: every file written so far is whole; trace, compare, clock and train go on from theirs", 130)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        _end(f"error: this command needs {package}: pip install 'spectheory[{EXTRAS[package]}]'", 2)
    except OSError as error:
        _end(
            f"error: {error.filename}: {error.strerror}" if error.filename and error.strerror else f"error: {error}", 2
        )
    except (ValueError, ImportError) as error:
        _end(f"error: {error}", 2)


app = typer.Typer(
    help="Plan, simulate, measure and certify tree-based speculative decoding.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options before the command."""


for command in (
    measuring.trace,
    measuring.profile,
    importing.import_,
    planning.plan,
    planning.simulate,
    measuring.decode,
    clocking.clock,
    calibrating.compare,
    comparing.policies,
    certifying.certify,
    checking.check,
    demo.demo,
    measuring.train,
):
    app.command(command.__name__.rstrip("_"))(in_one_line()(command))
