"""The gallery: its page follows from its record, copies are found or skipped by name, and a planted fault is found."""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

pytest.importorskip("torch")

from examples.gallery import __main__ as gallery
from examples.gallery import reproductions
from examples.gallery.findings import FINDINGS
from examples.gallery.page import page
from examples.gallery.running import RECORD, Row, certify_all, load_rows, save_rows
from examples.gallery.subjects import SUBJECTS, Subject

SAMPLER = """
import a_package_that_is_not_installed


def _speculative_sampling(ids, candidate_logits, length, new_logits, done, most):
    p, q = new_logits.softmax(-1)[0], candidate_logits.softmax(-1)[0]
    kept = 0
    while kept < length and torch.rand(1) < p[kept, ids[0, kept]] / q[kept, ids[0, kept]]:
        kept += 1
    rest = (p[kept] - q[kept]).clamp(min=0) if kept < length else LAST
    return torch.cat((ids[0, :kept], torch.multinomial(rest, 1)))[None], kept
"""
TOY = replace(SUBJECTS["spec-bench-sps"], cases=5)


def toy(folder: Path, last: str) -> Path:
    """A copy of the repository of `TOY`, whose sampler draws the last token from `last`."""
    file = folder / TOY.repository / TOY.file
    file.parent.mkdir(parents=True)
    file.write_text(SAMPLER.replace("LAST", last), encoding="utf-8")
    (folder / "commits.json").write_text(f'{{"{TOY.repository}": "abcd12345678"}}', encoding="utf-8")
    return folder


def test_the_page_is_what_the_record_generates() -> None:
    assert gallery.PAGE.read_text(encoding="utf-8") == page(load_rows(RECORD)), "run python -m examples.gallery"


def test_the_record_keeps_its_rows(tmp_path: Path) -> None:
    rows = load_rows(RECORD)
    save_rows(tmp_path / "record.json", rows.values())
    assert load_rows(tmp_path / "record.json") == rows
    assert set(rows) <= set(SUBJECTS)
    assert load_rows(tmp_path / "none.json") == {}


def test_every_fault_has_a_report_and_every_report_a_row_that_shows_it() -> None:
    rows = load_rows(RECORD)
    reported = {name for finding in FINDINGS for name in finding.subjects}
    right = ("LOSSLESS", "WITHIN")
    assert all(rows[name].verdict not in right for name in reported)
    for name, row in rows.items():
        if row.verdict not in right:
            assert (name in reported) != ("by design" in SUBJECTS[name].reading), name


def parts(given: Any, seen: dict[str, Any]) -> dict[str, Any]:
    """A function or class, and all functions and classes of its file that it uses, by name."""
    seen[given.__name__] = given
    for name in used([given] if isinstance(given, FunctionType) else vars(given).values()):
        found = getattr(sys.modules[given.__module__], name, None)
        if getattr(found, "__module__", None) == given.__module__ and name not in seen:
            parts(found, seen)
    return seen


def used(given: Any) -> Iterator[str]:
    """The global names that functions use."""
    for one in given:
        code = one if isinstance(one, CodeType) else getattr(one, "__code__", None)
        if code is not None:
            yield from (each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
            yield from used(each for each in code.co_consts if isinstance(each, CodeType))


def code_lines(given: Any) -> int:
    """The lines of a function or a class, without decorators, docstrings and blank lines."""
    source = textwrap.dedent(inspect.getsource(given))
    (top,) = ast.parse(source).body
    assert isinstance(top, ast.FunctionDef | ast.ClassDef)
    docs = [
        node.body[0]
        for node in ast.walk(top)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)
    ]
    left_out = {i for doc in docs for i in range(doc.lineno, (doc.end_lineno or 0) + 1)}
    lines = source.splitlines()
    return sum(bool(lines[i - 1].strip()) for i in range(top.lineno, len(lines) + 1) if i not in left_out)


VERIFIERS = [subject for subject in SUBJECTS.values() if subject.name != "sequoia-two-cycles"]
"""All but the one that plays whole steps, which exact mode does not certify."""


@pytest.mark.parametrize("subject", VERIFIERS, ids=lambda subject: subject.name)
def test_an_adapter_has_at_most_twelve_lines(subject: Subject) -> None:
    """With all that it uses of its own file; `copies`, `drafts` and `fakes` are for every adapter."""
    assert sum(map(code_lines, parts(subject.adapter, {}).values())) <= 12


def test_exact_mode_decides_twenty_five_published_functions() -> None:
    rows = load_rows(RECORD).values()
    assert sum(row.mode == "exact" and row.verdict in ("LOSSLESS", "LOSSY") for row in rows) >= 25


def test_the_evidence_of_exact_mode_shows_the_total_variation_of_the_table() -> None:
    lossy = [row for row in load_rows(RECORD).values() if row.mode == "exact" and row.verdict == "LOSSY"]
    for row in lossy:
        assert row.evidence[-1] == f"total variation {row.tv}", row.subject
        assert any("random numbers" in line for line in row.evidence), row.subject
    assert lossy


def test_a_missing_copy_is_skipped_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, out = str(tmp_path / "record.json"), tmp_path / "page.md"
    gallery.main(["--copies", str(tmp_path), "--only", "eagle", "--record", record, "--out", str(out)])
    assert "eagle: skipped, there is no copy of SafeAILab/EAGLE with eagle/model/utils.py" in capsys.readouterr().out
    assert "Not run, for want of a copy:" in out.read_text(encoding="utf-8")


def test_a_copy_without_the_function_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / TOY.repository / TOY.file
    file.parent.mkdir(parents=True)
    file.write_text("", encoding="utf-8")
    [(_, found)] = certify_all(tmp_path, [TOY])
    assert found == (
        "its adapter does not fit this copy: LookupError: decoding.py does not define _speculative_sampling"
    )


@pytest.mark.parametrize(("last", "verdict"), [("p[kept]", "LOSSLESS"), ("q[kept - 1]", "LOSSY")])
def test_a_planted_fault_is_reported(tmp_path: Path, last: str, verdict: str) -> None:
    """Exact; only the named function of the file is compiled, so that its import is not needed."""
    [(subject, row)] = certify_all(toy(tmp_path, last), [TOY])
    assert isinstance(row, Row)
    assert (row.subject, row.version, row.mode, row.verdict) == (subject.name, "abcd1234", "exact", verdict)
    assert bool(row.evidence) == (verdict == "LOSSY")
    assert (row.tv == "0") == (verdict == "LOSSLESS")
    assert "`spec-bench-sps`: hemingkx/Spec-Bench" in page({row.subject: row})


def test_the_reproductions_give_what_the_reports_say() -> None:
    emitted, expected = reproductions.bonus_before_gather()
    assert emitted != expected
    assert reproductions.noise_once() == Fraction(1, 2)
    assert reproductions.products_of_coins(1) == pytest.approx(0, abs=1e-12)
    assert reproductions.products_of_coins(2) > 0.2
    assert reproductions.uncapped_ratio() == Fraction(1, 9)
    assert reproductions.uncapped_ratio(capped=True) == 0
