"""The naive distribution by exact enumeration over small vocabularies."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as hs

import spectheory as st
from spectheory.core.arrays import accept_ratio, residual
from spectheory.otlp import ArgMax, Naive
from spectheory.verify import Greedy, Outcome, TopDown, walk
from tests.enumeration import distributions, sequences


@pytest.mark.parametrize("rule", Naive.rules)
@given(p=distributions(3), q=distributions(3), k=hs.integers(1, 3))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_the_naive_solver_keeps_the_target(rule: st.DrawRule, p: np.ndarray, q: np.ndarray, k: int) -> None:
    drafts = sequences(q, k, rule)
    if not drafts:  # fewer tokens than draws
        return
    emitted = np.sum([chance * Naive()._distribution(p, q, x) for x, chance in drafts], axis=0)
    assert (emitted == p).all()
    if rule is st.DrawRule.IID:
        accepted = sum(chance * sum(Naive()._distribution(p, q, x)[sorted(set(x))]) for x, chance in drafts)
        assert accepted == Naive().acceptance(p, q, k)


@given(p=distributions(4), q=distributions(4))
@settings(deadline=None, derandomize=True)
def test_three_number_systems_agree(p: np.ndarray, q: np.ndarray) -> None:
    for drafts in ([0], [3, 1], [2, 2]):
        exact = Naive()._distribution(p, q, drafts).astype(float)
        p64, q64 = p.astype(float), q.astype(float)
        np.testing.assert_allclose(Naive()._distribution(p64, q64, drafts), exact, atol=1e-12)
        np.testing.assert_allclose(
            Naive()._distribution(torch.tensor(p64), torch.tensor(q64), drafts), exact, atol=1e-12
        )
        np.testing.assert_array_equal(ArgMax()._distribution(p64, q64, drafts), np.eye(4)[p64.argmax()])


def test_the_guards() -> None:
    half = np.array([Fraction(1, 2), Fraction(1, 2), Fraction(0)])
    assert (residual(half, half) == half).all()
    one, none = Fraction(1), Fraction(0)
    ratios = [accept_ratio(*pq) for pq in ((none, none), (one, none), (none, one), (one / 3, one / 2), (one, one / 2))]
    assert ratios == [0, 1, 0, Fraction(2, 3), 1]
    tiny = torch.tensor([0.5, 1e-40], dtype=torch.float32)
    assert accept_ratio(tiny[0], tiny[1]) == 1


@given(data=hs.data())
@settings(deadline=None, derandomize=True, max_examples=25)
def test_a_whole_tree_keeps_the_target(data: hs.DataObject) -> None:
    """Two drafted levels over two tokens: the joint distribution of two emitted tokens is the target's, by
    enumeration.
    """
    context_p = {c: data.draw(distributions(2)) for c in [(), (0,), (1,), *itertools.product((0, 1), repeat=2)]}
    context_q = {c: data.draw(distributions(2)) for c in [(), (0,), (1,)]}
    rule = st.DrawRule.IID
    joint: dict[tuple[int, ...], Fraction] = {pair: Fraction(0) for pair in itertools.product((0, 1), repeat=2)}
    for first, chance in sequences(context_q[()], 2, rule):
        heads = list(dict.fromkeys(first))
        belows = itertools.product(*(sequences(context_q[(head,)], 1, rule) for head in heads))
        for below in belows:
            weight = chance
            for _, below_chance in below:
                weight *= below_chance
            tree = st.Tree([-1, *[0] * len(heads), *range(1, len(heads) + 1)])
            tokens = [0, *heads, *(x[0] for x, _ in below)]
            contexts = [(), *((h,) for h in heads), *((h, x[0]) for h, (x, _) in zip(heads, below, strict=True))]
            q = [context_q.get(c, context_q[()]) for c in contexts]
            draws = [tuple(1 + heads.index(x) for x in first), *((1 + len(heads) + i,) for i in range(len(heads)))]
            draws += [()] * len(heads)
            draft = st.Draft(tree, tokens, q, tuple(draws), rule)
            outcome = TopDown(Naive()).outcome(draft, [context_p[c] for c in contexts])
            assert sum(outcome.stop) == 1
            for node, context in enumerate(contexts):
                for token, share in enumerate(outcome.next_token[node]):
                    text = (*context, token)[:2]
                    mass = weight * outcome.stop[node] * share
                    for rest in itertools.product((0, 1), repeat=2 - len(text)):
                        tail = context_p[text][rest[0]] if rest else 1
                        joint[(*text, *rest)] += mass * tail
    assert joint == {text: context_p[()][text[0]] * context_p[text[:1]][text[1]] for text in joint}


def test_sampling_an_outcome_follows_its_distribution() -> None:
    p = np.array([[0.2, 0.8], [0.5, 0.5]])
    q = np.array([[0.6, 0.4], [0.5, 0.5]])
    draft = st.Draft.in_order(st.Tree.chain(1), [0, 0], q, st.DrawRule.IID)
    outcome = TopDown(Naive()).outcome(draft, p)
    assert outcome.block_efficiency == pytest.approx(1 + 0.2 / 0.6)
    rng = np.random.default_rng(0)
    samples = [outcome.sample(rng) for _ in range(4000)]
    rounded = [row.astype(np.float32) for row in outcome.next_token]
    Outcome(outcome.tree, [np.float32(s) for s in outcome.stop], rounded).sample(rng)
    # binomial, 5 standard errors: level 6e-7
    share = np.mean([node == 1 for node, _ in samples])
    assert abs(share - 1 / 3) < 5 * np.sqrt(2 / 9 / 4000)
    assert {token for node, token in samples if node == 0} == {1}


def test_greedy_keeps_the_argmax_path() -> None:
    p = np.array([[0.1, 0.7, 0.2], [0.6, 0.2, 0.2], [0.3, 0.3, 0.4]])
    draft = st.Draft.in_order(st.Tree([-1, 0, 0]), [0, 0, 1], p, st.DrawRule.TOP_K)
    outcome = Greedy().outcome(draft, p)
    assert [float(s) for s in outcome.stop] == [0, 0, 1]
    assert outcome.block_efficiency == 2
    assert outcome.next_token[2].argmax() == 2
    assert walk(draft.draws, draft.tokens, lambda node: int(p[node].argmax())) == ([2], 2)


def test_a_draft_that_does_not_fit_is_refused() -> None:
    q = np.full((2, 2), 0.5)
    with pytest.raises(ValueError, match="one entry for each of the 3 nodes, got 2, 2 and 3"):
        st.Draft.in_order(st.Tree.chain(2), [0, 0], q, st.DrawRule.IID)
    with pytest.raises(ValueError, match=r"draws\[0\] must name the children \[1\] of that node, got \[\]"):
        st.Draft(st.Tree.chain(1), [0, 0], q, ((), ()), st.DrawRule.IID)
    with pytest.raises(ValueError, match="draws contains a child twice"):
        st.Draft(st.Tree.chain(1), [0, 0], q, ((1, 1), ()), st.DrawRule.TOP_K)
    top = st.Draft.in_order(st.Tree.chain(1), [0, 0], q, st.DrawRule.TOP_K)
    with pytest.raises(ValueError, match=r"draft.rule is TOP_K, TopDown\(solver=Naive\(\)\) is lossless for IID"):
        TopDown(Naive()).outcome(top, q)
