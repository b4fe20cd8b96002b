"""Break-evens of speculation as intervals: how they are found, what they assume, and their words."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

import spectheory as st
from spectheory.hardware.deployment_class import ClassErrors
from spectheory.planning.confidence import BreakEven
from spectheory.planning.confidence_search import last_positive
from tests.known import known
from tests.planning.confident import LARGE, MANY, ONE, PAIR, PUBLISHED, RATES, SMALL, confidence, given_errors
from tests.refusals import refuses


@pytest.mark.parametrize("largest", [1, 2, 7, 8, 100, 4096])
def test_the_last_batch_that_pays_is_found_by_bisection(largest: int) -> None:
    for last in {0, 1, 2, 3, 5, 63, 64, 65, largest - 1, largest}:
        asked: list[int] = []

        def logarithm(batch: int, last: int = last, asked: list[int] = asked) -> float:
            asked.append(batch)
            return last + 0.5 - batch

        assert last_positive(logarithm, largest) == min(last, largest)
        assert len(asked) <= 2 * largest.bit_length() + 1
        assert all(1 <= batch <= largest for batch in asked)


def test_the_interval_of_a_break_even_is_where_the_speedup_is_1_with_the_error_of_the_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ends are found again from the speedups at the batch sizes beside them, with costs that no fit moves."""
    errors = {ONE: LARGE, MANY: SMALL, "other": SMALL}
    given_errors(monkeypatch, *(ClassErrors(name, one, None, ("vllm",), True) for name, one in errors.items()))
    costs = dataclasses.replace(PUBLISHED, spec_step_seconds=1e-3, spec_sequence_seconds=1e-4)
    tree = st.Tree.chain(8)
    plan = st.evaluate(tree, st.Acceptance.by_rank([0.6]), st.Latency.roofline(**PAIR, costs=costs))
    found = known(confidence(plan).break_even)
    low, high = known(found.low), known(found.high)

    def logarithm(batch: int) -> float:
        at = st.Latency.roofline(**PAIR, batch=batch, costs=costs)
        return math.log(plan.block_efficiency * at.plain(1024) / at.cycle(tree, 1024))

    assert 1 < low < found.batch < high < found.largest
    assert logarithm(found.batch) > 0 > logarithm(found.batch + 1)
    assert logarithm(low) > SMALL.most > logarithm(low + 1)
    assert logarithm(high) > -SMALL.most > logarithm(high + 1)
    refuses("are missing", st.Latency.roofline, **PAIR, batch=found.largest + 1, costs=costs)


def test_beyond_the_validated_classes_the_errors_of_the_nearest_are_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only batches 1 to 64 have errors; those of batch 64 hold above it, so the interval goes on and says so."""
    nearest = [ClassErrors(name, one, None, ("vllm",), True) for name, one in ((ONE, LARGE), (MANY, SMALL))]
    costs = dataclasses.replace(PUBLISHED, spec_step_seconds=1e-4, spec_sequence_seconds=2e-5)

    def found() -> BreakEven:
        latency = st.Latency.roofline(**PAIR, costs=costs)
        return known(confidence(st.evaluate(st.Tree.chain(4), st.Acceptance.by_rank([0.6]), latency)).break_even)

    given_errors(monkeypatch, *nearest)
    assumed = found()
    given_errors(monkeypatch, *nearest, ClassErrors("other", SMALL, None, ("vllm",), True))
    everywhere = found()
    assert assumed == dataclasses.replace(everywhere, validated=64)
    assert 64 < known(assumed.low) < assumed.batch < assumed.largest == everywhere.validated
    assert assumed.in_words.endswith("; not validated above batch 64: the errors of batch 64 are assumed there)")
    assert everywhere.in_words.endswith("with errors of this size)")


def test_without_a_validated_class_the_error_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """All batch sizes of an 8-bit target are in the class of 8 bit, which has no errors here."""
    given_errors(monkeypatch, ClassErrors(ONE, SMALL, None, ("vllm",)), ClassErrors(MANY, SMALL, None, ("vllm",)))
    eight: dict[str, Any] = PAIR | {"target": "llama-3.1-8b-fp8"}
    found = known(confidence(st.plan(RATES, st.Latency.roofline(**eight), max_budget=2)).break_even)
    assert (found.low, found.high, found.validated) == (None, None, 0)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (BreakEven(38, 12, 256, 256, 256), "pays up to batch 38 (12 to above 256 with errors of this size)"),
        (BreakEven(38, 0, 40, 256, 64), "pays up to batch 38 (below 1 to 40 with errors of this size)"),
        (BreakEven(0, 0, 7, 256, 64), "pays at no batch size (below 1 to 7 with errors of this size)"),
        (BreakEven(0, 0, 0, 256, 64), "pays at no batch size (with errors of this size too)"),
        (
            BreakEven(256, 256, 256, 256, 256),
            "pays up to batch 256, the largest considered (with errors of this size too)",
        ),
        (
            BreakEven(256, 256, 256, 256, 64),
            "pays up to batch 256, the largest considered (with errors of this size too; not validated above batch 64: "
            "the errors of batch 64 are assumed there)",
        ),
        (
            BreakEven(38, 12, 90, 256, 64),
            "pays up to batch 38 (12 to 90 with errors of this size; not validated above batch 64: the errors of batch "
            "64 are assumed there)",
        ),
        (BreakEven(38, None, None, 256, 0), "pays up to batch 38 (the error of this is unknown)"),
    ],
)
def test_a_break_even_in_words(found: BreakEven, said: str) -> None:
    assert found.in_words == f"speculation {said}"
