"""What the adapters share: distributions of many contexts at once, drafts, and ids spread over a vocabulary."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Required, TypedDict, TypeVar

import numpy as np

from spectheory.certify.black_box_worlds import length_of_two_cycles
from spectheory.certify.certificate import text
from spectheory.certify.play import Play, spread_ids
from spectheory.certify.rows import PLACEHOLDER
from spectheory.core.arrays import Vector
from spectheory.core.tree import Tree
from spectheory.core.world import Context, World

Distribution = Callable[[Context], Vector]


Inputs = TypeVar("Inputs")


def converted(self: Inputs, convert: Callable[[np.ndarray], Any]) -> Inputs:
    """The same inputs with `convert(array)` in place of each array, such as `torch.from_numpy`."""
    arrays = {name: convert(value) for name, value in vars(self).items() if isinstance(value, np.ndarray)}
    return dataclasses.replace(self, **arrays)  # type: ignore[type-var]


class ContextTable:
    """The distributions of a world, computed once for each context. A context has a number, its node; () has node 0.

    Attributes:
        p, q, given: (nodes, V) distributions of the target, of the draft, and those that the sampler gets as target.
    """

    def __init__(self, world: World, given: Distribution, vocab_size: int) -> None:
        self._functions = (world.p, world.q, given)
        self._texts: list[Context] = []
        self.p, self.q, self.given = (np.zeros((0, vocab_size)) for _ in range(3))
        self._child = np.zeros((0, vocab_size), int)
        self._add([()])

    def at(self, contexts: np.ndarray) -> np.ndarray:
        """(n,) the nodes of contexts (n, k), rows of tokens; -1 stands for a missing token."""
        nodes = np.zeros(len(contexts), int)
        for tokens in contexts.T:
            is_there = tokens >= 0
            nodes[is_there] = self.below(nodes[is_there], tokens[is_there])
        return nodes

    def below(self, nodes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """(n,) the nodes of the contexts of `nodes`, each followed by one of `tokens`."""
        found = self._child[nodes, tokens]
        if (found < 0).any():
            new = np.unique(np.stack([nodes, tokens])[:, found < 0], axis=1)
            self._child[new[0], new[1]] = len(self._texts) + np.arange(new.shape[1])
            self._add([(*self._texts[node], int(token)) for node, token in new.T])
            found = self._child[nodes, tokens]
        return found

    def _add(self, texts: list[Context]) -> None:
        self._texts += texts
        rows = [np.array([function(text) for text in texts], np.float64) for function in self._functions]
        self.p, self.q, self.given = (
            np.concatenate([old, new]) for old, new in zip((self.p, self.q, self.given), rows, strict=True)
        )
        self._child = np.concatenate([self._child, np.full(rows[0].shape, -1)])


class Vocabulary:
    """The ids of the tokens of a world in the vocabulary of a sampler.

    Attributes:
        ids: (V,) the id of each token.
        size: number of ids.
    """

    def __init__(self, vocab_size: int, size: int | None) -> None:
        self.size = size or vocab_size
        self.ids = np.array(spread_ids(vocab_size, self.size))
        self._tokens = np.full(self.size + 1, PLACEHOLDER)
        self._tokens[self.ids] = np.arange(vocab_size)

    def tokens(self, ids: np.ndarray) -> np.ndarray:
        """The tokens of ids; -1 stays -1."""
        return self._tokens[ids]

    def widened(self, distributions: np.ndarray) -> np.ndarray:
        """(..., size) float32 distributions (..., V) on the ids."""
        found = np.zeros((*distributions.shape[:-1], self.size), np.float32)
        found[..., self.ids] = distributions
        return found


def logits(probabilities: np.ndarray) -> np.ndarray:
    """The logarithms of probabilities, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


class Options(TypedDict, total=False):
    """The options that all adapters have, see `Setting`."""

    vocab_size: Required[int]
    size: int | None
    given: Distribution | None
    contexts: Sequence[Context]
    length: int | None
    name: str


class BatchOptions(Options, total=False):
    """The options of adapters that verify many contexts in one call."""

    batch: int


class Setting:
    """What an adapter knows of the test: the distributions, the ids, and the options of its play.

    Args:
        world: world with the distributions of target and draft. Its target is what the sampler should reproduce.
        vocab_size: number of tokens V of the world.
        size: vocabulary of the sampler, over which the V tokens are spread (`spread_ids`); default: V.
        given: the target's distributions as the sampler gets them, if it processes them itself; default: `world.p`.
        contexts: contexts in which the sampler is tested.
        length: number of tokens that are compared; default: enough for two cycles, as far as the cells allow it.
        batch: number of rows in one call; None for one context a call.
        name: name of the world in the certificate.
    """

    def __init__(
        self,
        world: World,
        *,
        vocab_size: int,
        size: int | None = None,
        given: Distribution | None = None,
        contexts: Sequence[Context] = ((),),
        length: int | None = None,
        batch: int | None = 64,
        name: str = "",
    ) -> None:
        self.vocabulary, self.table = Vocabulary(vocab_size, size), ContextTable(world, given or world.p, vocab_size)
        self.target, self.contexts, self.name = world.p, [tuple(context) for context in contexts], name
        self.length, self.batch = length, batch

    def play(self, step: Callable[[Any, Any], Any], depth: int) -> Play:
        """The play of a step that drafts up to `depth` tokens."""
        ids = self.vocabulary.ids.tolist()
        length = self.length or length_of_two_cycles(depth + 1, len(ids))
        return Play(self.name, step, self.target, self.contexts, length, len(ids), self.batch, tuple(ids))


def grown(table: ContextTable, starts: np.ndarray, tree: Tree, rng: np.random.Generator) -> tuple[Any, Any]:
    """Tokens and nodes (n, tree nodes) of one draft below each start; column 0 is the start, its token is -1.

    The children of a node are different tokens, drawn from q without replacement.
    """
    tokens = np.full((len(starts), tree.budget + 1), PLACEHOLDER)
    nodes = np.zeros_like(tokens)
    nodes[:, 0] = starts
    for node, children in enumerate(tree.child_lists):
        if children:
            keys = logits(table.q[nodes[:, node]]) + rng.gumbel(size=(len(starts), table.q.shape[1]))
            order = np.argsort(-keys, axis=1)
            for rank, child in enumerate(children):
                tokens[:, child] = order[:, rank]
                nodes[:, child] = table.below(nodes[:, node], tokens[:, child])
    return tokens, nodes


def shown(tokens: np.ndarray, tree: Tree) -> str:
    """The drafted tokens of one row in words: the children of each node, those that were left out are -1."""
    drawn = [
        (node, tuple(tokens[list(children)].tolist())) for node, children in enumerate(tree.child_lists) if children
    ]
    return "; ".join(f"below node {node} {text(tuple(t for t in of if t >= 0))}" for node, of in drawn if max(of) >= 0)
