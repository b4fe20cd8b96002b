"""Models on a GPU as graphs, played where there is none: texts in `test_on_a_gpu`, here what only graphs have."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from reference import cuda_graphs
from reference.cuda_graphs import GraphedModel, cached
from reference.decode import Decoder
from reference.device_verification import chosen_at_nodes
from reference.drafters import PlannedTree
from reference.fused_forward import fused
from reference.models import Pair, load_pair
from reference.random_streams import Coins
from reference.sampling import Sampling
from spectheory import Draft, DrawRule, Tree
from spectheory.otlp import NSS, Naive, Solver
from spectheory.verify import Block, TopDown
from tests.reference.played import gpu

PROMPT, TREE = [*range(12)], Tree([-1, 0, 0, 1, 1, 2, 5])


@pytest.fixture(scope="module")
def there(tiny_folders: Path) -> Pair:
    with gpu():
        return load_pair(tiny_folders / "target", tiny_folders / "draft", device="cuda", dtype=torch.float64)


def test_a_text_moves_into_larger_caches_and_the_next_one_finds_the_graphs(
    tiny: Pair, there: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 16 rows to 32, 64 and 128, where each graph is captured once."""
    monkeypatch.setattr(cuda_graphs, "FEWEST_ROWS", 16)
    monkeypatch.setattr(cuda_graphs, "SIZES", (1, 2, 3, 4, 7, 8, 9))
    captured, capture = [], cuda_graphs.captured
    monkeypatch.setattr(cuda_graphs, "captured", lambda *work: captured.append(1) or capture(*work))
    alone = Decoder(tiny, PlannedTree(TREE)).generate(PROMPT, 60).tokens
    with gpu():
        decoder = Decoder(there, PlannedTree(TREE))
        assert decoder.generate(PROMPT, 60).tokens == alone
        first = len(captured)
        assert decoder.generate(PROMPT, 60).tokens == alone
        assert 0 < first == len(captured)
        assert sorted(cuda_graphs.FREE[there.target]) == [16, 32, 64, 128]


def test_logits_are_those_of_the_host_and_the_model_is_left_as_it_was(tiny: Pair, there: Pair) -> None:
    """For a tree that fills no graph, after text and after accepted nodes that lie apart."""
    found = []
    for pair in (tiny, there):
        with gpu(), torch.inference_mode():
            model = cached(pair.target, pair.vocab_size, "the target")
            model.forward(torch.tensor([PROMPT], device=pair.device))
            nodes = model.rows()
            nodes.add(TREE.parent.tolist())
            for turn in range(2):
                committed = model.length
                logits = model.forward_tree(torch.arange(7)[None] + turn, committed, nodes)
                found.append(logits.tolist())
                model.keep(committed, [0, 2, 5])
    assert isinstance(model, GraphedModel)
    np.testing.assert_allclose(found[2:], found[:2], rtol=1e-12)
    with gpu(), fused(there.target):
        assert any("forward" in vars(module) for module in there.target.modules())
    assert not any("forward" in vars(module) for module in there.target.modules())
    assert there.target.config._attn_implementation == tiny.target.config._attn_implementation


@pytest.mark.parametrize("solver", [NSS(), Naive()], ids=repr)
def test_tokens_chosen_on_a_device_have_the_distribution_of_the_solver(
    solver: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By coins on a grid: for each node the shares of the tokens are exact up to a step of the grid."""
    steps, rng = 60, np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(4), 1)[0]
    draft = Draft._unchecked(
        Tree([-1, 0, 0]),
        torch.tensor([0, 2, 1]),
        [torch.tensor(q), None, None],
        ((1, 2), (), ()),
        DrawRule.NO_REPLACEMENT,
    )
    grid, counts = (np.arange(steps) + 0.5) / steps, np.zeros((3, 4))
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)
    for pair in product(grid, grid):
        coins: Any = SimpleNamespace(random=lambda shape, pair=pair: np.repeat([pair], 3, axis=0).T)
        (found,) = chosen_at_nodes(TopDown(solver), draft, torch.tensor(p).log(), Sampling(1.0), coins)
        counts[range(3), found] += 1
    wanted = [solver._distribution(p[0], q, [2, 1]), p[1], p[2]]
    np.testing.assert_allclose(counts / steps**2, wanted, atol=2 / steps)
    assert chosen_at_nodes(Block(), draft, torch.tensor(p).log(), Sampling(1.0), Coins(rng)) == []
