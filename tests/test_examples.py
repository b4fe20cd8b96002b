"""The examples run, and find what their pages say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_sampler_of_hugging_face(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "certify_hugging_face.py"))["main"]()
    said = capsys.readouterr().out
    assert "WITHIN" in said
    assert "a token of p = 0, coin exactly 0: accepts it" in said
    assert "p = q, coin just below 1: accepts it" in said
    assert "raises RuntimeError: probability tensor contains" in said
