"""The gallery: its page holds its record, copies are found or skipped by name, and a planted fault is found."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("torch")

import spectheory as st
from examples.gallery import __main__ as gallery
from examples.gallery import reproductions

RECORD = Path(gallery.__file__).parent / "measured.json"
PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"
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


def copy_of(folder: Path, text: str) -> Path:
    file = folder / TOY.repository / TOY.file
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    root = TOY.copy_in(folder)
    assert root is not None
    return root


def test_the_page_holds_the_record() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = {line.split("`")[1]: line for line in lines if line.startswith("| `")}
    for row in json.loads(RECORD.read_text(encoding="utf-8"))["rows"]:
        assert f"| {row['version']} | {row['mode']} | {row['verdict']} | {row['tv']} |" in rows[row["subject"]]
        if row["mode"] == "exact" and row["verdict"] == "LOSSY":
            assert row["evidence"][-1] == f"total variation {row['tv']}"


def test_the_installed_transformers_is_certified() -> None:
    root = TOY.copy_in(Path()) or gallery.SUBJECTS["transformers"].copy_in(Path())
    assert root is not None
    assert gallery.SUBJECTS["transformers"].certify(root, cases=4).verdict is st.Verdict.LOSSLESS


def test_a_missing_copy_is_skipped_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gallery.main(str(tmp_path), "eagle")
    assert "eagle: skipped, there is no copy of SafeAILab/EAGLE with eagle/model/utils.py" in capsys.readouterr().out


def test_a_copy_without_the_function_is_named(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"utils\.py does not define _speculative_sampling"):
        TOY.certify(copy_of(tmp_path, ""))


@pytest.mark.parametrize(("last", "verdict"), [("p[kept]", "LOSSLESS"), ("q[kept - 1]", "LOSSY")])
def test_a_planted_fault_is_reported(tmp_path: Path, last: str, verdict: str) -> None:
    """Exact; only the named function of the file is compiled, so that its import is not needed."""
    assert TOY.certify(copy_of(tmp_path, SAMPLER.replace("LAST", last)), cases=5).verdict.name == verdict


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
