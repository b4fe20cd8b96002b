"""A module under test that ends, hangs or meddles in a chosen way, and the fixture that certifies it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spectheory.cli import app

MODULE = """
import atexit, ctypes, itertools, json, os, signal, sys, threading, time

class Own(BaseException):
    pass

def pipes():
    places = [(n, "/dev/fd/%d" % n) for n in range(3, 64)]
    return [n for n, place in places if os.path.exists(place) and "pipe" in os.path.realpath(place)]

def end():
    {end}

def right(draft, p, rng):
    return 0, rng.choice(len(p[0]), p=p[0])

def wrong(draft, p, rng):
    return 0, 0

def ends(draft, p, rng):
    end()
    return right(draft, p, rng)

class Ending:
    vocab_size = 2
    rules = ()

    def step(self, context, rng):
        return [int(rng.integers(2))]

    def target(self, context):
        end()

class NotMade:
    def __init__(self):
        end()

if {at_import}:
    end()
"""
TIMES = {
    "verifier": ("ends", "--shape", "1", "--cases", "2"),
    "black box": ("ends", "--black-box", "--shape", "1", "--max-samples", "50"),
    "search of a shape": ("ends", "--black-box", "--max-samples", "50"),
    "target": ("Ending", "--max-samples", "50"),
    "constructor": ("NotMade", "--cases", "2"),
    "import": ("right", "--cases", "2"),
}
STATUS = "ended the process with status"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork")
Certify = Callable[..., Result]


@pytest.fixture
def certify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certify:
    """Certify an object of a module with a body for `end`, from the folder that holds the module."""
    monkeypatch.chdir(tmp_path)

    def run(end: str, name: str, *arguments: str, at_import: bool = False) -> Result:
        Path("code_that_ends.py").write_text(MODULE.format(end=end, at_import=at_import))
        return CliRunner().invoke(app, ["certify", f"code_that_ends:{name}", *arguments])

    return run
