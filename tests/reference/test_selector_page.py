"""The page of the selector is what its records say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.selector import __main__ as command
from benchmarks.selector.page import section
from reference.held_out import sources
from reference.judging import HeldOutTexts
from reference.library_sources import standard_library
from reference.models import DRAFT, load_pair
from reference.sampling import Sampling
from reference.selector import SelectorComparison
from tests.refusals import refuses


def test_texts_are_of_a_half_of_the_files_and_few_of_each() -> None:
    """Three pieces of each of ten held-out files: the halves share no file, and the first two of each are taken."""
    pair = load_pair(draft=DRAFT)
    files = [file for file in standard_library() if file.is_held_out and len(file.text) > 2000][:10]
    rows: Any = pair.tokenizer([file.text[:2000] for file in files], add_special_tokens=False)["input_ids"]
    pieces = [(file.name, row[n : n + 40]) for file, row in zip(files, rows, strict=True) for n in (0, 60, 99)]
    prompts = [piece for _, piece in pieces]
    assert sources(pair, prompts) == tuple(name for name, _ in pieces)
    texts = HeldOutTexts(pair, prompts, [[5]] * len(prompts), Sampling(1.0))
    judged, trained, both = (command.texts_by_file(texts, half, 2) for half in ("judged", "trained", "all"))
    names = [file.name for file in files]
    for found in (judged, trained, both):
        kept = list(dict.fromkeys(found.sources or ()))
        assert found.sources == tuple(name for name in kept for _ in range(2))
        assert found.prompts == [prompts[3 * names.index(name) + n] for name in kept for n in (0, 1)]
    assert set(judged.clusters).isdisjoint(trained.clusters)
    assert {*judged.clusters, *trained.clusters} == set(both.clusters)
    assert len(both.clusters) == 10
    refuses("prompts must be pieces of the held-out files", sources, pair, [[5] * 40])


def records() -> list[SelectorComparison]:
    return [SelectorComparison.load(file) for file in sorted(command.RECORDS.glob("*.json"))]


def test_the_page_is_up_to_date() -> None:
    found = records()
    assert found
    page = command.PAGE.read_text(encoding="utf-8")
    measured = page.partition("<!-- measured -->")[2].partition("<!-- end of measured -->")[0]
    assert measured.strip() == section(found).strip(), "run python -m benchmarks.selector page"


def test_the_page_is_written_from_the_records(tmp_path: Path) -> None:
    other = tmp_path / "selector.md"
    other.write_text("before\n<!-- measured -->old<!-- end of measured -->\nafter\n")
    command.main(["page", "--page", str(other)])
    text = other.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert section(records()).strip() in text
