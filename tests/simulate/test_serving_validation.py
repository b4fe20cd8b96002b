"""The validation of the serving simulator: every check passes, and the judge itself is right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from benchmarks.serving_validation import __main__ as command
from benchmarks.serving_validation import fixed_batch, queueing
from benchmarks.serving_validation.check import LEVEL, Check
from benchmarks.serving_validation.curves import FAMILIES, Curve, curves, fits, judged, median_error, rate_of
from benchmarks.serving_validation.engines import cycle_moments
from benchmarks.serving_validation.page import AIM, document
from simulate import Tier

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
SMALL = {"runs": 20, "count": 3000}


def named(checks: Iterator[Check]) -> list[str]:
    """What fails."""
    found = list(checks)
    assert found
    return [f"{one.group}, {one.case}: {one.simulated} for {one.expected}" for one in found if not one.good]


def test_waits_are_those_of_pollaczek_and_khinchine() -> None:
    """Mean of 20 runs, error level 1e-6 each."""
    assert not named(queueing.waits(**SMALL))


def test_littles_law_holds_up_to_rounding() -> None:
    assert not named(queueing.littles_law())


def test_a_closed_loop_emits_tau_tokens_a_cycle() -> None:
    """Error level 1e-6 each, up to rounding without speculation."""
    assert not named(queueing.closed_loops())


def test_a_saturated_engine_completes_one_request_per_work() -> None:
    """Mean of 20 runs, error level 1e-6 each."""
    assert not named(queueing.saturation(**SMALL))


def test_the_rule_of_specdecode_bench_is_a_special_case() -> None:
    """Seconds of decoding with the same accepted lengths, up to rounding."""
    assert not named(fixed_batch.checks())


def test_cycles_of_an_answer_are_those_of_all_outcomes() -> None:
    """Mean and mean square against the enumeration of all accepted numbers, in Fractions."""
    tier = Tier(st.Tree.chain(2), np.array([[1.0, 0.75, 0.25]]))
    mean, square = cycle_moments(tier, 5)
    emits = {1: Fraction(1, 4), 2: Fraction(1, 2), 3: Fraction(1, 4)}
    for tokens in range(6):
        total = [Fraction(0), Fraction(0)]
        for lengths in itertools.product(emits, repeat=tokens):
            chance = Fraction(1)
            for length in lengths:
                chance *= emits[length]
            cycles = next((n for n in range(tokens + 1) if sum(lengths[:n]) >= tokens), tokens)
            total = [total[0] + chance * cycles, total[1] + chance * cycles**2]
        assert (mean[tokens], square[tokens]) == tuple(map(float, total))


def test_a_wrong_figure_fails() -> None:
    assert Check("group", "case", 1.0, 1.0 + 1e-12, 1e-9, "s").good
    assert not Check("group", "case", 1.0, 1.1, 1e-9, "s").good
    assert not Check("group", "case", float("nan"), 1.1, 1e-9, "s").good
    rng = np.random.default_rng(0)
    figures = (1 + 0.01 * rng.standard_normal(20)).tolist()
    assert Check.of_runs("group", "case", figures, 1.0, "s").good
    assert not Check.of_runs("group", "case", figures, 1.05, "s").good


def test_the_command_reports_what_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = Check("Little's law", "made up", 1.0, 2.0, 0.1, "requests")
    monkeypatch.setattr(command.queueing, "checks", lambda: iter([wrong]))
    monkeypatch.setattr(command.fixed_batch, "checks", lambda: iter([]))
    monkeypatch.setattr(command, "curves", lambda: some_curves(1))
    assert command.main(["--out", str(tmp_path / "page.md")]) == 1
    assert "0 of 1 checks by theory pass" in (tmp_path / "page.md").read_text()
    monkeypatch.setattr(command.queueing, "checks", lambda: iter([Check("Little's law", "x", 1.0, 1.0, 0.1, "s")]))
    assert command.main(["--out", str(tmp_path / "page.md")]) == 0


def some_curves(count: int) -> list[Curve]:
    """The first curves of the time per token by concurrency."""
    return list(itertools.islice(curves(FAMILIES[1:2]), count))


def test_published_curves_are_met_after_calibration_on_two_points() -> None:
    """EAGLE-3's speedups by batch size, and four other curves; `-m deep` judges all."""
    eagle3 = [curve for curve in curves(FAMILIES[:1]) if "eagle3" in curve.name]
    found = judged([*eagle3, *some_curves(4)])
    assert all(len(one.points) >= 3 and not one.reason for one in found)
    assert all(sum(point.calibrated_on for point in one.points) == 2 for one in found)
    assert [len(one.errors) for one in found] == [7, 1, 1, 1, 1]
    assert median_error(found) < AIM
    assert all(median_error([one]) < AIM for one in found)
    assert "eagle3-llama-3.1-8b" in document([Check("Little's law", "x", 1.0, 1.0, 0.1, "s")], found)


def test_curves_are_sorted_and_leave_out_what_does_not_fit() -> None:
    found = list(curves())
    assert {curve.family for curve in found} == set(FAMILIES)
    for curve in found:
        batches = [row.batch for row in curve.rows]
        assert batches == sorted(set(batches))
        assert all(map(fits, curve.rows[-1:]))
        assert not any(map(fits, curve.too_large[:1]))
    unjudged = judged(curve for curve in found if len(curve.rows) < 3)
    assert unjudged
    assert all("of its points fit into memory" in one.reason for one in unjudged)
    eagle = next(curve for curve in found if curve.rows and curve.rows[0].kind == "chain").rows[0]
    rate = rate_of(eagle)
    assert 1 + rate + rate**2 + rate**3 == pytest.approx(eagle.tau)


def test_the_page_says_that_every_check_passes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "Generated by `python -m benchmarks.serving_validation --out docs/serving.md`" in text
    assert "| NO |" not in text
    assert f"{LEVEL:g}" in text


@pytest.mark.deep
def test_all_curves_and_checks(tmp_path: Path) -> None:
    """The whole page, generated again: every check passes, the median error is within the aim and as printed."""
    assert command.main(["--out", str(tmp_path / "serving.md")]) == 0
    first, again = (path.read_text(encoding="utf-8").splitlines()[4] for path in (PAGE, tmp_path / "serving.md"))
    assert first == again
