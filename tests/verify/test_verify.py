"""Outcomes: guarded ratios, sampling, the greedy path, and drafts that do not fit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import spectheory as st
from spectheory.core.arrays import accept_ratio, residual
from spectheory.otlp import ArgMax, Naive
from spectheory.verify import Greedy, Outcome, TopDown, walk


def test_the_guards() -> None:
    half = np.array([Fraction(1, 2), Fraction(1, 2), Fraction(0)])
    assert (residual(half, half) == half).all()
    one, none = Fraction(1), Fraction(0)
    ratios = [accept_ratio(*pq) for pq in ((none, none), (one, none), (none, one), (one / 3, one / 2), (one, one / 2))]
    assert ratios == [0, 1, 0, Fraction(2, 3), 1]
    tiny = torch.tensor([0.5, 1e-40], dtype=torch.float32)
    assert accept_ratio(tiny[0], tiny[1]) == 1


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
    assert ArgMax()._distribution(p[0], p[0], [0]).tolist() == [0, 1, 0]
    outcome = Greedy().outcome(draft, p)
    assert [float(s) for s in outcome.stop] == [0, 0, 1]
    assert outcome.block_efficiency == 2
    assert outcome.next_token[2].argmax() == 2
    assert walk(draft.draws, draft.tokens, lambda node: int(p[node].argmax())) == ([2], 2)
