"""Lookahead decoding: Jacobi iterations of the target fill a pool of n-grams, which are then drafted.

The lookahead window needs no attention mask of its own. It has W consecutive columns and N - 1 rows, the oldest row
first. A token attends to the text, to the oldest row up to its column, and to the older rows of its column. So the
oldest row is a chain below the root, each column is a branch of this chain, and window and guesses are one tree.

    root  a1  a2  a3      row 0: a chain below the root, which is the first column's own token
     b0   b1  b2  b3      row 1: b0 below the root, b1 below a1, ...
     c0   c1  c2  c3      row 2: c0 below b0, ...; the target's choices after c0, c1, ... are the next row

Two things differ from the paper; neither can change the text. Paths with a common prefix share the nodes of the prefix,
which changes no logits. Tokens of the window are verified like the guesses, so they can be accepted, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reference.drafters.drafter import Drafter, DrafterKind, Drafting, undrawn
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, Tree
from spectheory.core.errors import InputError

Gram = tuple[int, ...]
"""An n-gram without its first token: N - 1 tokens."""


@dataclass(frozen=True)
class Lookahead(Drafter):
    """Drafts n-grams from a pool, and the window whose Jacobi iterations fill the pool. It needs no draft model.

    The window moves by one token per cycle, however many tokens were accepted. Its new tokens are the target's most
    probable tokens at any temperature, so nothing is drawn.

    Attributes:
        window: W, number of columns of the window.
        ngram: N, number of tokens of an n-gram; n-grams are looked up by their first token.
        guesses: G, maximum number of n-grams that are stored and drafted for each first token.

    Source: Lookahead Decoding (arXiv 2402.02057), Section 3; mask and moves of the window as in its authors' code.
    """

    window: int = 5
    ngram: int = 3
    guesses: int = 5

    def __post_init__(self) -> None:
        if self.window < 1 or self.ngram < 2 or self.guesses < 1:
            raise InputError(
                "window and guesses must be at least 1, ngram at least 2, got "
                f"window={self.window}, ngram={self.ngram}, guesses={self.guesses}"
            )

    def start(self, pair: Pair, sampling: Sampling) -> LookaheadDrafting:
        return LookaheadDrafting(self, pair.device)


class LookaheadDrafting(Drafting):
    """Drafts one text by lookahead.

    Attributes:
        pool: for each first token its n-grams, the latest last.
        rows: the window; each row has one token per column, and row 0 begins with the root's token.
        ends: for each column, its last node in the last draft.
    """

    def __init__(self, settings: Lookahead, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.pool: dict[int, dict[Gram, None]] = {}
        self.rows: list[list[int]] = []
        self.ends: list[int] = []
        self.root = -1

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """Row 0 starts as tokens of the prompt, one column more for each row that is missing."""
        columns = self.settings.window + self.settings.ngram - 2
        self.rows = [[prompt[i * len(prompt) // columns] for i in range(columns)]]

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """One Jacobi iteration adds a row, and n-grams to the pool once no row is missing."""
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
        """Columns deeper than `room` are dropped, because the context has no room for them."""
        trie = Trie(self.root)
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


class Trie:
    """A draft while it is built; paths share the nodes of their common prefix."""

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
        return undrawn(Tree(self.parent), torch.tensor(self.tokens, device=device))


KIND = DrafterKind.of(Lookahead(), "Lookahead", Lookahead(2, 3, 2))
