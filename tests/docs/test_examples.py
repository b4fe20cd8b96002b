"""The examples run, and find what their pages say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("tv", [0.2, pytest.param(0.05, marks=pytest.mark.deep)])
def test_the_sampler_of_hugging_face(tv: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Within four times the total variation of the page, which takes fewer texts; `make test-deep` runs it as it is."""
    runpy.run_path(str(EXAMPLES / "certify_hugging_face.py"))["main"](tv=tv)
    said = capsys.readouterr().out
    assert "WITHIN" in said
    assert "a token of p = 0, coin exactly 0: accepts it" in said
    assert "p = q, coin just below 1: accepts it" in said
    assert "raises RuntimeError: probability tensor contains" in said
