"""The site: it builds without a warning, names everything that is public, and needs no network."""

from __future__ import annotations

import gc
import logging
import re
import warnings
import zlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def shorter_build(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sphinx leaves out what warns of nothing: an index for the search, lines of definitions, its notes to itself.

    It looks a name up once in each place. The garbage collector would look at all pages again and again.
    """
    pytest.importorskip("myst_parser")
    pytest.importorskip("pydata_sphinx_theme")
    from sphinx.builders.html import StandaloneHTMLBuilder
    from sphinx.domains.python import PythonDomain
    from sphinx.pycode.parser import Parser

    monkeypatch.setattr(StandaloneHTMLBuilder, "search", False)
    monkeypatch.setattr(Parser, "parse_definition", lambda parser: None)
    monkeypatch.setattr(PythonDomain, "find_obj", cache(PythonDomain.find_obj))
    for name, value in (("handlers", []), ("propagate", True)):
        monkeypatch.setattr(logging.getLogger("sphinx"), name, value)
    logging.disable(logging.INFO)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def test_the_site_builds_and_names_everything_that_is_public(
    shorter_build: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One build in this process: its warnings are errors, as in `make docs`."""
    from sphinx.cmd.build import build_main

    monkeypatch.syspath_prepend(DOCS / "extensions")
    site = tmp_path / "site"
    build = ["-q", "-W", "--keep-going", "-d", str(tmp_path / "doctrees"), str(DOCS), str(site)]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        status = build_main(build)
    assert status == 0, capsys.readouterr().err
    public = import_module("public_names")
    wanted = {f"{package}.{name}" for package in public.packages() for name in public.public_names(package)}
    assert wanted <= described(site / "objects.inv"), "add a page of docs/api with `public-names`"
    for page in site.rglob("*.html"):
        assert not list(loaded_from_elsewhere(page.read_text(encoding="utf-8"))), page


def described(inventory: Path) -> set[str]:
    """The names of the Python domain in the index of a site."""
    raw = inventory.read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(raw).decode().splitlines()
    return {line.split(" ")[0] for line in lines if line.split(" ")[1].startswith("py:")}


def loaded_from_elsewhere(page: str) -> Iterator[str]:
    """Addresses that a browser would load to show the page. Links that a reader can follow are not among them."""
    for tag in re.findall(r"<(?:script|link|img|iframe|source|video|object)\b[^>]*>", page):
        if found := re.search(r'(?:src|href|data)="((?:https?:)?//[^"]*)"', tag):
            yield found[1]


def test_what_a_page_loads_from_elsewhere_is_seen() -> None:
    page = '<a href="https://a.b"></a><script src="https://c.d/e.js"></script><link href="//f.g/h.css">'
    assert list(loaded_from_elsewhere(page)) == ["https://c.d/e.js", "//f.g/h.css"]
