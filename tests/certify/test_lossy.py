"""Lossy rules: what they emit, how far texts are from the target, and the bounds, against plain enumeration."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import spectheory as st
from spectheory import DrawRule, Levels, World, branches
from spectheory.certify.strategies import pairs, worlds
from spectheory.core.chance import draw
from spectheory.lossy import (
    AcceptanceThreshold,
    FLy,
    LossyRule,
    Mismatch,
    RelaxedAcceptance,
    TopK,
    TopP,
    Typical,
    lossy_step,
    text_bound,
    text_error,
)
from spectheory.otlp import NSS
from spectheory.verify import TopDown
from tests.enumeration import exact, sequences
from tests.random_drafts import grown, joint, random_world
from tests.refusals import refuses

HALF = Fraction(1, 2)
RULES: tuple[LossyRule, ...] = (
    Typical(),
    Typical(Fraction(1, 4), 1),
    AcceptanceThreshold(accumulated=HALF),
    AcceptanceThreshold(single=HALF),
    RelaxedAcceptance(2, Fraction(1, 4)),
    Mismatch(draft=TopK(1)),
    Mismatch(drawn=TopP(HALF)),
    Mismatch(target=TopK(2)),
)
ONE_TOKEN = World.constant(exact(1), exact(1))
SMALL = settings(max_examples=12, deadline=None, derandomize=True, database=None)


def total_variation(p: Any, q: Any) -> Fraction:
    return sum((max(x - y, Fraction(0)) for x, y in zip(p, q, strict=True)), Fraction(0))


@pytest.mark.parametrize("rule", RULES, ids=str)
@SMALL
@given(pairs(3), hs.integers(1, 3), hs.sampled_from([DrawRule.IID, DrawRule.NO_REPLACEMENT, DrawRule.TOP_K]))
def test_a_step_is_the_sum_over_all_drafts(rule: LossyRule, pair: Any, k: int, drawn: DrawRule) -> None:
    p, q = pair
    step = lossy_step(rule, p, q, k, drawn)
    emitted, accepted = p * 0, Fraction(0)
    for drafts, chance in sequences(rule.drawn_from(q), k, drawn):
        distribution = rule._distribution(p, q, drafts)
        assert sum(distribution) == 1
        assert min(distribution) >= 0
        emitted = emitted + chance * distribution
        accepted += chance * sum(distribution[sorted(set(drafts))])
    assert (step.distribution == emitted).all()
    assert step.acceptance == accepted == sum(step.accepted)
    assert step.total_variation == total_variation(emitted, rule.wanted(p))
    assert step.lossless_acceptance == st.optimal_acceptance(rule.wanted(p), rule.drawn_from(q), k, drawn)
    if drawn is DrawRule.IID and not isinstance(rule, Mismatch):
        assert rule.acceptance(p, q, k) == accepted
    floats = lossy_step(rule, p.astype(float), q.astype(float), k, drawn)
    if not isinstance(rule, RelaxedAcceptance):  # its comparisons with ties depend on rounding
        assert float(step.total_variation) == pytest.approx(floats.total_variation, abs=1e-12)


@SMALL
@given(pairs(3), hs.integers(1, 3))
def test_rules_without_slack_are_lossless(pair: Any, k: int) -> None:
    p, q = pair
    for rule in (AcceptanceThreshold(), RelaxedAcceptance(1), Mismatch(), Typical(1, 0) if min(p) > 0 else Mismatch()):
        step = lossy_step(rule, p, q, k)
        if isinstance(rule, Typical):
            assert step.acceptance == 1
        else:
            assert step.total_variation == 0
            assert step.acceptance <= step.lossless_acceptance
    step = lossy_step(Mismatch(target=TopK(2)), p, q, k)
    assert (step.distribution == TopK(2)(p)).all()


@SMALL
@given(pairs(4))
def test_closed_forms_for_one_draft(pair: Any) -> None:
    p, q = pair
    rule = Typical(Fraction(1, 4), 1)
    above = p > rule.threshold(p)
    assert (lossy_step(rule, p, q).distribution == q * above + (1 - (q * above).sum()) * p).all()
    kept = np.array([min(Fraction(1), 2 * x) for x in p], dtype=object)
    step = lossy_step(AcceptanceThreshold(accumulated=HALF), p, q)
    assert (step.accepted == q * kept).all()
    rest = [q[x] * (1 - kept[x]) / (1 - p[x]) if kept[x] < 1 else 0 for x in range(4)]
    left = [p[y] * sum(rest[x] for x in range(4) if x != y) for y in range(4)]
    assert (step.distribution == q * kept + np.array(left, dtype=object)).all()


def test_named_examples() -> None:
    p, q = exact(1, 2), exact(2, 1)
    step = lossy_step(AcceptanceThreshold(accumulated=HALF), p, q)
    assert (step.total_variation, step.acceptance) == (Fraction(1, 9), Fraction(7, 9))
    assert lossy_step(Mismatch(drawn=TopK(1)), p, q).total_variation == Fraction(1, 6)
    assert lossy_step(RelaxedAcceptance(2, 1), p, q).total_variation == Fraction(2, 3)
    assert lossy_step(Typical(), p, q).total_variation == Fraction(1, 3)
    assert st.certify_verifier(Typical(), policies=[Levels((1,))], cases=4).verdict is st.Verdict.LOSSY


def fly_by_hand(draft: Any, p: Any, rule: FLy, rng: Any) -> tuple[int, int]:
    """The target's tokens are drawn first; then the positions are marked, as in the code of the authors."""
    length, window = draft.tree.budget, rule.window
    own = [int(row.argmax()) if rule.greedy else draw(row, rng) for row in p]
    match = [own[i] == draft.tokens[i + 1] for i in range(length)]
    forgiven = [
        not match[i]
        and i + window < length
        and all(match[i + 1 : i + window])
        and rule._may_be_forgiven(i, length, p[i])
        for i in range(length)
    ]
    for i in range(length):
        if not (match[i] or forgiven[i]):
            return i, own[i]
    return length, own[length]


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize(("window", "length"), [(2, 3), (2, 4), (3, 4), (3, 5)])
def test_fly_is_the_procedure_of_its_code(greedy: bool, window: int, length: int) -> None:
    rule = FLy(window, 0.1, greedy)
    for seed in range(10):
        draft, p = grown(Levels((1,) * length), seed, 2)
        found: dict[tuple[int, int], Fraction] = {}
        for result, chance in branches(lambda rng, draft=draft, p=p: fly_by_hand(draft, p, rule, rng)):
            found[result] = found.get(result, Fraction(0)) + chance
        assert joint(rule.outcome(draft, p)) == {result: mass for result, mass in found.items() if mass}


def decoded(rule: LossyRule, world: World, policy: Levels, length: int, rng: Any) -> tuple[int, ...]:
    """A text, token by token from the root of each draft down. No verifier and no tree."""
    text: tuple[int, ...] = ()
    depth = 0
    while len(text) < length:
        p, q, k = world.p(text), world.q(text), policy.draws(depth, 1)
        drafts = policy.rule.children(rule.drawn_from(q), k, rng) if k else []
        token = draw(rule._distribution(p, q, drafts) if k else rule.wanted(p), rng)
        text, depth = (*text, token), depth + 1 if token in drafts else 0
    return text


@pytest.mark.parametrize("policy", [Levels((1, 1)), Levels((2, 1))], ids=str)
@pytest.mark.parametrize("rule", RULES[1:], ids=str)
def test_texts_are_those_of_decoding_and_the_bounds_hold(rule: LossyRule, policy: Levels) -> None:
    for seed in range(3):
        world = random_world(np.random.default_rng(seed), 2)
        found = text_error(rule, world, policy, 3)
        emitted: dict[tuple[int, ...], Fraction] = {}
        for text, chance in branches(lambda rng, world=world: decoded(rule, world, policy, 3, rng)):
            emitted[text] = emitted.get(text, Fraction(0)) + chance
        off = Fraction(0)
        for text, mass in emitted.items():
            target = Fraction(1)
            for i, token in enumerate(text):
                target *= rule.wanted(world.p(text[:i]))[token]
            off += max(mass - target, Fraction(0))
        assert found.total_variation == off
        assert found.total_variation <= found.by_cycles <= found.by_steps
        contexts = [list(np.ndindex((2,) * t)) for t in range(3)]
        errors = [
            max(lossy_step(rule, world.p(c), world.q(c), k).total_variation for c in contexts[t] for k in (1, 2))
            for t in range(3)
        ]
        assert found.total_variation <= text_bound(errors) <= sum(errors)
        assert found.by_steps <= sum(errors)


@SMALL
@given(worlds(2, 3))
def test_a_lossless_rule_has_no_error_and_the_calls_of_its_verifier(world: World) -> None:
    found = text_error(AcceptanceThreshold(), world, Levels((2, 1)), 3, lossless=TopDown(NSS()))
    assert (found.total_variation, found.by_cycles, found.by_steps) == (0, 0, 0)
    assert found.tokens_per_call == found.lossless_tokens_per_call


def test_fly_gains_and_loses() -> None:
    """Drafts that the target never emits are forgiven at every third position at most."""
    p, q = exact(5, 4), exact(0, 1)
    world = World.table({(): (p, q), (1,): (exact(0, 1), q), (1, 1): (exact(0, 1), q), (1, 1, 1): (exact(0, 1), q)})
    found = text_error(FLy(window=2, entropy=0.5), world, Levels((1, 1, 1)), 3)
    assert found.total_variation == found.by_cycles == 1
    assert found.by_steps is None
    assert found.tokens_per_call > found.lossless_tokens_per_call


def test_what_cannot_be_used_is_refused() -> None:
    refuses("epsilon and delta must be at least 0", Typical, -1)
    refuses("accumulated above 0 and at most 1", AcceptanceThreshold, accumulated=0)
    refuses("top must be at least 1", RelaxedAcceptance, 0)
    refuses("k must be at least 1 token", TopK, 0)
    refuses("mass must be above 0", TopP, 0)
    refuses("window must be at least 2", FLy, 1)
    refuses("length must be at least 1", text_error, Typical(), World.constant(exact(1), exact(1)), Levels((1,)), 0)
    refuses("got 2 and 3 tokens", lossy_step, Typical(), exact(1, 1), exact(1, 1, 1))
    refuses("more than 50,000 ways", lossy_step, Typical(), np.full(300, 1 / 300), np.full(300, 1 / 300), 2)
