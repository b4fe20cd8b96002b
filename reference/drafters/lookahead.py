"""Lookahead decoding: the target's own Jacobi iterations fill a pool of n-grams, from which it is drafted for.

The lookahead branch needs no attention mask of its own. Its window has W columns, one behind the other, and N - 1 rows,
the oldest first. A token attends to the text, to the oldest row up to its column and to the older rows of its column:
the oldest row is a chain below the root, and each column a branch that leaves it. So window and guesses are one tree.

    root  a1  a2  a3      row 0: a chain below the root, which is the first column's own token
     b0   b1  b2  b3      row 1: b0 below the root, b1 below a1, ...
     c0   c1  c2  c3      row 2: c0 below b0, ...; the target's choices behind c0, c1, ... are the next row

What differs from the paper: paths that begin alike share nodes, which changes no logits; and tokens of the window are
verified as the guesses are, so that a window that happens to be right is accepted. Neither can change the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reference.drafters.drafter import Drafter, Drafting
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Tree
from spectheory.core.errors import InputError

Gram = tuple[int, ...]
"""The N - 1 tokens behind the first one of an n-gram."""


@dataclass(frozen=True)
class Lookahead(Drafter):
    """Guesses from a pool of n-grams, and the window whose Jacobi iterations fill it. It needs no draft model.

    The window moves on by one token a cycle, however many were accepted, and new tokens of it are the target's most
    probable ones at any temperature, so that the draft is a function of the text.

    Attributes:
        window: W, columns of the window.
        ngram: N, tokens of an n-gram, the one it is looked up by included.
        guesses: G, n-grams that are kept for each first token, and drafted.
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
        """Most drafted nodes: the guesses, and a window that is one column wider for each row it still lacks."""
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
        pool: first token -> the n-grams behind it, the latest last.
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
        """See Drafting.read. Row 0 begins with tokens of the prompt; each row that is still to come takes a column."""
        n, columns = self.settings.ngram, self.settings.window + self.settings.ngram - 2
        self.rows = [[prompt[i * len(prompt) // columns] for i in range(columns)]]
        if self.settings.prompt:
            for at in range(len(prompt) - n + 1):
                self._remember(*prompt[at : at + n])

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit. One Jacobi iteration: a new row, and n-grams for the pool once all rows are there."""
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
        """See Drafting.grow. Columns that would end below `room` are given up: the context has no place for them."""
        trie = _Trie(self.root)
        for gram in reversed(self.pool.get(self.root, {})):
            trie.hang(0, gram[:room])
        fitting = max(0, room + 2 - len(self.rows))
        self.rows = [row[:fitting] for row in self.rows]
        self.rows[0][:1] = [self.root][:fitting]
        chain, self.ends = 0, []
        for first, *column in zip(*self.rows, strict=True):
            chain = trie.hang(chain, (first,)) if self.ends else 0
            self.ends.append(trie.hang(chain, column))
        return trie.draft(self.device)

    def _remember(self, first: int, *gram: int) -> None:
        """Keep the latest G n-grams of each first token."""
        known = self.pool.setdefault(first, {})
        known.pop(gram, None)
        known[gram] = None
        if len(known) > self.settings.guesses:
            del known[next(iter(known))]


class _Trie:
    """A draft in which paths that begin alike share nodes."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parent = [root], [-1]
        self.children: list[dict[int, int]] = [{}]

    def hang(self, node: int, path: Sequence[int]) -> int:
        """The node that `path` ends at below `node`."""
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
        """All of it, siblings in the order in which they came."""
        draws = tuple(tuple(known.values()) for known in self.children)
        tokens = torch.tensor(self.tokens, device=device)
        return Draft._unchecked(Tree(self.parent), tokens, [None] * len(draws), draws, DrawRule.TOP_K)
