"""The examples run and find what their pages say: the sampler of transformers, and the adapters of the gallery."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("torch")

import spectheory as st
from examples.gallery import __main__ as gallery
from examples.gallery import reproductions

ROOT = Path(__file__).parents[2]
SAMPLER = """
import a_package_that_is_not_installed


def _speculative_sampling(ids, candidate_logits, length, new_logits):
    p, q = new_logits.softmax(-1)[0], candidate_logits.softmax(-1)[0]
    kept = 0
    while kept < length and torch.rand(1) < p[kept, ids[0, kept]] / q[kept, ids[0, kept]]:
        kept += 1
    rest = (p[kept] - q[kept]).clamp(min=0) if kept < length else LAST
    return torch.cat((ids[0, :kept], torch.multinomial(rest, 1)))[None], kept
"""
TOY = replace(gallery.SUBJECTS["transformers"], repository="owner/name")


@pytest.mark.parametrize("tv", [0.2, pytest.param(0.05, marks=pytest.mark.deep)])
def test_the_sampler_of_hugging_face(tv: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Within four times the total variation of the page, which takes fewer texts; `make test-deep` runs it as it is."""
    runpy.run_path(str(ROOT / "examples" / "certify_hugging_face.py"))["main"](tv=tv)
    said = capsys.readouterr().out
    assert "WITHIN" in said
    assert "a token of p = 0, coin exactly 0: accepts it" in said
    assert "p = q, coin just below 1: accepts it" in said
    assert "raises RuntimeError: probability tensor contains" in said


def test_the_page_of_the_gallery_holds_its_record() -> None:
    lines = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("`")[1]: line for line in lines if line.startswith("| `")}
    record = ROOT / "examples" / "gallery" / "measured.json"
    for row in json.loads(record.read_text(encoding="utf-8"))["rows"]:
        assert f"| {row['verdict']} | {row['tv']} |" in rows[row["subject"]]
        assert f"| {row['version']} | {row['mode']} |" in rows[row["subject"]]


def test_the_installed_transformers_is_certified_and_a_missing_copy_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = gallery.SUBJECTS["transformers"].copy_in(Path())
    assert root is not None
    assert gallery.SUBJECTS["transformers"].certify(root, cases=4).verdict is st.Verdict.LOSSLESS
    gallery.main(str(tmp_path), "eagle")
    assert "eagle: skipped, there is no copy of SafeAILab/EAGLE with eagle/model/utils.py" in capsys.readouterr().out


@pytest.mark.parametrize(("last", "verdict"), [("p[kept]", "LOSSLESS"), ("q[kept - 1]", "LOSSY")])
def test_a_planted_fault_is_reported(tmp_path: Path, last: str, verdict: str) -> None:
    """Exact; only the named function of the file is compiled, so that its import is not needed."""
    file = tmp_path / TOY.repository / TOY.file
    file.parent.mkdir(parents=True)
    file.write_text(SAMPLER.replace("LAST", last), encoding="utf-8")
    root = TOY.copy_in(tmp_path)
    assert root is not None
    assert TOY.certify(root, cases=5).verdict.name == verdict


def test_the_reproductions_give_what_the_reports_say() -> None:
    emitted, expected = reproductions.bonus_before_gather()
    assert emitted != expected
    assert reproductions.noise_once() == Fraction(1, 2)
    assert reproductions.products_of_coins(1) == pytest.approx(0, abs=1e-12)
    assert reproductions.products_of_coins(2) > 0.2
    assert reproductions.uncapped_ratio() == Fraction(1, 9)
    assert reproductions.uncapped_ratio(capped=True) == 0
    assert reproductions.beam_not_drawn() == Fraction(1, 2)
    assert reproductions.argmax_bonus() == Fraction(2, 5)
