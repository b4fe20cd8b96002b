"""Write the apps of `notebooks/apps` as pages that run in a browser: python docs/export_apps.py FOLDER.

A page runs Python by Pyodide and needs no server: it can be opened as a file. It does need the network when it is
opened, for the scripts of marimo and for Pyodide with its packages; nothing of them is bundled. spectheory and simulate
are inside the page.
"""

from __future__ import annotations

import asyncio
import base64
import io
import sys
import zipfile
from html import escape
from pathlib import Path

from spectheory.cli.exploring import apps, title
from spectheory.core.files import write_whole
from spectheory.report.page import shell

ROOT = Path(__file__).parent.parent
PACKAGES = ("spectheory", "simulate")
SUFFIXES = (".py", ".csv", ".json", ".typed")
REQUIRED = ("marimo", "altair", "numpy", "scipy", "matplotlib", "prometheus-client")
"""What the apps import, as far as Pyodide has it. Numba is not among them: the searches run without it."""
SCRIPT, SETUP = "# /// script\n", "with app.setup:\n"
NETWORK = (
    "This page needs the network when it is opened: it loads Python (Pyodide) and its packages, which takes a while, "
    "and then computes in your browser."
)
LIMITS = (
    "In a browser there is no Numba. The same loops run in plain Python there, with the same results but slower: large "
    "searches and the serving simulation take long. Traces cannot be replayed, because that reads Parquet files and "
    "runs models. For all of this, install spectheory and run spectheory explore."
)


def archive() -> bytes:
    """The packages as a zip file. The same files give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for package in PACKAGES:
            for path in sorted((ROOT / package).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    packed.writestr(
                        zipfile.ZipInfo(str(path.relative_to(ROOT))), path.read_bytes(), zipfile.ZIP_DEFLATED
                    )
    return out.getvalue()


def standalone(source: str, packed: bytes) -> str:
    """The source of an app that brings its packages along, and tells marimo what to install from Pyodide."""
    for part in (SCRIPT, SETUP):
        if source.count(part) != 1:
            raise ValueError(f"an app must have {part.strip()!r} once")
    required = ", ".join(f'"{name}"' for name in REQUIRED)
    unpack = [
        "import base64 as _base64, io as _io, sys as _sys, tempfile as _tempfile, zipfile as _zipfile",
        "_folder = _tempfile.mkdtemp()",
        f'_packed = _base64.b64decode("{base64.b64encode(packed).decode()}")',
        "_zipfile.ZipFile(_io.BytesIO(_packed)).extractall(_folder)",
        "_sys.path.insert(0, _folder)",
    ]
    named = source.replace(SCRIPT, f"{SCRIPT}# dependencies = [{required}]\n", 1)
    return named.replace(SETUP, SETUP + "".join(f"    {line}\n" for line in unpack))


def index(known: dict[str, Path]) -> str:
    """The page that lists the apps."""
    rows = "".join(f'<li><a href="{name}.html">{name}</a>: {escape(title(path))}</li>' for name, path in known.items())
    return shell(
        "Exploring budgets and acceptance rates",
        f"<ul>{rows}</ul>",
        f"<p>{NETWORK.replace('This page', 'Each page')}</p>",
        f"<p>{LIMITS}</p>",
    )


def export(folder: Path) -> None:
    """Write one page for each app into `folder`, and an index."""
    folder.mkdir(parents=True, exist_ok=True)
    known, packed = apps(), archive()
    for name, path in known.items():
        write_whole(folder / f"{name}.html", noted(page_of(path, packed)))
    write_whole(folder / "index.html", index(known))


def page_of(app: Path, packed: bytes) -> str:
    """The app as one HTML file, as `marimo export html-wasm --single-file` writes it.

    The command itself looks for modules to bundle, by uv and a download. These apps bring theirs along. What they need
    is added after marimo has pinned versions, because without the network it would pin those that are installed here.
    """
    from marimo._export.file import export_wasm
    from marimo._export.requests import WASMFileExportRequest
    from marimo._schemas.export_options import WASMExportOptions
    from marimo._templates import get_default_asset_url
    from marimo._utils.marimo_path import MarimoPath

    look = WASMExportOptions(mode="run", show_code=False, asset_url=get_default_asset_url())
    wanted = WASMFileExportRequest(
        path=MarimoPath(app), options=look, code_transform=lambda source: standalone(source, packed)
    )
    made = asyncio.run(export_wasm(wanted))
    if made.did_error:
        raise ValueError(f"marimo cannot export {app}")
    return made.text


def noted(page: str) -> str:
    """The page of an app with the sentence about the network, which is there before Python is."""
    style = "margin: 0; padding: .4rem 1rem; font: .8rem system-ui, sans-serif; color: #6e7781"
    before, body, after = page.partition("<body>")
    if not body:
        raise ValueError("the page of an app must have a body")
    return f'{before}{body}<p style="{style}">{NETWORK} <a href="index.html">All apps</a></p>{after}'


if __name__ == "__main__":
    export(Path(sys.argv[1]))
