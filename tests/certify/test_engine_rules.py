"""Lossy rules of engines: what they emit at a node, against plain enumeration and closed forms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from spectheory import DrawRule
from spectheory.certify.strategies import pairs
from spectheory.certify.zoo.engine_rules import AcceptanceThreshold, LossyRule, RelaxedAcceptance, Typical
from tests.enumeration import enumerated, exact
from tests.refusals import refuses

HALF = Fraction(1, 2)
RULES = (Typical(), Typical(Fraction(1, 4), 1), AcceptanceThreshold(accumulated=HALF), AcceptanceThreshold(single=HALF))
SMALL = settings(max_examples=12, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("rule", [*RULES, RelaxedAcceptance(2, Fraction(1, 4))], ids=str)
@SMALL
@given(pairs(3), hs.integers(1, 3), hs.sampled_from([DrawRule.IID, DrawRule.NO_REPLACEMENT, DrawRule.TOP_K]))
def test_a_rule_emits_a_distribution(rule: LossyRule, pair: Any, k: int, drawn: DrawRule) -> None:
    p, q = pair
    emitted, accepted = enumerated(rule, p, q, k, drawn)
    assert sum(emitted) == 1
    if drawn is DrawRule.IID:
        assert rule.acceptance(p, q, k) == accepted


@SMALL
@given(pairs(3), hs.integers(1, 3))
def test_without_slack_the_target_is_kept(pair: Any, k: int) -> None:
    p, q = pair
    assert (enumerated(AcceptanceThreshold(), p, q, k, DrawRule.IID)[0] == p).all()
    greedy = np.array([Fraction(token == int(p.argmax())) for token in range(3)], dtype=object)
    assert (enumerated(RelaxedAcceptance(1), p, q, k, DrawRule.IID)[0] == greedy).all()


@SMALL
@given(pairs(4))
def test_closed_forms_for_one_draft(pair: Any) -> None:
    p, q = pair
    above = p > Typical(Fraction(1, 4), 1).threshold(p)
    emitted, _ = enumerated(Typical(Fraction(1, 4), 1), p, q, 1, DrawRule.IID)
    assert (emitted == q * above + (1 - (q * above).sum()) * p).all()
    kept = np.array([min(Fraction(1), 2 * x) for x in p], dtype=object)
    rest = [q[x] * (1 - kept[x]) / (1 - p[x]) if kept[x] < 1 else 0 for x in range(4)]
    left = [p[y] * sum(rest[x] for x in range(4) if x != y) for y in range(4)]
    emitted, _ = enumerated(AcceptanceThreshold(accumulated=HALF), p, q, 1, DrawRule.IID)
    assert (emitted == q * kept + np.array(left, dtype=object)).all()


def test_named_examples() -> None:
    p, q = exact(1, 2), exact(2, 1)
    emitted, accepted = enumerated(AcceptanceThreshold(accumulated=HALF), p, q, 1, DrawRule.IID)
    assert (abs(emitted - p).sum() / 2, accepted) == (Fraction(1, 9), Fraction(7, 9))
    assert abs(enumerated(Typical(), p, q, 1, DrawRule.IID)[0] - p).sum() / 2 == Fraction(1, 3)
    refuses("accumulated above 0 and at most 1", AcceptanceThreshold, accumulated=0)
