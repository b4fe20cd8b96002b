"""A datastore drafter, as in REST: it finds the end of the text in a corpus and drafts what most often followed it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.drafters.drafter import Drafter, DrafterKind, Drafting, undrawn
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, Tree
from spectheory.core.errors import InputError

DOUBLINGS = (1, 2, 4, 8, 16)
SORTED_BY = 32
"""Number of tokens that suffixes are sorted by after these doublings: the limit for an n-gram with its continuation."""
END = -1
"""The token after each text of a corpus, so that no match and no continuation spans two texts."""


@dataclass(frozen=True, eq=False)
class SuffixArray:
    """A corpus of token ids, searchable for n-grams without a scan.

    Attributes:
        tokens: token ids of all texts, (n,) int32; each text is followed by END.
        order: positions in `tokens`, (n,) int32, sorted by the `SORTED_BY` tokens that begin there.
    """

    tokens: np.ndarray
    order: np.ndarray

    @classmethod
    def build(cls, texts: Iterable[Sequence[int] | np.ndarray]) -> SuffixArray:
        """Build the array from texts of token ids, by prefix doubling: five rounds of O(n log n).

        Raises:
            InputError: there is no text, or a token is negative.
        """
        rows = [np.asarray([*text, END], dtype=np.int32) for text in texts]
        if not rows or min(int(row[:-1].min(initial=0)) for row in rows) < 0:
            raise InputError("texts must be at least one row of token ids, none of them negative")
        tokens = np.concatenate(rows)
        rank, order = tokens.astype(np.int64) + 1, np.arange(len(tokens))
        for length in DOUBLINGS:
            after = np.zeros_like(rank)
            after[:-length] = rank[length:] + 1
            key = rank * (max(len(rank), int(rank.max())) + 2) + after
            order = np.argsort(key, kind="stable")
            rank[order] = np.cumsum(np.diff(key[order], prepend=-1) != 0)
        return cls(tokens, order.astype(np.int32))

    def __repr__(self) -> str:
        return f"<SuffixArray of {len(self.tokens):,} tokens>"

    def find(self, ngram: Sequence[int]) -> range:
        """The range of entries of `order` where `ngram` begins; it has at most `SORTED_BY` tokens."""
        wanted, everywhere = list(ngram), range(len(self.order))

        def beginning(entry: int) -> list[int]:
            at = self.order[entry]
            return self.tokens[at : at + len(wanted)].tolist()

        first = bisect_left(everywhere, wanted, key=beginning)
        return range(first, bisect_right(everywhere, wanted, lo=first, key=beginning))

    def longest(self, context: Sequence[int], least: int, most: int) -> tuple[int, range]:
        """The longest ending of `context` that the corpus has: its number of tokens and its entries of `order`.

        The ending has `least` to `most` tokens; if there is none in the corpus, the number is 0.
        """
        for length in range(min(most, len(context)), least - 1, -1):
            if found := self.find(context[-length:]):
                return length, found
        return 0, range(0)


def frequent(rows: np.ndarray, budget: int) -> tuple[list[int], list[int]]:
    """The `budget` most frequent nodes of the trie of `rows`: parents and tokens of the drafted nodes.

    `rows` are sorted continuations (m, depth); END and the tokens after it are ignored. Nodes are in descending order
    of count; those of equal counts in the order of depth, then of their path. So a parent is before its children.
    """
    begins, goes_on = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    begins[:1] = True
    found = []
    for depth, column in enumerate(rows.T, start=1):
        begins[1:] |= column[1:] != column[:-1]
        goes_on &= column != END
        first = np.flatnonzero(begins)
        count = np.diff(first, append=len(rows)) * goes_on[first]
        often = np.argsort(-count, kind="stable")[:budget]
        found += [(-count[i], depth, rows[first[i], :depth].tolist()) for i in often if count[i]]
    paths = [tuple(path) for _, _, path in sorted(found)[:budget]]
    nodes = {path: node for node, path in enumerate([(), *paths])}
    return [nodes[path[:-1]] for path in paths], [path[-1] for path in paths]


@dataclass(frozen=True)
class Datastore(Drafter):
    """Drafts the most frequent continuations of the end of the text in a corpus, as a tree; it needs no draft model.

    Attributes:
        corpus: corpus that is searched for the end of the text.
        budget: maximum number of drafted nodes.
        depth: maximum number of tokens of a continuation.
        longest: maximum number of tokens of the ending that is searched for.
        shortest: minimum number of tokens of the ending; if the corpus does not have it, nothing is drafted.

    Raises:
        InputError: a number is below 1, shortest is above longest, or longest + depth is above `SORTED_BY`.

    Source: REST (arXiv 2311.08252), Section 3, with endings of up to 16 tokens and 64 nodes as there.
    """

    corpus: SuffixArray
    budget: int = 64
    depth: int = 10
    longest: int = 16
    shortest: int = 2

    def __post_init__(self) -> None:
        given = (self.budget, self.depth, self.shortest)
        if min(given) < 1 or self.shortest > self.longest or self.longest + self.depth > SORTED_BY:
            raise InputError(
                f"budget, depth and shortest must be at least 1, got {given}; longest must be at least "
                f"shortest, and longest + depth at most {SORTED_BY}, got longest = {self.longest}"
            )

    def start(self, pair: Pair, sampling: Sampling) -> DatastoreDrafting:
        if (most := int(self.corpus.tokens.max())) >= pair.vocab_size:
            raise InputError(
                f"corpus has token {most}, the models have {pair.vocab_size} tokens: build it with their tokenizer"
            )
        return DatastoreDrafting(self, pair.device)


class DatastoreDrafting(Drafting):
    """Drafts one text from a datastore. `text` holds the last tokens, at most as many as the longest ending has."""

    def __init__(self, settings: Datastore, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.text: list[int] = []

    def read(self, prompt: list[int], logits: Tensor) -> None:
        self.text = prompt[-self.settings.longest :]

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        self.text = [*self.text, *emitted][-self.settings.longest :]

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        parents, tokens = frequent(self.continuations(room), self.settings.budget)
        return undrawn(Tree([-1, *parents]), torch.tensor([self.text[-1], *tokens], device=self.device))

    def continuations(self, room: int) -> np.ndarray:
        """Continuations (m, depth) of the longest ending of the text that the corpus has, sorted."""
        settings, corpus = self.settings, self.settings.corpus
        length, found = corpus.longest(self.text, settings.shortest, settings.longest)
        offsets = length + np.arange(min(settings.depth, room))
        return corpus.tokens.take(corpus.order[found.start : found.stop, None].astype(np.int64) + offsets, mode="clip")


def _random_corpus(vocab_size: int, texts: int, length: int) -> SuffixArray:
    return SuffixArray.build(np.random.default_rng(0).integers(vocab_size, size=(texts, length)))


KIND = DrafterKind(
    compared=lambda sampling, plan, corpus: {"datastore": Datastore(corpus)},
    greedy=lambda: [Datastore(_random_corpus(300, 10, 500), 16, shortest=1)],
    small=lambda: [Datastore(_random_corpus(4, 4, 60), 6, 3, 4, 1)],
)
