"""Tests of the trees that are drafted with a parallel head: the best ones under products of its marginals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
import torch

from reference.drafters import Searched
from reference.models import Pair
from spectheory import Acceptance, SpecExec, best_tree
from spectheory.yields import block_efficiency
from tests.reference.slow_heads import PROMPTS, SlowHead, accepting, headed, paths_of
from tests.reference.tiny_heads import PARALLEL, random_head, random_target


def test_the_tree_of_a_parallel_head_is_the_best_under_products_of_marginals() -> None:
    pair = headed(PARALLEL)
    for text, draft in accepting(pair, Searched(SpecExec(10, 4)), PROMPTS[0], 4):
        slow = SlowHead(pair, text)
        with torch.inference_mode():
            rates = torch.stack([slow.logits([0] * depth).softmax(-1) for depth in range(4)])
        best = Acceptance.by_depth_and_rank(rates.sort(descending=True).values.numpy())
        worth = sum(
            np.prod([rates[depth, token].item() for depth, token in enumerate(path)]) for path in paths_of(draft)
        )
        assert draft.tree.budget == 10
        assert worth == pytest.approx(block_efficiency(best_tree(best, 10, max_depth=4), best), rel=1e-6)


def trees(tokens: int, budget: int, deepest: int) -> set[frozenset[tuple[int, ...]]]:
    """All trees of `budget` nodes at most, as sets of paths from the root."""
    found = {frozenset[tuple[int, ...]]()}
    for _ in range(budget):
        found |= {
            tree | {(*above, token)}
            for tree in found
            for above in ((), *tree)
            if len(above) < deepest
            for token in range(tokens)
        }
    return found


@pytest.mark.parametrize(("tokens", "depths", "budget"), [(5, 4, 4), (4, 2, 5), (3, 1, 4)])
@pytest.mark.parametrize("batch", [1, 4])
def test_no_tree_is_better_under_products_of_marginals(tokens: int, depths: int, budget: int, batch: int) -> None:
    """Against all trees of the budget that a parallel head can draft; the last budget exceeds the largest of them."""
    one = random_target(vocab_size=tokens)
    head = random_head(replace(PARALLEL, vocab_size=tokens, depths=depths), dtype=torch.float64).attach(one)
    tokenizer: Any = None
    pair = Pair(one, head, tokenizer, ("the target", "the head"))
    every = trees(tokens, budget, depths)
    for text, draft in accepting(pair, Searched(SpecExec(budget, batch)), [2, 0, 1], 3):
        slow = SlowHead(pair, text)
        rates = [slow.logits([0] * depth).softmax(-1).tolist() for depth in range(depths)]

        def worth(tree: Iterable[Sequence[int]], rates: list[list[float]] = rates) -> float:
            return sum(prod(rates[depth][token] for depth, token in enumerate(path)) for path in tree)

        assert worth(paths_of(draft)[1:]) == pytest.approx(max(map(worth, every)), rel=1e-6)
        assert draft.tree.budget == max(map(len, every))
