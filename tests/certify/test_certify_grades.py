"""What a certificate makes of outcomes that are as good as impossible, and of several faults at once."""

from __future__ import annotations

import re
from fractions import Fraction
from operator import le
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.certify import Verdict
from spectheory.core.arrays import residual
from tests.certify.certified import (
    drops_below_epsilon,
    must_be_a_float,
    own_sample,
    raises_after_a_coin,
    rejecting,
    to_torch,
    top_4,
)


def accepts_by_less_or_equal(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but for a coin of exactly 0."""
    return rejecting(draft, p, rng, residual(p[0], draft.q[0]), le)


def also_corrects_from_p(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong by a total variation of up to 1/4, and for a coin of exactly 0."""
    return rejecting(draft, p, rng, p[0], le)


def test_a_coin_of_exactly_0_is_a_note_unless_asked() -> None:
    noted = st.certify_verifier(accepts_by_less_or_equal, policies=[st.Levels((1,))], cases=24)
    assert noted.verdict is Verdict.LOSSLESS, noted.lines()
    (note,) = noted.notes
    assert "of probability 0, when a random number is exactly 0" in note
    assert f"  note: {note}" in noted.lines()
    asked = st.certify_verifier(accepts_by_less_or_equal, policies=[st.Levels((1,))], cases=24, zero_coins=True)
    assert asked.verdict is Verdict.LOSSY
    assert "total variation 0" in "\n".join(asked.lines())


@pytest.mark.parametrize("zero_coins", [False, True])
def test_a_coin_of_exactly_0_does_not_mask_a_fault(zero_coins: bool) -> None:
    found = st.certify_verifier(also_corrects_from_p, policies=[st.Levels((1,))], cases=24, zero_coins=zero_coins)
    assert found.counterexample
    assert found.counterexample.total_variation == Fraction(1, 4)
    assert len(found.notes) == (not zero_coins)


def leaves_the_vocabulary(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, by inversion, but the rounded sum of the probabilities is below 1."""
    coin, sums = rng.random(), np.cumsum(p[0] * (1 - 2**-50))
    return 0, sum(not coin < edge for edge in sums)


def raises_sometimes(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    if rng.integers(4) == 0:
        raise ValueError("unlucky")
    return 0, rng.choice(len(p[0]), p=p[0])


def raises_and_is_wrong(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    if rng.integers(4) == 0:
        raise ValueError("unlucky")
    return 0, 0


def test_a_branch_that_rounding_reaches_is_a_note_with_its_probability() -> None:
    found = st.certify_verifier(leaves_the_vocabulary, policies=[st.Levels((1,))], cases=24)
    assert found.verdict is Verdict.LOSSLESS, found.lines()
    note = next(note for note in found.notes if "rounding" in note)
    assert "raised NotADistributionError" in note
    assert re.search(r"of probability \d\S*e-1[56] at most", note), note


def test_an_error_with_a_real_probability_is_not_passed_and_does_not_mask() -> None:
    found = st.certify_verifier(raises_sometimes, policies=[st.Levels((1,))], cases=24)
    assert found.verdict is Verdict.UNDECIDED
    assert "with probability 1/4 on one draft: unlucky" in (found.failure or "")
    assert found.cases >= 18
    wrong = st.certify_verifier(raises_and_is_wrong, policies=[st.Levels((1,))], cases=24)
    assert wrong.verdict is Verdict.LOSSY
    assert wrong.counterexample
    assert wrong.counterexample.total_variation == Fraction(3, 4)


@pytest.mark.parametrize("verify", [to_torch, must_be_a_float])
def test_code_that_needs_the_value_of_a_random_number_cannot_be_replayed(verify: Any) -> None:
    found = st.certify_verifier(verify, policies=[st.Levels((1,))], cases=6)
    assert found.verdict is Verdict.UNDECIDED
    assert found.cannot_replay, found.failure
    assert ("torch.sqrt" if verify is to_torch else "not on those of numpy.random") in (found.failure or "")


def test_an_error_of_the_code_itself_is_not_put_down_to_the_replay() -> None:
    """The calls with numpy.random raise it too, except with probability e^-20; fixed seed."""
    found = st.certify_verifier(raises_after_a_coin, policies=[st.Levels((1,))], cases=6)
    assert found.verdict is Verdict.UNDECIDED
    assert not found.cannot_replay
    assert "raised TypeError in raises_after_a_coin" in (found.failure or "")


@pytest.mark.parametrize("rule", [drops_below_epsilon, top_4])
def test_rules_that_act_on_small_probabilities_or_many_tokens_are_met(rule: Any) -> None:
    """Exact: a token of probability 1e-6 is never emitted, or the fifth of six tokens."""
    found = st.certify_verifier(own_sample(rule), policies=[st.Levels((1,))], cases=60)
    assert found.verdict is Verdict.LOSSY, found.lines()
