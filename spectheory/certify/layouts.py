"""Ready adapters: plays of samplers that take their drafts in the layouts of vLLM, SGLang and EAGLE.

All arrays are NumPy arrays. `inputs.converted(torch.from_numpy)` makes tensors of them; results may be tensors in host
memory. The arguments of the samplers were read in vLLM 0.33, in `tree_speculative_sampling_target_only` of SGLang 0.5
and in `evaluate_posterior` of EAGLE; no code of theirs is here.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np

from spectheory.certify.play import Play, length_of_two_cycles, spread_ids
from spectheory.certify.rows import PLACEHOLDER, drawn, padded, rows_of_indices
from spectheory.core.arrays import Vector
from spectheory.core.checks import check_whole
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
        draft_probs: (n, D, size) zeros, which the sampler may overwrite.
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
    """

    tree_candidates: Any
    retrieve_indices: Any
    candidates: Any
    logits: Any


def vllm_play(
    sample: Callable[[VllmInputs, np.random.Generator], Any],
    world: World,
    *,
    depth: int = 3,
    one_hot: bool = False,
    ragged: bool = True,
    **options: Any,
) -> Play:
    """A play of a sampler that takes drafts in vLLM's layout.

    Args:
        sample: function (inputs, rng) -> (n, max_spec_len + 1) emitted ids, -1 after the last one of each row.
        world: world with the distributions of target and draft. Its target is what the sampler should reproduce.
        depth: largest number of drafted tokens of a row.
        one_hot: whether the drafts are given without probabilities, as those of an n-gram drafter.
        ragged: whether rows have different numbers of drafted tokens, from 0 to `depth`, by chance.
        options: `vocab_size`, the number of tokens V of the world; `size`, the vocabulary of the sampler, over which
            they are spread (`spread_ids`), by default V; `given`, the target's distributions as the sampler gets them
            if it processes them itself, by default `world.p`; `contexts`, in which the sampler is tested; `length`, the
            number of tokens that are compared, by default enough for two cycles; `batch`, the number of rows in one
            call, by default 64; `name`, the name of the world in the certificate.
    """
    check_whole("depth", depth, 1, ": it is the largest number of drafted tokens")
    return _VllmStep(sample, world, Tree.chain(depth), one_hot=one_hot, ragged=ragged, **options).play()


def sglang_play(
    sample: Callable[[SglangInputs, np.random.Generator], Any],
    world: World,
    *,
    tree: Tree,
    ragged: bool = True,
    **options: Any,
) -> Play:
    """A play of a sampler that takes trees in SGLang's layout.

    The children of a node are different tokens, drawn from q without replacement. The uniform numbers are never exactly
    0, at which a sampler that accepts by `<=` emits a token of probability 0.

    Args:
        sample: function (inputs, rng) -> (predict, accept_index): (n * D,) ids, in which the entry of an accepted node
            is the token after it, and (n, num_speculative_tokens) the accepted nodes in the numbers of
            `retrieve_index`, the root first, -1 after the last one. Further results are ignored.
        tree: tree of each row.
        ragged: whether rows have different numbers of nodes: the first ones of the tree, by chance.
        world: world with the distributions of target and draft.
        options: as those of `vllm_play`.
    """
    return _SglangStep(sample, world, tree, ragged=ragged, **options).play()


def eagle_play(
    evaluate: Callable[[EagleInputs, np.random.Generator], Any], world: World, *, tree: Tree, **options: Any
) -> Play:
    """A play of a function that takes one tree in EAGLE's layout. EAGLE verifies one context a call.

    The children of a node are different tokens, drawn from q without replacement. They are verified as one-hot drafts.

    Args:
        evaluate: function (inputs, rng) -> (best candidate, accept length, sample_p): a path, the number of its drafted
            tokens that are accepted, and weights (size,) of the token after them, which is drawn here.
        tree: tree of each step.
        world: world with the distributions of target and draft.
        options: as those of `vllm_play`, without `batch`.
    """
    return _EagleStep(evaluate, world, tree, batch=None, **options).play()


class _Step(ABC):
    """What the steps share: the sampler, and drafts in a world, in the ids of the sampler's vocabulary.

    Attributes:
        p, q, given: distributions (V,) of the target, of the draft, and those that the sampler gets as target, after a
            context.
        ids: (V,) the id of each token in the vocabulary of the sampler, which has `size` ids.
        drafted: (n, tree nodes) tokens of the last call; -1 for the root and for nodes that were left out.
    """

    def __init__(
        self,
        sample: Callable[..., Any],
        world: World,
        tree: Tree,
        *,
        vocab_size: int,
        size: int | None = None,
        given: Callable[[Context], Vector] | None = None,
        contexts: Sequence[Context] = ((),),
        length: int | None = None,
        batch: int | None = 64,
        name: str = "",
        **settings: bool,
    ) -> None:
        self.sample, self.world, self.tree, self.settings = sample, world, tree, settings
        self.p, self.q, self.given = cache(world.p), cache(world.q), cache(given or world.p)
        self.size = size or vocab_size
        self.ids = np.array(spread_ids(vocab_size, self.size))
        self.drafted = np.zeros((0, 1), int)
        length = length or length_of_two_cycles(tree.max_depth + 1, vocab_size)
        contexts, ids = [tuple(context) for context in contexts], tuple(self.ids.tolist())
        self._play = Play(name, self, world.p, contexts, length, vocab_size, batch, ids)

    @abstractmethod
    def __call__(self, contexts: Any, rng: np.random.Generator) -> Any:
        """Draft after the contexts, and return what the sampler emits."""

    def play(self) -> Play:
        """The play of this step."""
        return self._play

    def grown(self, contexts: Any, rng: np.random.Generator) -> list[list[Context]]:
        """The texts at each node of one draft after each context, by node and row; the tokens are `drafted`.

        The children of a node are different tokens, drawn from q without replacement.
        """
        rows = np.asarray(contexts, int).tolist()
        texts: list[list[Context]] = [
            [tuple(self._play.token_of[one] for one in row if one != PLACEHOLDER) for row in rows]
        ]
        texts += [[] for _ in range(self.tree.budget)]
        self.drafted = np.full((len(rows), len(texts)), PLACEHOLDER)
        for node, children in enumerate(self.tree.child_lists):
            if children:
                q = np.array([self.q(text) for text in texts[node]])
                order = np.argsort(-_logs(q) - rng.gumbel(size=q.shape), axis=1)
                for rank, child in enumerate(children):
                    self.drafted[:, child] = order[:, rank]
                    chosen: list[int] = order[:, rank].tolist()
                    texts[child] += [(*before, one) for before, one in zip(texts[node], chosen, strict=True)]
        return texts

    def keep_first(self, kept: np.ndarray) -> np.ndarray:
        """Leave out the nodes of each row after its first `kept` (n,), and return the tokens."""
        self.drafted = np.where(np.arange(self.tree.budget + 1) < kept[:, None], self.drafted, PLACEHOLDER)
        return self.drafted

    def widened(self, distribution: Callable[[Context], Vector], texts: Sequence[Context]) -> np.ndarray:
        """(n, size) float32 distributions after the texts, on the ids."""
        found = np.zeros((len(texts), self.size), np.float32)
        found[:, self.ids] = [distribution(text) for text in texts]
        return found


class _VllmStep(_Step):
    """A step that drafts chains and gives them to the sampler."""

    def __call__(self, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rows, depth = len(contexts), self.tree.max_depth
        counts = rng.integers(0, depth + 1, rows) if self.settings["ragged"] else np.full(rows, depth)
        counts[0] = max(counts[0], 1)
        texts = self.grown(contexts, rng)
        tokens = self.keep_first(counts + 1)[:, 1:]
        before = [texts[place][row] for row, count in enumerate(counts) for place in range(count)]
        target_probs = self.widened(self.given, before)
        bonus = drawn(np.array([self.p(texts[count][row]) for row, count in enumerate(counts)]), rng)
        inputs = VllmInputs(
            draft_token_ids=self.ids[tokens[tokens >= 0]].astype(np.int32),
            num_draft_tokens=counts.tolist(),
            max_spec_len=int(counts.max()),
            cu_num_draft_tokens=np.cumsum(counts).astype(np.int32),
            draft_probs=None if self.settings["one_hot"] else self.widened(self.q, before),
            target_probs=target_probs,
            target_logits=_logs(target_probs),
            bonus_token_ids=self.ids[bonus][:, None].astype(np.int32),
        )
        return np.asarray(self.sample(inputs, rng))


class _SglangStep(_Step):
    """A step that drafts trees and gives them to the sampler."""

    def __call__(self, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rows, count = len(contexts), self.tree.budget + 1
        texts = self.grown(contexts, rng)
        kept = rng.integers(1, count + 1, rows) if self.settings["ragged"] else np.full(rows, count)
        tokens = self.keep_first(kept)
        child, sibling = np.full((2, rows, count), PLACEHOLDER)
        for node, children in enumerate(self.tree.child_lists):
            for before, after in zip([None, *children], children, strict=False):
                links, at = (child, node) if before is None else (sibling, before)
                links[:, at] = np.where(after < kept, after, PLACEHOLDER)
        candidates = np.where(tokens >= 0, self.ids[tokens], 0)
        candidates[:, 0] = np.maximum(contexts[:, -1], 0)
        target_probs = np.stack([self.widened(self.given, of) for of in texts], axis=1)
        inputs = SglangInputs(
            candidates=candidates,
            retrieve_index=np.arange(rows * count).reshape(rows, count),
            retrieve_next_token=child,
            retrieve_next_sibling=sibling,
            uniform_samples=_uniform(rng, (rows, count)),
            uniform_samples_for_final_sampling=_uniform(rng, (rows,)),
            target_probs=target_probs,
            draft_probs=np.zeros_like(target_probs),
            num_speculative_tokens=self.tree.max_depth + 1,
        )
        predict, accepted = self.sample(inputs, rng)[:2]
        return rows_of_indices(predict, accepted)


class _EagleStep(_Step):
    """A step that drafts a tree, has it evaluated, and draws the last token."""

    def __call__(self, context: Context, rng: np.random.Generator) -> list[int]:
        texts = [text for (text,) in self.grown([context], rng)]
        ids = self.ids[self.drafted[0]]
        ids[0] = context[-1] if context else 0
        paths = _paths(self.tree)
        inputs = EagleInputs(
            tree_candidates=ids,
            retrieve_indices=paths,
            candidates=np.where(paths >= 0, ids[paths], PLACEHOLDER),
            logits=_logs(self.widened(self.given, texts))[paths],
        )
        best, accepted, weights = (np.asarray(found) for found in self.sample(inputs, rng))
        path = inputs.candidates[int(best)]
        last = drawn(weights.astype(np.float64).reshape(1, -1), rng)
        return [*path[1 : int(accepted) + 1].tolist(), int(last[0])]


def _paths(tree: Tree) -> np.ndarray:
    """(m, depth + 1) the nodes of each path from the root to a leaf, -1 after the leaf."""
    paths = [(0,)]
    for node in range(1, tree.budget + 1):
        paths.append((*paths[tree.parent[node]], node))
    leaves = [path for path, children in zip(paths, tree.child_lists, strict=True) if not children]
    return padded(leaves)


def _logs(probabilities: np.ndarray) -> np.ndarray:
    """The logarithms of probabilities, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.maximum(rng.random(shape, np.float32), np.float32(2**-25))
