"""A datastore drafter in the manner of REST: what followed the text's longest known ending, by how often it did."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reference.drafters.drafter import Drafter, Drafting
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Tree
from spectheory.core.errors import InputError

DOUBLINGS = (1, 2, 4, 8, 16)
SORTED_BY = 32
"""Tokens by which suffixes are sorted, after these doublings; a search and its continuations look no further."""
END = -1
"""Stands behind each text of a corpus, so that nothing is found or continued across two texts."""


@dataclass(frozen=True, eq=False)
class SuffixArray:
    """A corpus of token ids, searchable for n-grams without a scan.

    Attributes:
        tokens: (n,) int32, all texts, END behind each.
        order: (n,) int32, the positions of the corpus sorted by the `SORTED_BY` tokens from there on.
    """

    tokens: np.ndarray
    order: np.ndarray

    @classmethod
    def build(cls, texts: Iterable[Sequence[int] | np.ndarray]) -> SuffixArray:
        """Sort the suffixes by prefix doubling: O(n log n) a round, five rounds.

        Raises:
            InputError: there is no text, or one has a negative token.
        """
        rows = [np.asarray([*text, END], dtype=np.int32) for text in texts]
        if not rows or min(int(row[:-1].min(initial=0)) for row in rows) < 0:
            raise InputError("texts must be at least one row of token ids, none of them negative")
        tokens = np.concatenate(rows)
        rank, order = tokens.astype(np.int64) + 1, np.arange(len(tokens))
        for length in DOUBLINGS:
            behind = np.zeros_like(rank)
            behind[:-length] = rank[length:] + 1
            key = rank * (max(len(rank), int(rank.max())) + 2) + behind
            order = np.argsort(key, kind="stable")
            rank[order] = np.cumsum(np.diff(key[order], prepend=-1) != 0)
        return cls(tokens, order.astype(np.int32))

    def save(self, file: Path) -> None:
        """Write an .npz file."""
        np.savez(file, tokens=self.tokens, order=self.order)

    @classmethod
    def load(cls, file: Path) -> SuffixArray:
        """Read what `save` wrote."""
        with np.load(file, allow_pickle=False) as arrays:
            return cls(arrays["tokens"], arrays["order"])

    def __repr__(self) -> str:
        return f"<SuffixArray of {len(self.tokens):,} tokens>"

    def find(self, ngram: Sequence[int]) -> range:
        """The entries of `order` at which suffixes begin with `ngram`, of at most `SORTED_BY` tokens; binary search."""
        wanted, everywhere = list(ngram), range(len(self.order))

        def beginning(entry: int) -> list[int]:
            at = self.order[entry]
            return self.tokens[at : at + len(wanted)].tolist()

        first = bisect_left(everywhere, wanted, key=beginning)
        return range(first, bisect_right(everywhere, wanted, lo=first, key=beginning))

    def longest(self, context: Sequence[int], least: int, most: int) -> tuple[int, range]:
        """The longest ending of `context` that the corpus has, of `least` to `most` tokens, and where; 0 for none.

        What ends an ending that is there is there as well, so that the length, too, is found by bisection.
        """
        found = {0: range(0)}

        def missing(length: int) -> bool:
            found[length] = self.find(context[-length:])
            return not found[length]

        known = bisect_left(range(least, min(most, len(context)) + 1), True, key=missing)
        length = least + known - 1 if known else 0
        return length, found[length]


def frequent(rows: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The `budget` most frequent nodes of the trie of `rows`: (parent, token, count), each (n + 1,), the root first.

    `rows` (m, depth) are sorted, END and what is behind it stand for nothing. Ties go by (count, depth, rank), where
    siblings of equal counts are ranked by token; so a parent comes before its children.
    """
    rows = np.ascontiguousarray(rows.T)
    depth, m = rows.shape
    begins = np.ones((depth, m), bool)
    begins[:, 1:] = np.logical_or.accumulate(rows[:, 1:] != rows[:, :-1], axis=0)
    number = np.cumsum(begins).reshape(depth, m)  # of the node at each depth of each row; 0 is the root
    count = np.bincount(number.ravel(), minlength=1)
    level, first = np.nonzero(begins & np.logical_and.accumulate(rows != END, axis=0))
    node = number[level, first]
    if len(node) > budget:  # the order of those that cannot be kept is not worth a sort
        often = count[node] >= np.partition(count[node], -budget)[-budget]
        level, first, node = level[often], first[often], node[often]
    parent = np.where(level > 0, number[level - 1, first], 0)
    siblings = np.lexsort((rows[level, first], -count[node], parent))
    rank = np.empty_like(siblings)
    rank[siblings] = np.arange(len(siblings)) - np.searchsorted(parent[siblings], parent[siblings])
    kept = np.lexsort((rank, level, -count[node]))[:budget]
    new = np.zeros(len(count), np.int64)
    new[node[kept]] = np.arange(1, len(kept) + 1)
    token = rows[level[kept], first[kept]]
    return np.append(-1, new[parent[kept]]), np.append(END, token), np.append(m, count[node[kept]])


@dataclass(frozen=True)
class Datastore(Drafter):
    """The trie of what follows the longest ending of the text in a corpus. It needs no draft model.

    Attributes:
        corpus: where continuations come from.
        budget: most drafted nodes.
        depth: most tokens of a continuation.
        longest: tokens of the longest ending that is searched for.
        shortest: tokens of the shortest; where it is not there either, nothing is drafted.
        samples: continuations that are counted; where there are more, as many of them at even distances in the order
            of the suffix array, so that counts stay in proportion.

    Raises:
        InputError: a number is below 1, shortest is above longest, or longest + depth is above `SORTED_BY`.

    Source: REST (arXiv 2311.08252), Section 3, with endings of up to 16 tokens and 64 nodes as there.
    """

    corpus: SuffixArray
    budget: int = 64
    depth: int = 10
    longest: int = 16
    shortest: int = 2
    samples: int = 1000

    def __post_init__(self) -> None:
        given = (self.budget, self.depth, self.shortest, self.samples)
        if min(given) < 1 or self.shortest > self.longest or self.longest + self.depth > SORTED_BY:
            raise InputError(
                f"budget, depth, shortest and samples must be at least 1, got {given}; longest must be at least "
                f"shortest, and at most {SORTED_BY} with depth, got {self.longest}"
            )

    def rule(self, sampling: Sampling) -> DrawRule:
        """See Drafter.rule; nothing is drawn."""
        return DrawRule.TOP_K

    def start(self, pair: Pair, sampling: Sampling) -> DatastoreDrafting:
        """See Drafter.start."""
        if (most := int(self.corpus.tokens.max())) >= pair.vocab_size:
            raise InputError(f"corpus has token {most}, the models have {pair.vocab_size}: use their own tokenizer")
        return DatastoreDrafting(self, pair.device)


class DatastoreDrafting(Drafting):
    """A text drafted from a datastore. `text` is its end, as long as it is searched for."""

    def __init__(self, settings: Datastore, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.text: list[int] = []

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read."""
        self.text = prompt[-self.settings.longest :]

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit."""
        self.text = [*self.text, *emitted][-self.settings.longest :]

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """See Drafting.grow."""
        parent, tokens, _ = frequent(self.continuations(room), self.settings.budget)
        tokens[0] = self.text[-1]
        draws: list[list[int]] = [[] for _ in parent]
        for node, above in enumerate(parent[1:].tolist(), start=1):
            draws[above].append(node)
        on_device = torch.as_tensor(tokens, dtype=torch.long, device=self.device)
        return Draft._unchecked(Tree(parent), on_device, [None] * len(draws), tuple(map(tuple, draws)), DrawRule.TOP_K)

    def continuations(self, room: int) -> np.ndarray:
        """(m, depth) what follows the longest known ending of the text, sorted."""
        settings, corpus = self.settings, self.settings.corpus
        length, found = corpus.longest(self.text, settings.shortest, settings.longest)
        few = min(len(found), settings.samples)
        entries = found.start + np.arange(few) * len(found) // max(few, 1)
        offsets = length + np.arange(min(settings.depth, room))
        return corpus.tokens.take(corpus.order[entries, None].astype(np.int64) + offsets, mode="clip")
