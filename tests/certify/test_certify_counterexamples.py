"""The counterexample of exact mode: the largest total variation, a run with its random numbers, the same every time."""

from __future__ import annotations

import time
from fractions import Fraction
from operator import le
from typing import Any

import numpy as np

import spectheory as st
from spectheory.certify import Verdict
from spectheory.core.arrays import residual
from spectheory.core.chance import draw
from tests.certify.certified import rejecting

ONE = [st.Levels((1,))]


def corrects_from_p(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong: the correction is drawn from p. Its first random number is not used."""
    rng.random()
    return rejecting(draft, p, rng, p[0])


def test_a_counterexample_shows_its_random_numbers() -> None:
    found = st.certify_verifier(corrects_from_p, policies=ONE, sizes=(2,), cases=4)
    assert found.counterexample
    assert found.counterexample.lines()[:5] == [
        "policy Levels(counts=(1,), rule=DrawRule.IID)",
        "after anything: p = (1/2, 1/2)  q = (0, 1)",
        "a draft that shows it: after [] drew [1]",
        "a run that shows it emitted [1 0]; random numbers 2: uniform in (0, 1/2), 3: index 0 of weights (1/2, 1/2), "
        "1 that nothing depends on",
        "there the target's distribution is (1/2, 1/2), then (1/2, 1/2)",
    ]
    stored = found.to_json()["counterexample"]
    assert stored["draft"] == "after [] drew [1]"
    assert stored["run"] == list(found.counterexample.run)


def test_the_run_of_a_coin_of_exactly_0_and_of_an_error_is_shown() -> None:
    def or_equal(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        return rejecting(draft, p, rng, residual(p[0], draft.q[0]), le)

    found = st.certify_verifier(or_equal, policies=ONE, sizes=(2,), cases=20, zero_coins=True)
    assert found.counterexample
    assert "random numbers 1: exactly 0, 2: index" in found.counterexample.run[0]

    def invents(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        return 0, len(p[0]) if rng.random() < Fraction(1, 4) else 0

    report = "\n".join(st.certify_verifier(invents, policies=ONE, sizes=(2,), cases=1).lines())
    assert "LOSSY" in report
    assert "a run that shows it raised NotADistributionError; random numbers 1: uniform in (0, 1/4)" in report
    assert "before it, after [] drew [0]" in report

    def raises(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        raise KeyError(rng.integers(2))

    report = "\n".join(st.certify_verifier(raises, policies=ONE, sizes=(2,), cases=1).lines())
    place = f"in raises, test_certify_counterexamples.py line {raises.__code__.co_firstlineno + 1}"
    assert f"a run that shows it raised KeyError {place}; random numbers 1: index 0 of weights (1, 1)" in report


def nearly_right(tiny: Any) -> Any:
    """Draws from p, but adds a weight `tiny` to token 0."""

    def verify(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        weights = [*p[0]]
        weights[0] += tiny
        return 0, draw(np.array(weights, dtype=object), rng)

    return verify


def test_a_tiny_difference_of_fractions_is_a_fault_and_one_of_floats_is_rounding() -> None:
    """The total variation is tiny (1 - p0) / (1 + tiny), at most 1e-9."""
    tiny = Fraction(1, 10**9)
    exact = st.certify_verifier(nearly_right(tiny), policies=ONE, sizes=(2,), cases=6)
    assert exact.verdict is Verdict.LOSSY
    assert exact.method.endswith("in exact fractions")
    assert exact.counterexample
    assert exact.counterexample.total_variation == tiny / (1 + tiny)
    rounded = st.certify_verifier(nearly_right(1e-9), policies=ONE, sizes=(2,), cases=6)
    assert rounded.verdict is Verdict.LOSSLESS
    assert rounded.method.endswith("in floating point, to 1e-6")


def test_a_call_that_takes_too_long_leaves_the_verdict_open() -> None:
    """Even while the counterexample is made simpler."""
    compared: list[int] = []

    def verify(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        start = time.process_time()
        while len(compared) > 5 and time.process_time() < start + 0.6:
            pass
        return 0, 0

    found = st.certify_verifier(verify, policies=ONE, sizes=(2,), cases=4, seconds=0.5, progress=compared.append)
    assert len(compared) > 5
    assert found.verdict is Verdict.UNDECIDED
    assert "did not return within 0.5 seconds of processor time" in (found.failure or "")
