from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Generator

from reference.cached import CachedModel, additive_mask
from reference.candidates import draw, propose
from reference.decode import Decoder
from reference.drafter import TreeDrafter
from reference.models import Pair
from spectheory import Acceptance, DrawRule, Tree, best_tree
from spectheory.otlp import Naive
from tests.conftest import TINY, generated, restless

TREES = [
    Tree.chain(0),
    Tree.chain(1),
    Tree.chain(5),
    Tree.k_ary(3, 3),
    Tree.from_paths([(0,), (1,), (2,), (0, 0), (1, 0), (1, 1), (1, 1, 0), (1, 1, 1), (2, 0), (2, 0, 0)]),
    Tree([-1, 0, 1, 0, 2, 3, 3, 4, 6]),
    best_tree(Acceptance.by_rank([0.65, 0.12, 0.06, 0.03]), 20),
]


def trees(max_nodes: int = 12) -> st.SearchStrategy[Tree]:
    return st.integers(0, max_nodes).flatmap(
        lambda n: st.tuples(*(st.integers(0, u) for u in range(n))).map(lambda parents: Tree([-1, *parents]))
    )


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_greedy_text_is_generates(tiny: Pair, tree: Tree) -> None:
    for prompt in ([7], list(range(20, 50)), [3, 3, 200, 41]):
        text = Decoder(tiny, tree).generate(prompt, 60)
        assert text.tokens == generated(tiny, prompt, 60)


def test_paths_other_than_the_first_child_are_kept(tiny: Pair) -> None:
    """The tree tests above would not see a broken cache if rank 0 alone were ever accepted."""
    chain = Decoder(tiny, Tree.chain(3)).generate(list(range(20, 50)), 100)
    tree = Decoder(tiny, Tree.k_ary(3, 3)).generate(list(range(20, 50)), 100)
    assert chain.tokens == tree.tokens
    assert sum(tree.accepted) / len(tree.accepted) > sum(chain.accepted) / len(chain.accepted) > 0


@given(trees())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_greedy_text_is_generates_for_any_tree(tiny: Pair, tree: Tree) -> None:
    prompt = [5, 250, 17]
    assert Decoder(tiny, tree).generate(prompt, 24).tokens == generated(tiny, prompt, 24)


def test_tree_logits_are_path_logits(tiny: Pair) -> None:
    tree, prompt = TREES[4], [9, 8, 7, 6]
    tokens = torch.randint(0, 300, (tree.budget + 1,), generator=Generator().manual_seed(0))
    model = CachedModel(tiny.target, tiny.vocab_size)
    with torch.inference_mode():
        model.forward(torch.tensor(prompt))
        mask = additive_mask(torch.as_tensor(tree.ancestor_mask()), tiny.target.dtype)
        logits = model.forward_tree(tokens, torch.as_tensor(tree.depth, dtype=torch.long), mask, len(prompt))
        for node in range(tree.budget + 1):
            path = np.flatnonzero(tree.ancestor_mask()[node])
            alone = tiny.target(torch.tensor([prompt + tokens[path].tolist()])).logits[0, -1]
            torch.testing.assert_close(logits[node], alone.float(), atol=1e-5, rtol=1e-5)


@given(trees())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_the_drafts_law_is_that_of_the_path(tiny: Pair, tree: Tree) -> None:
    """The law from which the children of a node were drawn is the draft's own behind that path, cycle after cycle."""
    text = [9, 8, 7, 6]
    rng = np.random.default_rng(tree.budget)
    model = CachedModel(tiny.draft, tiny.vocab_size)
    drafter = TreeDrafter(model, tree, temperature=1.0)
    with torch.inference_mode():
        model.forward(torch.tensor(text[:-1]))
        pending = text[-1:]
        for seed in range(3):
            tokens = drafter.grow(pending, Generator().manual_seed(seed)).tolist()
            for node in np.unique(tree.parent[1:]):
                path = [tokens[u] for u in np.flatnonzero(tree.ancestor_mask()[node])]
                alone = tiny.draft(torch.tensor([text[:-1] + path])).logits[0, -1].float().softmax(-1)
                torch.testing.assert_close(drafter.law(int(node)), alone, atol=1e-5, rtol=1e-4)
            end = int(rng.integers(tree.budget + 1))
            path = [int(u) for u in np.flatnonzero(tree.ancestor_mask()[end])][1:]
            emitted = [tokens[u] for u in path] + [int(rng.integers(300))]
            unseen = drafter.keep(path)
            pending = emitted[len(path) - unseen :] if tree.budget else emitted
            text = text + emitted
            if not tree.budget:
                break


def small_vocabulary() -> Pair:
    """A pair over 6 tokens whose joint law of three tokens can be enumerated."""
    from dataclasses import replace

    from reference.train.pair import new_model

    recipe = replace(TINY, vocab_size=6)
    models = []
    for noise in (0.0, 0.2):
        torch.manual_seed(0)
        model = new_model(recipe.target, recipe)
        restless(model, seed=1, scale=0.3)
        restless(model, seed=2, scale=noise)
        models.append(model.eval().double())
    return Pair(models[0], models[1], tokenizer=None, names=("six", "six"))  # type: ignore[arg-type]


def test_sampled_text_has_the_targets_law() -> None:
    """Chi-square of the joint law of the first three tokens, 216 cells, level 1e-4, fixed seeds."""
    pair, prompt, samples = small_vocabulary(), [1, 2, 3], 3000
    cells = list(itertools.product(range(6), repeat=3))
    with torch.inference_mode():
        laws = torch.softmax(pair.target(torch.tensor([prompt + list(cell) for cell in cells])).logits, -1)
    steps = laws[torch.arange(216)[:, None], torch.arange(2, 5), torch.tensor(cells)]
    expected = steps.prod(1).numpy() * samples
    decoder = Decoder(pair, Tree.k_ary(2, 2), temperature=1.0)
    draft_rng, rng = Generator().manual_seed(11), Generator().manual_seed(12)
    counts = np.zeros(216)
    for _ in range(samples):
        counts[cells.index(tuple(decoder.generate(prompt, 3, draft_rng, rng).tokens))] += 1
    rare = expected < 5
    merged = [np.append(values[~rare], values[rare].sum()) for values in (counts, expected)]
    statistic = float(((merged[0] - merged[1]) ** 2 / merged[1]).sum())
    assert statistic < chi2.ppf(1 - 1e-4, len(merged[0]) - 1)


def test_stop_token_ends_the_text(tiny: Pair) -> None:
    prompt = list(range(20, 50))
    free = Decoder(tiny, Tree.k_ary(3, 3)).generate(prompt, 60).tokens
    stop = free[20]
    text = Decoder(tiny, Tree.k_ary(3, 3), stop_tokens=frozenset([stop])).generate(prompt, 60).tokens
    assert text == free[: free.index(stop) + 1]


def test_a_prompt_that_does_not_fit_is_refused(tiny: Pair) -> None:
    with pytest.raises(ValueError, match="need a context of 1029, these models have 1024: shorten the prompt"):
        Decoder(tiny, Tree.chain(5)).generate([1] * 968, 56)
    with pytest.raises(ValueError, match="need a prompt and new_tokens >= 1, got 0 prompt tokens"):
        Decoder(tiny, Tree.chain(5)).generate([], 56)


def test_a_shared_random_stream_is_refused(tiny: Pair) -> None:
    for streams in ([Generator().manual_seed(0)] * 2, [Generator().manual_seed(0) for _ in range(2)], [None, None]):
        with pytest.raises(ValueError, match="must be two streams"):
            Decoder(tiny, Tree.chain(2), temperature=1.0).generate([1], 4, *streams)


def test_a_solver_for_other_drafts_is_refused(tiny: Pair) -> None:
    class Independent(Naive):
        rules = (DrawRule.IID,)

    with pytest.raises(ValueError, match="solver Independent is not lossless for children drawn without replacement"):
        Decoder(tiny, Tree.chain(2), temperature=1.0, solver=Independent())


def test_a_tree_wider_than_the_vocabulary_is_refused(tiny: Pair) -> None:
    with pytest.raises(ValueError, match="301 children at a node, the vocabulary has 300 tokens"):
        Decoder(tiny, Tree.k_ary(301, 1))
    for bad in (-1.0, 1e-42, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="temperature must be 0 .greedy. or at least 0.001, got"):
            Decoder(tiny, Tree.chain(1), temperature=bad)


def test_candidates_are_drawn_without_replacement_in_draw_order() -> None:
    """Chi-square of the ordered pairs of two draws against their law, level 1e-6, fixed seed; and of single draws."""
    q, rows = np.array([0.6, 0.25, 0.15, 0.0]), 20_000
    logits = torch.tensor(np.log(q, where=q > 0, out=np.full(4, -np.inf)), dtype=torch.float32).expand(rows, 4)
    pairs, law = propose(logits, 2, 1.0, Generator().manual_seed(3))
    torch.testing.assert_close(law[0], torch.tensor(q, dtype=torch.float32))
    expected = {(i, j): rows * q[i] * q[j] / (1 - q[i]) for i, j in itertools.permutations(range(3), 2)}
    counts = dict.fromkeys(expected, 0)
    for pair in pairs.tolist():
        counts[tuple(pair)] += 1
    statistic = sum((counts[pair] - mean) ** 2 / mean for pair, mean in expected.items())
    assert statistic < chi2.ppf(1 - 1e-6, len(expected) - 1)
    rng = Generator().manual_seed(4)
    drawn = np.bincount([draw(torch.tensor([0.0, 0.7, 0.0, 0.3]), rng) for _ in range(4000)], minlength=4)
    assert drawn[[0, 2]].sum() == 0
    assert (drawn[1] - 2800) ** 2 / 2800 + (drawn[3] - 1200) ** 2 / 1200 < chi2.ppf(1 - 1e-6, 1)
