"""Lookahead decoding: the target's own Jacobi iterations fill a pool of n-grams, which are then drafted.

The lookahead branch needs no attention mask of its own. Its window has W consecutive columns and N - 1 rows, the oldest
row first. A token attends to the text, to the oldest row up to its column, and to the older rows of its column: the
oldest row is a chain below the root, and each column is a branch of that chain. So window and guesses form one tree.

    root  a1  a2  a3      row 0: a chain below the root, which is the first column's own token
     b0   b1  b2  b3      row 1: b0 below the root, b1 below a1, ...
     c0   c1  c2  c3      row 2: c0 below b0, ...; the target's choices after c0, c1, ... are the next row

Two things differ from the paper, and neither can change the text. Paths with a common prefix share its nodes, which
changes no logits. Tokens of the window are verified as the guesses are, so that a window may be accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reference.drafters.drafter import Drafter, Drafting
from reference.drafters.kind import DrafterKind
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Tree
from spectheory.core.errors import InputError

Gram = tuple[int, ...]
"""The N - 1 tokens after the first one of an n-gram."""


@dataclass(frozen=True)
class Lookahead(Drafter):
    """Guesses from a pool of n-grams, and the window whose Jacobi iterations fill it. It needs no draft model.

    The window moves by one token per cycle, however many were accepted. Its new tokens are the target's most probable
    ones at any temperature, so that the draft is a function of the text.

    Attributes:
        window: W, columns of the window.
        ngram: N, tokens of an n-gram; it is looked up by its first token.
        guesses: G, n-grams that are kept and drafted for each first token.
        prompt: whether the n-grams of the prompt are in the pool from the start.

    Source: Lookahead Decoding (arXiv 2402.02057), Section 3; mask and moves of the window as in its authors' code.
    """

    window: int = 5
    ngram: int = 3
    guesses: int = 5
    prompt: bool = False

    def __post_init__(self) -> None:
        if self.window < 1 or self.ngram < 2 or self.guesses < 1:
            raise InputError(
                "window and guesses must be at least 1, ngram at least 2, got "
                f"window={self.window}, ngram={self.ngram}, guesses={self.guesses}"
            )

    @property
    def budget(self) -> int:
        """Largest number of drafted nodes: the guesses, and a window with one more column for each missing row."""
        window = max(rows * (self.window + self.ngram - 1 - rows) - 1 for rows in range(1, self.ngram))
        return window + self.guesses * (self.ngram - 1)

    def rule(self, sampling: Sampling) -> DrawRule:
        """See Drafter.rule; nothing is drawn."""
        return DrawRule.TOP_K

    def start(self, pair: Pair, sampling: Sampling) -> LookaheadDrafting:
        """See Drafter.start."""
        return LookaheadDrafting(self, pair.device)


class LookaheadDrafting(Drafting):
    """A text drafted by lookahead.

    Attributes:
        pool: the n-grams by their first token, the latest last.
        rows: the window, one token a column in each row; the first of row 0 is the root's.
        ends: the node of the last draft at which each column ends.
    """

    def __init__(self, settings: Lookahead, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.pool: dict[int, dict[Gram, None]] = {}
        self.rows: list[list[int]] = []
        self.ends: list[int] = []
        self.root = -1

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read. Row 0 begins with tokens of the prompt; each row that is still missing takes a column."""
        n, columns = self.settings.ngram, self.settings.window + self.settings.ngram - 2
        self.rows = [[prompt[i * len(prompt) // columns] for i in range(columns)]]
        if self.settings.prompt:
            for at in range(len(prompt) - n + 1):
                self._remember(*prompt[at : at + n])

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit. One Jacobi iteration: a new row, and n-grams for the pool once no row is missing."""
        if logits is not None and self.ends:
            rows = [*self.rows, logits[self.ends].argmax(-1).tolist()]
            if len(rows) == self.settings.ngram:
                for gram in zip(*rows, strict=True):
                    self._remember(*gram)
                self.rows = rows[1:]
            else:
                self.rows = [row[1:] for row in rows]
        self.root = emitted[-1]

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """See Drafting.grow. Columns deeper than `room` are dropped: they would not fit the context."""
        trie = _Trie(self.root)
        for gram in reversed(self.pool.get(self.root, {})):
            trie.add(0, gram[:room])
        fitting = max(0, room + 2 - len(self.rows))
        self.rows = [row[:fitting] for row in self.rows]
        self.rows[0][:1] = [self.root][:fitting]
        chain, self.ends = 0, []
        for first, *column in zip(*self.rows, strict=True):
            chain = trie.add(chain, (first,)) if self.ends else 0
            self.ends.append(trie.add(chain, column))
        return trie.draft(self.device)

    def _remember(self, first: int, *gram: int) -> None:
        """Keep the latest G n-grams of each first token."""
        known = self.pool.setdefault(first, {})
        known.pop(gram, None)
        known[gram] = None
        if len(known) > self.settings.guesses:
            del known[next(iter(known))]


class _Trie:
    """A draft in which paths share the nodes of their common prefix."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parent = [root], [-1]
        self.children: list[dict[int, int]] = [{}]

    def add(self, node: int, path: Sequence[int]) -> int:
        """Add `path` below `node`; returns its last node."""
        for token in path:
            known = self.children[node]
            if token not in known:
                known[token] = len(self.tokens)
                self.tokens.append(token)
                self.parent.append(node)
                self.children.append({})
            node = known[token]
        return node

    def draft(self, device: torch.device) -> Draft:
        """The whole trie as a draft, with siblings in the order of their addition."""
        draws = tuple(tuple(known.values()) for known in self.children)
        tokens = torch.tensor(self.tokens, device=device)
        return Draft._unchecked(Tree(self.parent), tokens, [None] * len(draws), draws, DrawRule.TOP_K)


KIND = DrafterKind.of(Lookahead(), "Lookahead", Lookahead(2, 3, 2, prompt=True))
