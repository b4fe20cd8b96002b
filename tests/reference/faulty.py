"""Decode steps with a fault planted in each: what a test of losslessness has to find."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Generator

import reference.decode
import reference.drafters.static
from reference.decode import Decoding
from reference.drafters import Drafter, Drafting, PlannedTree
from reference.host_arrays import largest_on_host
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.row_cache import RowCache
from reference.sampling import Sampling
from reference.tree_rows import TreeRows
from spectheory import Draft, DrawRule, Tree
from spectheory.core.arrays import accept_ratio, excess
from spectheory.core.chance import draw
from spectheory.otlp import RRS, Naive
from spectheory.verify import Block, TopDown, Verifier
from spectheory.verify.outcome import Outcome
from tests.reference.checked import Checked

CHAIN, TREE, WIDE = PlannedTree(Tree.chain(2)), PlannedTree(Tree.k_ary(2, 2)), PlannedTree(Tree.k_ary(3, 1))


@dataclass(frozen=True)
class Fault:
    """A decoder's parts, and what is broken while it runs.

    Attributes:
        shares: drafter and verifier draw with the same numbers.
        texts: number of texts by which the fault has to be found.
    """

    drafter: Drafter
    verifier: Verifier
    sampling: Sampling = Sampling(1.0)  # noqa: RUF009
    broken: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)
    shares: bool = False
    texts: int = 400


class Meddling(Checked):
    """A drafter whose drafts differ from the wrapped drafter's; accepted tokens reach the wrapped drafter unchanged."""

    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        drafting = self.drafter.start(pair, sampling)
        drafting.grow = partial(self.grown, drafting.grow)  # type: ignore[method-assign]
        return drafting

    @abstractmethod
    def grown(self, grow: Callable[[int, Any], Draft], room: int, rng: Any) -> Draft:
        """Return a draft; `grow` is the wrapped drafter's."""


@dataclass(frozen=True)
class Meddled(Meddling):
    """The wrapped drafter's drafts, each changed by `change`."""

    change: Callable[[Draft], Draft]

    def grown(self, grow: Callable[[int, Any], Draft], room: int, rng: Any) -> Draft:
        return self.change(grow(room, rng))


@dataclass(frozen=True)
class Overheard(Meddling):
    """Draws every draft with the random numbers that the verifier will use."""

    verifying: Generator

    def grown(self, grow: Callable[[int, Any], Draft], room: int, rng: Any) -> Draft:
        rng.generator.set_state(self.verifying.get_state())
        return grow(room, Uniforms(rng.generator))


def other_temperature(draft: Draft) -> Draft:
    """Replace q by the distribution at three times the temperature of the draws."""
    q = [None if law is None else law ** (1 / 3) / (law ** (1 / 3)).sum() for law in draft.q]
    return Draft._unchecked(draft.tree, draft.tokens, q, draft.draws, draft.rule)


def before_top_k(draft: Draft) -> Draft:
    """Replace q by a distribution before top_k: a fifth of the probability is on the tokens that were cut off."""
    q = [None if law is None else 0.8 * law + 0.2 * (law == 0) / max(1, int((law == 0).sum())) for law in draft.q]
    return Draft._unchecked(draft.tree, draft.tokens, q, draft.draws, draft.rule)


def in_order_of_tokens(draft: Draft) -> Draft:
    """Sort the draws at each node by token."""
    draws = tuple(tuple(sorted(drawn, key=lambda child: int(draft.tokens[child]))) for drawn in draft.draws)
    return Draft._unchecked(draft.tree, draft.tokens, draft.q, draws, draft.rule)


@dataclass(frozen=True)
class BonusAtTheParent(Verifier):
    """The token after the last accepted node is drawn from the distribution one node too early."""

    verifier: Verifier

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        return self.verifier.rules

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        raise NotImplementedError

    def _sample(self, draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        node, token = self.verifier._sample(draft, p, rng)
        return node, token if draft.draws[node] else draw(p[int(draft.tree.parent[node])], rng)


@dataclass(frozen=True)
class NotNormalised(Naive):
    """After a rejection the residual is not normalised: the missing probability goes to the last token."""

    def _sample(self, p: Any, q: Any, drafts: Sequence[int], rng: Any) -> int:
        if rng.random() < accept_ratio(p[drafts[0]], q[drafts[0]]):
            return drafts[0]
        law = excess(p, q)
        law[-1] += 1 - law.sum()
        return draw(law, rng)


class Shared:
    """Draws by inversion of a torch generator's uniform numbers."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def random(self) -> float:
        return float(torch.rand((), generator=self.generator, dtype=torch.float64))

    def choice(self, size: int, p: np.ndarray) -> int:
        return min(int(np.searchsorted(p.cumsum(), self.random(), side="right")), size - 1)


@contextmanager
def first_rows_kept() -> Iterator[None]:
    """The cache keeps the right number of rows, but takes them from the first path."""
    keep = RowCache.keep
    with mock.patch.object(RowCache, "keep", lambda cache, n, rows: keep(cache, n, list(range(len(rows))))):
        yield


@contextmanager
def causal_mask() -> Iterator[None]:
    """Nodes of the tree attend to all nodes before them, siblings included."""

    def look_back(rows: TreeRows, parents: list[int]) -> None:
        TreeRows.add(rows, range(-1, len(parents) - 1))
        for node, parent in enumerate(parents):
            rows.depth[0, node] = rows.depth[0, parent] + 1

    with written_by(look_back):
        yield


@contextmanager
def positions_in_a_row() -> Iterator[None]:
    """Nodes of the tree have the positions of a chain."""

    def count(rows: TreeRows, parents: list[int]) -> None:
        TreeRows.add(rows, parents)
        rows.depth[0, : len(parents)] = torch.arange(len(parents))

    with written_by(count):
        yield


@contextmanager
def written_by(add: Callable[[TreeRows, list[int]], None]) -> Iterator[None]:
    """Write the target's trees by `add`; trees of a draft model are written correctly."""
    init = Decoding.__init__

    def begin(text: Decoding, *args: Any) -> None:
        init(text, *args)
        text.rows.add = partial(add, text.rows)  # type: ignore[method-assign]

    with mock.patch.object(Decoding, "__init__", begin):
        yield


@contextmanager
def most_probable_drafts() -> Iterator[None]:
    """Drafts are the most probable tokens, verified as draws."""

    def top(law: np.ndarray, k: int, *_: Any, **__: Any) -> np.ndarray:
        return largest_on_host(law, k)[0]

    with mock.patch.object(reference.drafters.static, "drawn", top):
        yield


def coins_one_by_one() -> AbstractContextManager[Any]:
    """Not a fault: the verifier draws its numbers one by one, so that a drafter can use the next one."""
    return mock.patch.object(reference.decode, "Coins", lambda generator: generator)


FAULTS = {
    "q of another temperature": Fault(Meddled(CHAIN, other_temperature), TopDown(Naive())),
    "q of another temperature, block": Fault(Meddled(CHAIN, other_temperature), Block()),
    "q before top_k": Fault(Meddled(CHAIN, before_top_k), TopDown(Naive()), Sampling(1.0, 2)),
    "bonus token of the wrong node": Fault(TREE, BonusAtTheParent(TopDown(RRS()))),
    "cache rows of the first path": Fault(WIDE, TopDown(RRS()), Sampling(1.5), first_rows_kept, texts=900),
    "siblings see each other": Fault(TREE, TopDown(RRS()), broken=causal_mask),
    "positions of a chain": Fault(TREE, TopDown(RRS()), broken=positions_in_a_row),
    "one noise for draft and verifier": Fault(CHAIN, TopDown(Naive()), Sampling(2.0), coins_one_by_one, shares=True),
    "residual not renormalised": Fault(CHAIN, TopDown(NotNormalised())),
    "most probable drafts taken for draws": Fault(TREE, TopDown(RRS()), broken=most_probable_drafts),
    "siblings sorted": Fault(Meddled(TREE, in_order_of_tokens), TopDown(RRS()), Sampling(1.5), texts=3000),
}
