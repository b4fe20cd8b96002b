"""Tests of the target's beam trees and of TALF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from reference.losses import BeamTrees, Eagle3, Talf, beam_trees, unroll, unroll_tree
from spectheory.search import Eagle2, MarkovDraft
from spectheory.search.draft_models import DraftedPath
from tests.helpers import refuses

V, D = 6, 3


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


TABLE = drawn(V, V).softmax(-1)
"""A target whose next token depends on the last one only."""
ROOTS = torch.tensor([3, 0, 5, 1])


def expand(tokens: Tensor, parent: Tensor, table: Tensor = TABLE) -> Tensor:
    return table[tokens]


WITHIN, TOKEN, OUT = drawn(D, D, seed=1), drawn(V, D, seed=2), drawn(D, V, seed=3)


def draft(features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """A draft without attention: features and logits of any leading shape."""
    found = torch.tanh(features @ WITHIN + TOKEN[tokens])
    return found, found @ OUT


def tree_draft(features: Tensor, out: Tensor = OUT) -> Callable[[Tensor, Tensor], Tensor]:
    """The draft at the nodes of trees, whose roots follow features (R, D)."""
    level = features[:, None]

    def forward(tokens: Tensor, parent: Tensor) -> Tensor:
        nonlocal level
        level = draft(level.gather(1, parent.clamp(min=0)[..., None].expand(-1, -1, D)), tokens)[0]
        return level @ out

    return forward


@dataclass
class Recorded:
    """The draft of a policy, with the paths that it was asked to expand."""

    draft: MarkovDraft
    paths: list[list[DraftedPath]] = field(default_factory=list)

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        self.paths.append(list(paths))
        return self.draft.expand(paths)


def paths_of(trees: BeamTrees, root: int) -> list[DraftedPath]:
    found: list[DraftedPath] = []
    for parent, token in zip(trees.parent[root].tolist(), trees.token[root].tolist(), strict=True):
        found.append(() if parent < 0 else (*found[parent], token))
    return found


@pytest.mark.parametrize(("k", "depth"), [(1, 4), (2, 3), (4, 3), (9, 2), (4, 1)])
def test_the_target_builds_the_tree_that_eagle2_expands(k: int, depth: int) -> None:
    trees = beam_trees(expand, ROOTS, k, depth)
    for root, token in enumerate(ROOTS.tolist()):
        policy = Recorded(MarkovDraft(TABLE.numpy(), token))
        Eagle2(top_k=k, depth=depth, budget=1).grow(policy)
        levels = [paths_of(trees, root)[trees.level(level)] for level in range(depth)]
        assert levels == policy.paths
        for path, target in zip(paths_of(trees, root), trees.target[root], strict=True):
            assert torch.equal(target, TABLE[[token, *path][-1]])


def test_nodes_of_probability_0_do_not_count() -> None:
    """A target that is sure of each next token has a chain, whatever k is."""
    sure = torch.eye(V, dtype=torch.float64)[[1, 2, 3, 4, 5, 0]]
    trees = beam_trees(partial(expand, table=sure), ROOTS, 4, 3)
    assert trees.present.sum(1).tolist() == [3, 3, 3, 3]
    chain = beam_trees(partial(expand, table=sure), ROOTS, 1, 3)
    mask = torch.ones(len(ROOTS), dtype=torch.bool)
    features = drawn(len(ROOTS), D)
    losses = [Talf()(unroll_tree(tree_draft(features), one), one, mask) for one in (trees, chain)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-14)


@pytest.mark.parametrize(("k", "depth"), [(1, 3), (4, 3), (2, 4)])
def test_the_loss_is_the_sum_over_nodes_of_algorithm_1(k: int, depth: int) -> None:
    """Each node by itself: the draft follows its path from the root, and is compared with the target there."""
    trees = beam_trees(expand, ROOTS, k, depth)
    features, mask = drawn(len(ROOTS), D), torch.tensor([True, True, False, True])
    value = Talf(k=k, depth=depth)(unroll_tree(tree_draft(features), trees), trees, mask)
    total = 0.0
    for root in mask.nonzero().flatten().tolist():
        for path in paths_of(trees, root):
            carried, logits = features[root], torch.zeros(V)
            for token in (int(ROOTS[root]), *path):
                carried, logits = draft(carried, torch.tensor(token))
            p = TABLE[path[-1] if path else ROOTS[root]]
            total -= float((p * logits.log_softmax(-1)).sum())
    assert float(value) == pytest.approx(total / 3, rel=1e-13)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_talf_of_one_branch_is_the_chain_loss_on_the_targets_greedy_text(depth: int) -> None:
    """The text is the target's greedy continuation; a tree ends where the text ends, as the chain does."""
    length, token = 7, 3
    text = [token]
    while len(text) < length:
        text.append(int(TABLE[text[-1]].argmax()))
    tokens, features = torch.tensor(text), drawn(length, D)
    mask = torch.ones(1, length, dtype=torch.bool)
    chain = Eagle3(passes=depth, decay=1)(unroll(draft, features[None], tokens[None], depth), TABLE[tokens][None], mask)
    trees = beam_trees(expand, tokens, 1, depth)
    ends = torch.arange(length)[:, None] + torch.arange(depth) < length
    trees = replace(trees, present=trees.present & ends)
    tree = Talf(k=1, depth=depth)(unroll_tree(tree_draft(features), trees), trees, mask[0])
    assert tree.item() == pytest.approx(chain.item(), rel=1e-14)


def test_the_gradient_agrees_with_finite_differences_through_the_levels() -> None:
    trees = beam_trees(expand, ROOTS[:2], 2, 3)

    def value(features: Tensor, out: Tensor) -> Tensor:
        logits = unroll_tree(tree_draft(features, out), trees)
        return Talf(k=2, depth=3)(logits, trees, torch.tensor([True, True]))

    inputs = (drawn(2, D).requires_grad_(), OUT.clone().requires_grad_())
    assert torch.autograd.gradcheck(value, inputs)


def test_unusable_settings_and_tensors_are_refused() -> None:
    refuses("k must be between 1 and .* got 0", Talf, k=0)
    trees, kept = beam_trees(expand, ROOTS, 2, 3), torch.ones(4) > 0
    refuses("target must have shape \\(4, 4, 6\\)", Talf(k=2), drawn(4, 4, V), trees, kept)
    doubled = replace(trees, target=trees.target * 2)
    refuses("target must be distributions", Talf(k=2), drawn(4, 5, V), doubled, kept)
    refuses("mask must be boolean and keep at least one position", Talf(k=2), drawn(4, 5, V), trees, ~kept)
