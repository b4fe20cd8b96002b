"""What exact mode makes of a fault: its counterexample, outcomes that are as good as impossible, several faults."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from fractions import Fraction
from operator import le, lt
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.certify import Verdict
from spectheory.core.arrays import residual
from spectheory.core.chance import draw

ONE = [st.Levels((1,))]


def rejecting(
    draft: st.Draft, p: Any, rng: Any, correction: Any, accepts: Callable[[Any, Any], Any] = lt
) -> tuple[int, int]:
    """Rejection sampling of a single draft; the correction is drawn from this distribution."""
    child = draft.draws[0][0]
    token = draft.tokens[child]
    if accepts(rng.random() * draft.q[0][token], p[0][token]):
        return child, rng.choice(len(p[child]), p=p[child])
    return 0, rng.choice(len(correction), p=correction)


def to_torch(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but it turns a random number into a tensor and takes its root."""
    import torch

    edges = torch.tensor([float(x) for x in p[0]], dtype=torch.float64).cumsum(0)
    coin = torch.as_tensor(rng.random()).double().sqrt()
    return 0, min(int(torch.searchsorted(edges.sqrt(), coin, right=True)), len(edges) - 1)


def must_be_a_float(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but it refuses any other type."""
    coin = rng.random()
    if not isinstance(coin, float):
        raise ValueError(f"not a float: {coin}")
    return 0, int(np.searchsorted(np.cumsum([float(x) for x in p[0][:-1]]), coin, side="right"))


def raises_after_a_coin(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Raises a TypeError of its own in a quarter of the calls."""
    if rng.random() < 0.25:
        raise TypeError("its own")
    return 0, rng.choice(len(p[0]), p=p[0])


def own_sample(processed: Any) -> Any:
    """A verifier that draws its token from `processed(p)`, where the target is p. It accepts the draft by chance."""

    def verify(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        weights = processed(p[0])
        return 0, rng.choice(len(weights), p=weights / weights.sum())

    return verify


def drops_below_epsilon(p: Any) -> Any:
    return p * (p * 50_000 >= 1)


def top_4(p: Any) -> Any:
    kept = sorted(range(len(p)), key=lambda token: -p[token])[:4]
    return np.array([x if token in kept else x * 0 for token, x in enumerate(p)], dtype=object)


def accepts_by_less_or_equal(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but for a coin of exactly 0."""
    return rejecting(draft, p, rng, residual(p[0], draft.q[0]), le)


def also_corrects_from_p(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong by a total variation of up to 1/4, and for a coin of exactly 0."""
    return rejecting(draft, p, rng, p[0], le)


def test_a_coin_of_exactly_0_is_a_note_unless_asked() -> None:
    noted = st.certify_verifier(accepts_by_less_or_equal, policies=ONE, cases=24)
    assert noted.verdict is Verdict.LOSSLESS, noted.lines()
    (note,) = noted.notes
    assert "of probability 0, when a random number is exactly 0" in note
    assert f"  note: {note}" in noted.lines()
    asked = st.certify_verifier(accepts_by_less_or_equal, policies=ONE, cases=24, zero_coins=True)
    assert asked.verdict is Verdict.LOSSY
    assert "total variation 0" in "\n".join(asked.lines())


@pytest.mark.parametrize("zero_coins", [False, True])
def test_a_coin_of_exactly_0_does_not_mask_a_fault(zero_coins: bool) -> None:
    found = st.certify_verifier(also_corrects_from_p, policies=ONE, cases=24, zero_coins=zero_coins)
    assert found.counterexample
    assert found.counterexample.total_variation > 0
    assert len(found.notes) == (not zero_coins)


def leaves_the_vocabulary(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, by inversion, but the rounded sum of the probabilities is below 1."""
    coin, sums = rng.random(), np.cumsum(p[0] * (1 - 2**-50))
    return 0, sum(not coin < edge for edge in sums)


def nan_in_a_branch(draft: st.Draft, p: Any, rng: Any) -> tuple[int, Any]:
    if rng.random() < 1 / 64:
        return 0, np.divide(0.0, 0.0)
    return 0, rng.choice(len(p[0]), p=p[0])


def raises_and_is_wrong(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    if rng.integers(4) == 0:
        raise ValueError("unlucky")
    return 0, 0


def test_a_branch_that_rounding_reaches_is_a_note_with_its_probability() -> None:
    found = st.certify_verifier(leaves_the_vocabulary, policies=ONE, cases=24)
    assert found.verdict is Verdict.LOSSLESS, found.lines()
    note = next(note for note in found.notes if "rounding" in note)
    assert "raised NotADistributionError" in note
    assert re.search(r"of probability \d\S*e-1[56] at most", note), note


def test_an_error_with_a_real_probability_is_not_passed_and_does_not_mask() -> None:
    found = st.certify_verifier(nan_in_a_branch, policies=ONE, cases=24)
    assert found.verdict is Verdict.UNDECIDED
    assert "raised TypeError, with probability 1/64 on one draft" in (found.failure or "")
    assert found.cases >= 18
    wrong = st.certify_verifier(raises_and_is_wrong, policies=ONE, cases=24)
    assert wrong.verdict is Verdict.LOSSY
    assert wrong.counterexample
    assert wrong.counterexample.total_variation > Fraction(1, 4)


@pytest.mark.parametrize("verify", [to_torch, must_be_a_float])
def test_code_that_needs_the_value_of_a_random_number_cannot_be_replayed(verify: Any) -> None:
    found = st.certify_verifier(verify, policies=ONE, cases=6)
    assert found.verdict is Verdict.UNDECIDED
    assert found.cannot_replay, found.failure
    assert ("torch.sqrt" if verify is to_torch else "not on those of numpy.random") in (found.failure or "")


def swallows(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but it catches the error of the replay and then accepts."""
    try:
        coin = float(rng.random())
    except Exception:
        coin = 0.0
    return rejecting(
        draft, p, rng, residual(p[0], draft.q[0]), lambda one, other: coin * draft.q[0][draft.tokens[1]] < other
    )


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


def cannot_be_shown(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    raise UnreadableError


@pytest.mark.parametrize(
    ("verify", "said"),
    [(swallows, "used as a number"), (cannot_be_shown, "raised UnreadableError, which cannot be shown")],
)
def test_a_refusal_that_the_code_catches_and_an_error_without_text_are_undecided(verify: Any, said: str) -> None:
    found = st.certify_verifier(verify, policies=ONE, cases=6, sizes=(2,))
    assert found.verdict is Verdict.UNDECIDED
    assert said in (found.failure or "")


def test_probabilities_in_float32_are_enumerated_as_numpy_takes_them() -> None:
    def verify(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        weights = np.asarray(p[0], np.float32)
        return 0, rng.choice(len(weights), p=weights / weights.sum())

    assert st.certify_verifier(verify, policies=ONE, cases=6, sizes=(3,)).verdict is Verdict.LOSSLESS


def test_low_precision_passes_within_a_tolerance_only() -> None:
    """The draws are enumerated on the 256 values of bfloat16."""
    import torch

    def verify(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        return 0, int((torch.rand((), dtype=torch.bfloat16) >= float(p[0][0])).item())

    for tolerance, verdict in ((0, Verdict.LOSSY), (1 / 256, Verdict.WITHIN)):
        found = st.certify_verifier(verify, policies=ONE, cases=2, sizes=(2,), tolerance=tolerance)
        assert found.verdict is verdict
        assert 0 < found.farthest <= 1 / 256


def test_an_error_of_the_code_itself_is_not_put_down_to_the_replay() -> None:
    """The calls with numpy.random raise it too, except with probability e^-20; fixed seed."""
    found = st.certify_verifier(raises_after_a_coin, policies=ONE, cases=6)
    assert found.verdict is Verdict.UNDECIDED
    assert not found.cannot_replay
    assert "raised TypeError in raises_after_a_coin" in (found.failure or "")


@pytest.mark.parametrize("rule", [drops_below_epsilon, top_4])
def test_rules_that_act_on_small_probabilities_or_many_tokens_are_met(rule: Any) -> None:
    """Exact: a token of probability 1e-6 is never emitted, or the fifth of six tokens."""
    found = st.certify_verifier(own_sample(rule), policies=ONE, cases=60)
    assert found.verdict is Verdict.LOSSY, found.lines()


def corrects_from_p(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong: the correction is drawn from p. Its first random number is not used."""
    rng.random()
    return rejecting(draft, p, rng, p[0])


def test_a_counterexample_shows_its_random_numbers() -> None:
    found = st.certify_verifier(corrects_from_p, policies=ONE, sizes=(2,), cases=4)
    assert found.counterexample
    assert found.counterexample.lines()[:5] == [
        "policy Levels(counts=(1,), rule=DrawRule.IID)",
        "after anything: p = (1/3, 2/3)  q = (4/5, 1/5)",
        "a draft that shows it: after [] drew [0]",
        "a run that shows it emitted [0 1]; random numbers 2: uniform in (0, 5/12), 3: index 1 of weights (1/3, 2/3), "
        "1 that nothing depends on",
        "there the target's distribution is (1/3, 2/3), then (1/3, 2/3)",
    ]
    stored = found.to_json()["counterexample"]
    assert stored["draft"] == "after [] drew [0]"
    assert stored["run"] == list(found.counterexample.run)


def test_the_run_of_a_coin_of_exactly_0_and_of_an_error_is_shown() -> None:
    found = st.certify_verifier(accepts_by_less_or_equal, policies=ONE, sizes=(2,), cases=20, zero_coins=True)
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
    place = f"in raises, test_counterexamples.py line {raises.__code__.co_firstlineno + 1}"
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
    assert 0 < exact.counterexample.total_variation <= tiny / (1 + tiny)
    rounded = st.certify_verifier(nearly_right(1e-9), policies=ONE, sizes=(2,), cases=6)
    assert rounded.verdict is Verdict.LOSSLESS
    assert rounded.method.endswith("in floating point, to 1e-6")


def test_a_call_that_takes_too_long_leaves_the_verdict_open() -> None:
    calls = itertools.count()

    def verify(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        start, late = time.process_time(), next(calls) > 5
        while late and time.process_time() < start + 0.6:
            pass
        return 0, 0

    found = st.certify_verifier(verify, policies=ONE, sizes=(2,), cases=10, seconds=0.5)
    assert found.verdict is Verdict.UNDECIDED
    assert "did not return within 0.5 seconds of processor time" in (found.failure or "")
