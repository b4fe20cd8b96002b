"""The command `explore`: the apps of `notebooks/apps`, opened by marimo."""

from __future__ import annotations

import ast
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import spectheory
from spectheory.cli.output import console
from spectheory.core.errors import InputError, unknown

PACKAGE = Path(spectheory.__file__).parent
FOLDERS = (PACKAGE / "apps", PACKAGE.parent / "notebooks" / "apps")
"""Where the apps are: in an installed package, and in a checkout."""


def explore(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the app.", show_default="list the apps")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser, or only print its address.")] = True,
    edit: Annotated[bool, typer.Option("--edit", help="Open the app as a notebook whose code can be changed.")] = False,
) -> None:
    """Open an app that answers as you move its sliders: yields of budgets, serving under load, your own engine."""
    known = apps()
    if name is None:
        for app, path in known.items():
            console.print(f"{app:12} {title(path)}", markup=False, highlight=False, soft_wrap=True)
        return
    if name not in known:
        raise InputError(unknown("app", name, known))
    for package in ("marimo", "altair"):
        import_module(package)
    options = [] if browser else ["--headless"]
    command = [sys.executable, "-m", "marimo", "edit" if edit else "run", str(known[name]), *options]
    os.execv(sys.executable, command)  # the server takes this process's place, and its signals


def apps() -> dict[str, Path]:
    """The file of each app by its name.

    Raises:
        InputError: the installation has no apps.
    """
    folder = next((folder for folder in FOLDERS if folder.is_dir()), None)
    if folder is None:
        raise InputError("this installation of spectheory has no apps: install it again from a wheel or a checkout")
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def title(path: Path) -> str:
    """The first line of an app's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
