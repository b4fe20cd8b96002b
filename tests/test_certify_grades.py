"""What a certificate makes of outcomes that are as good as impossible, and of several faults at once."""

from __future__ import annotations

from typing import Any

import pytest

import spectheory as st
from spectheory.certify import Verdict
from tests.certified import guarded


def guarded_in_every_draw(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right but for a weight of 1e-38 on every token: it accepts nothing, and draws after a coin."""
    rng.random() < p[0][0]  # noqa: B015
    weights = p[0] + 1e-38
    return 0, rng.choice(len(weights), p=weights / weights.sum())


@pytest.mark.parametrize("verify", [guarded, guarded_in_every_draw])
def test_a_weight_of_a_guard_is_no_fault(verify: Any) -> None:
    """A token of probability 0 has the weight of a guard in a branch where a coin is exactly 0."""
    certificate = st.certify_verifier(verify, policies=[st.Levels((1,))], cases=80)
    assert certificate.verdict is Verdict.LOSSLESS, certificate.lines()
