"""Ready adapters: plays of samplers that take their drafts in the layouts of vLLM, SGLang and EAGLE.

All arrays are NumPy arrays. `inputs.converted(torch.from_numpy)` makes tensors of them; results may be tensors in host
memory. The arguments of the samplers were read in vLLM 0.33, in `tree_speculative_sampling_target_only` of SGLang 0.5
and in `evaluate_posterior` of EAGLE; no code of theirs is here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import numpy as np

from spectheory.certify.play import IDS, WIDE, WIDE_TV, Play, length_of_two_cycles, markov, spread_ids, weighted
from spectheory.certify.rows import PLACEHOLDER, drawn, padded, rows_of_indices
from spectheory.core.arrays import Vector
from spectheory.core.checks import check_whole, checked
from spectheory.core.tree import Tree
from spectheory.core.world import Context, World


@dataclass(frozen=True)
class Inputs:
    """The arguments of a sampler."""

    def converted(self, convert: Callable[[np.ndarray], Any]) -> Self:
        """The same inputs with `convert(array)` in place of each array, such as `torch.from_numpy`."""
        arrays = {name: convert(value) for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return dataclasses.replace(self, **arrays)


@dataclass(frozen=True)
class VllmInputs(Inputs):
    """The arguments of `rejection_sample` in vLLM: n rows (requests) with t drafted tokens in all.

    Attributes:
        draft_token_ids: (t,) drafted ids, those of row 0 first.
        num_draft_tokens: number of drafted tokens of each row, as a list; it may be 0.
        max_spec_len: largest number of drafted tokens of a row.
        cu_num_draft_tokens: (n,) cumulative sums of `num_draft_tokens`.
        draft_probs: (t, size) the draft's distribution at each drafted token; None for one-hot drafts (n-gram).
        target_probs: (t, size) the target's distribution at each drafted token.
        target_logits: (t, size) their logarithms.
        bonus_token_ids: (n, 1) a token of the target for each row, to be emitted if all its drafts are accepted.
    """

    draft_token_ids: Any
    num_draft_tokens: list[int]
    max_spec_len: int
    cu_num_draft_tokens: Any
    draft_probs: Any
    target_probs: Any
    target_logits: Any
    bonus_token_ids: Any


@dataclass(frozen=True)
class SglangInputs(Inputs):
    """The arguments of `tree_speculative_sampling_target_only` in SGLang: n rows with trees of up to D nodes.

    Attributes:
        candidates: (n, D) id of each node; node 0 is the last token of the context.
        retrieve_index: (n, D) number of each node in flat arrays: row * D + node.
        retrieve_next_token: (n, D) first child of each node, -1 for none.
        retrieve_next_sibling: (n, D) next sibling of each node, -1 for none.
        uniform_samples: (n, D) uniform numbers, above 0 and below 1.
        uniform_samples_for_final_sampling: (n,) uniform numbers, above 0 and below 1.
        target_probs: (n, D, size) the target's distribution after each node.
        draft_probs: (n, D, size) zeros, which the sampler may overwrite, or the draft's distribution after each node.
        num_speculative_tokens: largest number of tokens that a row can emit.
    """

    candidates: Any
    retrieve_index: Any
    retrieve_next_token: Any
    retrieve_next_sibling: Any
    uniform_samples: Any
    uniform_samples_for_final_sampling: Any
    target_probs: Any
    draft_probs: Any
    num_speculative_tokens: int


@dataclass(frozen=True)
class EagleInputs(Inputs):
    """The arguments of `evaluate_posterior` in EAGLE: one tree of D nodes with m paths from the root to a leaf.

    Attributes:
        tree_candidates: (D,) id of each node; node 0 is the last token of the context.
        retrieve_indices: (m, depth + 1) nodes of each path, -1 after its leaf.
        candidates: (m, depth + 1) their ids, -1 after the leaf.
        logits: (m, depth + 1, size) logarithms of the target's distribution after each node. After the leaf of a path,
            it is that of the last node, as the index -1 gives it.
        draft_probs: (D, size) the draft's distribution after each node, for functions that take it.
    """

    tree_candidates: Any
    retrieve_indices: Any
    candidates: Any
    logits: Any
    draft_probs: Any


WORLDS: dict[str, tuple[World, dict[str, Any]]] = {
    "acceptance shows": (World.constant(weighted(1, 1, 1), weighted(18, 1, 1)), {"vocab_size": 3}),
    "zeros in p": (
        markov([(1, 1, 0), (0, 1, 1), (2, 0, 2)], [(1, 2, 3), (3, 1, 2), (2, 3, 1)]),
        {"vocab_size": 3, "contexts": ((), (1, 2))},
    ),
    f"ids up to {IDS[-1]:,}, within {WIDE_TV:g}": (
        WIDE,
        {"vocab_size": len(IDS), "size": IDS[-1] + 1, "length": 2, "tv": WIDE_TV},
    ),
}
"""Worlds for the samplers of engines, with options of their plays.

In the first one the tokens show which drafts were accepted, and so noise that rows share. In the second one the rows of
a batch differ.
"""
TREE = Tree([-1, 0, 0, 0, 1, 1, 2, 4])
"""Three children, cousins and a third level."""


@checked
def vllm_play(
    sample: Callable[[VllmInputs, np.random.Generator], Any],
    world: World | None = None,
    *,
    depth: int = 3,
    one_hot: bool = False,
    **options: Any,
) -> list[Play]:
    """Plays of a sampler that takes drafts in vLLM's layout. Rows have from 0 to `depth` drafted tokens, by chance.

    Args:
        sample: function (inputs, rng) -> (n, max_spec_len + 1) emitted ids, -1 after the last one of each row.
        world: world with the distributions of target and draft; None for each of `WORLDS`. Its target is what the
            sampler should reproduce.
        depth: largest number of drafted tokens of a row.
        one_hot: whether the drafts are given without probabilities, as those of an n-gram drafter.
        options: `vocab_size`, the number of tokens V of a given world; `size`, the vocabulary on which they are spread,
            by default 9,001, and once 70,001 without a given world; `given`, the target's distributions as the sampler
            gets them if it processes them itself; `contexts`; `length`, the number of tokens that are compared, by
            default enough for two cycles; `batch`, the number of rows in one call, by default 16; `name` of the world.
    """
    check_whole("depth", depth, 1, ": it is the largest number of drafted tokens", most=100)

    def step(drafter: _Drafter, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        counts = rng.integers(0, depth + 1, len(contexts))
        counts[0] = max(counts[0], 1)
        texts, tokens = drafter.grown(contexts, rng)
        before = [texts[place][row] for row, count in enumerate(counts) for place in range(count)]
        target_probs = drafter.widened(drafter.given, before)
        bonus = drawn(np.array([drafter.p(texts[count][row]) for row, count in enumerate(counts)]), rng)
        inputs = VllmInputs(
            draft_token_ids=drafter.ids[tokens[:, 1:][np.arange(depth) < counts[:, None]]].astype(np.int32),
            num_draft_tokens=counts.tolist(),
            max_spec_len=int(counts.max()),
            cu_num_draft_tokens=np.cumsum(counts).astype(np.int32),
            draft_probs=None if one_hot else drafter.widened(drafter.q, before),
            target_probs=target_probs,
            target_logits=_logs(target_probs),
            bonus_token_ids=drafter.ids[bonus][:, None].astype(np.int32),
        )
        return np.asarray(sample(inputs, rng))

    return _plays(step, Tree.chain(depth), world, options)


@checked
def sglang_play(
    sample: Callable[[SglangInputs, np.random.Generator], Any],
    world: World | None = None,
    *,
    tree: Tree = TREE,
    with_q: bool = False,
    **options: Any,
) -> list[Play]:
    """Plays of a sampler that takes trees in SGLang's layout.

    The children of a node are different tokens, drawn from q without replacement. Row 0 has the whole tree, the others
    its first nodes, as many as chance decides. The uniform numbers are never exactly 0, at which a sampler that accepts
    by `<=` emits a token of probability 0.

    Args:
        sample: function (inputs, rng) -> (predict, accept_index): (n * D,) ids, in which the entry of an accepted node
            is the token after it, and (n, num_speculative_tokens) the accepted nodes in the numbers of
            `retrieve_index`, the root first, -1 after the last one. Further results are ignored.
        world: as in `vllm_play`.
        tree: tree of each row.
        with_q: whether `draft_probs` has the draft's distribution after each node.
        options: as those of `vllm_play`.
    """
    count = tree.budget + 1

    def step(drafter: _Drafter, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rows = len(contexts)
        texts, tokens = drafter.grown(contexts, rng)
        kept = rng.integers(1, count + 1, rows)
        kept[0] = count
        child, sibling = np.full((2, rows, count), PLACEHOLDER)
        for node, children in enumerate(tree.child_lists):
            for before, after in zip([None, *children], children, strict=False):
                links, at = (child, node) if before is None else (sibling, before)
                links[:, at] = np.where(after < kept, after, PLACEHOLDER)
        candidates = np.where(np.arange(count) < kept[:, None], drafter.ids[tokens], 0)
        candidates[:, 0] = np.maximum(contexts[:, -1], 0)
        target_probs = drafter.at_nodes(drafter.given, texts)
        inputs = SglangInputs(
            candidates=candidates,
            retrieve_index=np.arange(rows * count).reshape(rows, count),
            retrieve_next_token=child,
            retrieve_next_sibling=sibling,
            uniform_samples=_uniform(rng, (rows, count)),
            uniform_samples_for_final_sampling=_uniform(rng, (rows,)),
            target_probs=target_probs,
            draft_probs=drafter.at_nodes(drafter.q, texts) if with_q else np.zeros_like(target_probs),
            num_speculative_tokens=tree.max_depth + 1,
        )
        predict, accepted = sample(inputs, rng)[:2]
        return rows_of_indices(predict, accepted)

    return _plays(step, tree, world, options)


@checked
def eagle_play(
    evaluate: Callable[[EagleInputs, np.random.Generator], Any],
    world: World | None = None,
    *,
    tree: Tree = TREE,
    **options: Any,
) -> list[Play]:
    """Plays of a function that takes one tree in EAGLE's layout. EAGLE verifies one context a call.

    The children of a node are different tokens, drawn from q without replacement.

    Args:
        evaluate: function (inputs, rng) -> (best candidate, accept length, sample_p): a path, the number of its drafted
            tokens that are accepted, and weights (size,) of the token after them, which is drawn here.
        world: as in `vllm_play`.
        tree: tree of each step.
        options: as those of `vllm_play`, without `batch`.
    """
    ancestors = zip(tree.ancestor_mask(), tree.child_lists, strict=True)
    paths = padded([np.flatnonzero(row).tolist() for row, children in ancestors if not children])

    def step(drafter: _Drafter, context: Context, rng: np.random.Generator) -> list[int]:
        texts, tokens = drafter.grown([context], rng)
        ids = drafter.ids[tokens[0]]
        ids[0] = context[-1] if context else 0
        inputs = EagleInputs(
            tree_candidates=ids,
            retrieve_indices=paths,
            candidates=np.where(paths >= 0, ids[paths], PLACEHOLDER),
            logits=_logs(drafter.at_nodes(drafter.given, texts)[0])[paths],
            draft_probs=drafter.at_nodes(drafter.q, texts)[0],
        )
        best, accepted, weights = (np.asarray(found) for found in evaluate(inputs, rng))
        path = inputs.candidates[int(best)]
        last = drawn(weights.astype(np.float64).reshape(1, -1), rng)
        return [*path[1 : int(accepted) + 1].tolist(), int(last[0])]

    return _plays(step, tree, world, options | {"batch": None})


def _plays(step: Callable[..., Any], tree: Tree, world: World | None, options: dict[str, Any]) -> list[Play]:
    """Plays of `step(drafter, contexts, rng)` in a world, or in each of `WORLDS`."""
    worlds = WORLDS if world is None else {"": (world, {})}
    named = [(one, dict[str, Any](name=name) | own | options) for name, (one, own) in worlds.items()]
    drafters = [_Drafter(one, tree, **settings) for one, settings in named]
    return [drafter.play(partial(step, drafter)) for drafter in drafters]


class _Drafter:
    """Drafts of a tree in a world, in the ids of a sampler's vocabulary of `size` ids; `ids` has that of each token."""

    def __init__(
        self,
        world: World,
        tree: Tree,
        *,
        vocab_size: int,
        size: int = 9_001,
        given: Callable[[Context], Vector] | None = None,
        contexts: Sequence[Context] = ((),),
        length: int | None = None,
        batch: int | None = 16,
        name: str = "",
        tv: float | None = None,
    ) -> None:
        self.p, self.q, self.given = cache(world.p), cache(world.q), cache(given or world.p)
        self.tree, self.size = tree, size
        ids = spread_ids(vocab_size, self.size)
        self.ids, self._token_of = np.array(ids), dict(zip(ids, range(vocab_size), strict=True))
        length = length_of_two_cycles(tree.max_depth + 1, vocab_size) if length is None else length
        self.play = lambda step: Play(name, step, world.p, contexts, length, vocab_size, batch, ids, tv)

    def grown(self, contexts: Any, rng: np.random.Generator) -> tuple[list[list[Context]], np.ndarray]:
        """One draft after each context: the texts at each node, by node and row, and its (rows, nodes) tokens.

        The children of a node are different tokens, drawn from q without replacement. The token of the root is 0.
        """
        rows = np.asarray(contexts, int).tolist()
        texts: list[list[Context]] = [[tuple(self._token_of[one] for one in row if one != PLACEHOLDER) for row in rows]]
        texts += [[] for _ in range(self.tree.budget)]
        tokens = np.zeros((len(rows), len(texts)), int)
        for node, children in enumerate(self.tree.child_lists):
            if children:
                q = np.array([self.q(text) for text in texts[node]])
                order = np.argsort(-_logs(q) - rng.gumbel(size=q.shape), axis=1)
                for rank, child in enumerate(children):
                    tokens[:, child] = order[:, rank]
                    chosen: list[int] = order[:, rank].tolist()
                    texts[child] += [(*before, one) for before, one in zip(texts[node], chosen, strict=True)]
        return texts, tokens

    def at_nodes(self, distribution: Callable[[Context], Vector], texts: Sequence[Sequence[Context]]) -> np.ndarray:
        """(rows, nodes, size) float32 distributions after the texts at each node."""
        return np.stack([self.widened(distribution, of) for of in texts], axis=1)

    def widened(self, distribution: Callable[[Context], Vector], texts: Sequence[Context]) -> np.ndarray:
        """(n, size) float32 distributions after the texts, on the ids."""
        found = np.zeros((len(texts), self.size), np.float32)
        found[:, self.ids] = [distribution(text) for text in texts]
        return found


def _logs(probabilities: np.ndarray) -> np.ndarray:
    """The logarithms of probabilities, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.maximum(rng.random(shape, np.float32), np.float32(2**-25))
