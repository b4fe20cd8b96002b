"""The application: its commands, and their error messages in one line instead of a traceback."""

from __future__ import annotations

import functools
import inspect
import io
import logging
import os
import re
import sys
import tomllib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from spectheory import __version__
from spectheory.cli import (
    calibrating,
    certifying,
    checking,
    decoding,
    demo,
    exploring,
    listing,
    measuring,
    planning,
    replaying,
    reports,
    serving,
)
from spectheory.cli.options import with_groups
from spectheory.core.errors import InputError
from spectheory.core.files import shipped

INTERRUPTED = 130
"""Exit status of an interrupted command, as of a shell: 128 and the number of the signal."""
EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "tokenizers", "safetensors", "pyarrow"), "reference"),
    **dict.fromkeys(("cvxpy", "mpmath", "sympy"), "proofs"),
    **dict.fromkeys(("marimo", "altair"), "notebooks"),
}
"""For each optional package, the extra of spectheory that installs it."""
LONGEST_LINE = 3000
"""Characters of the longest message."""
SHOW_TRACEBACK: ContextVar[bool] = ContextVar("show_traceback", default=False)


def shortened(line: str) -> str:
    """A message without the middle of long words and of a long text, so that it can be read."""
    line = re.sub(r"\S{301,}", lambda word: f"{word[0][:200]}...{word[0][-80:]}", line)
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 500]} ... {line[-500:]}"


def _one_line(error: Exception) -> str | None:
    """The message for an error that is no bug of spectheory; None for a bug."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError) and error.strerror is not None:
        place = f"{error.filename!s:.300} cannot be used: " if error.filename else ""
        return f"{place}{error.strerror}: name another file or folder, or free what is missing"
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from"):  # pathlib, before Python 3.13
        return f"{error} cannot be followed: name another file or folder"
    # torch has no exception of its own for a lack of memory on the CPU
    lacks = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator: can't allocate memory" in str(error)
    if isinstance(error, MemoryError) or lacks:
        repair = "lower --max-budget, --batch, --new-tokens or the size of the models, or free memory"
        return f"memory ran out ({str(error).partition(chr(10))[0] or 'no details':.200}): {repair}"
    package = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return f"this command needs {package}: pip install 'spectheory[{EXTRAS[package]}]'" if package in EXTRAS else None


def in_one_line(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap `command` so that bad input and a lack of memory are one line, with status 2. An interruption exits
    with 130.

    Any other exception is a bug in spectheory and keeps its traceback. `--traceback` shows tracebacks of bad input too.
    """
    parameters = inspect.signature(command).parameters

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        try:
            if empty := [name for name, value in given.items() if value == "" != parameters[name].default]:
                raise InputError(f"{empty[0].replace('_', '-')} must not be empty: give a value, or leave it out")
            command(*arguments, **given)
            if sys.stdout is not None:
                sys.stdout.flush()
        except KeyboardInterrupt:
            print("interrupted: all files written so far are complete; repeat the command to continue", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            if sys.stdout is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None  # that of a command which SIGPIPE ends
        except typer.Exit:
            raise
        except Exception as error:
            line = _one_line(error)
            if line is None or SHOW_TRACEBACK.get():
                raise
            print(shortened(f"error: {line}"), file=sys.stderr)
            raise typer.Exit(2) from None

    return run


class _Group(TyperGroup):
    """The commands, whose help is refused in one line where it cannot be written."""

    def main(self, *arguments: Any, **given: Any) -> Any:
        try:
            return super().main(*arguments, **given)
        except OSError as error:
            print(f"error: {_one_line(error)}", file=sys.stderr)
            sys.exit(2)


app = typer.Typer(
    cls=_Group,
    help="Plan, simulate, measure and certify tree-based speculative decoding.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the full traceback of an error, for bug reports.")
    ] = False,
) -> None:
    """Options that come before the name of the command."""
    SHOW_TRACEBACK.set(traceback)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # of transformers, for the weights of each model
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads of torch that wait busily slow each other threefold
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns where it cannot keep a cache of fonts


class _Command(TyperCommand):
    """A command whose help is plain text that opens with two examples."""

    def __init__(self, name: str | None, **given: Any) -> None:
        super().__init__(name, **given | {"rich_markup_mode": None})

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the examples of `data/examples.toml` before the usage."""
        examples = tomllib.loads(shipped("examples.toml"))
        formatter.write("".join(f"$ {line}\n" for line in examples[str(self.name)]) + "\n")
        super().format_help(ctx, formatter)


PANELS: dict[str, list[Callable[..., Any]]] = {
    "Serve faster": [planning.schedule, reports.diagnose, reports.import_, calibrating.calibrate, serving.serve],
    "Try your models": [demo.demo, measuring.trace, measuring.profile, planning.plan, decoding.decode],
    "Trust a sampler": [certifying.certify, reports.guard],
    "Study": [decoding.compare, replaying.replay, checking.check, exploring.explore, listing.list_],
}
"""The commands, by what they are for."""
for panel, commands in PANELS.items():
    for command in commands:
        name = command.__name__.rstrip("_")
        app.command(name, cls=_Command, rich_help_panel=panel)(in_one_line(with_groups(command)))
