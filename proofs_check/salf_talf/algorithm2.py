"""Algorithm 2 of SALF & TALF in rational arithmetic, word by word, on drafts small enough to look at every one.

Where the printed lines are ambiguous: line 5 takes B nodes, as its comment says; among equal probabilities the smaller
depth and then the smaller path goes first; G holds the root once, although lines 1 and 8 both put it there (claim
S-A2-ENS takes the other reading). N counts the root. A draft is a Markov chain on ranks: a distribution at the root and
one after each token, so that it has no last layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from proofs_check.small_drafts import Law, Path, laws, letters

NextToken = Callable[[Path], Law]
"""The distribution of the token after a path."""
Node = tuple[Fraction, int, Path]
"""(-probability, depth, path), so that the best comes first."""

ROOT: Node = (Fraction(-1), 0, ())
GRIDS = {1: ((2, 4, 6), (3, 3, 5)), 2: ((2, 5, 8), (3, 4, 6))}
"""By effort: tokens, the largest denominator of their probabilities, and the largest N."""


@dataclass(frozen=True)
class Iteration:
    """The state of Algorithm 2 at line 13.

    Attributes:
        popped: the nodes of lines 5 to 9.
        chosen: D after line 12.
        tree: G, best first.
        queue: Q, best first.
    """

    popped: list[Node]
    chosen: list[Node]
    tree: list[Node]
    queue: list[Node]

    @property
    def sum(self) -> Fraction:
        """The sum S_i."""
        return worth(self.chosen)


@dataclass(frozen=True)
class Markov:
    """A distribution at the root and after each token; `after` is empty for the same distribution everywhere."""

    start: Law
    after: tuple[Law, ...] = ()

    def __call__(self, path: Path) -> Law:
        return self.after[path[-1]] if path and self.after else self.start

    @property
    def support(self) -> int:
        """The smallest number of tokens of positive probability after any path."""
        return min(sum(p > 0 for p in law) for law in (self.start, *self.after))


@dataclass(frozen=True)
class ByDepth:
    """A distribution for each depth; the last is for all deeper nodes."""

    layers: tuple[Law, ...]

    def __call__(self, path: Path) -> Law:
        return self.layers[min(len(path), len(self.layers) - 1)]


def worth(nodes: Sequence[Node]) -> Fraction:
    """The sum of the probabilities."""
    return -sum((node[0] for node in nodes), Fraction(0))


def children(draft: NextToken, node: Node) -> list[Node]:
    """The children of a node: lines 17 to 19."""
    return [(node[0] * p, node[1] + 1, (*node[2], token)) for token, p in enumerate(draft(node[2]))]


def iterations(draft: NextToken, n: int, batch: int, *, root_twice: bool = False) -> Iterator[Iteration]:
    """The main loop without line 13: an endless iterator, which the caller stops."""
    tree, queue = [ROOT] * root_twice, [ROOT]
    while True:
        popped, queue = queue[:batch], queue[batch:]
        tree = sorted(tree + popped)[:n]
        epsilon = -tree[-1][0] if len(tree) == n else Fraction(0)
        chosen = [node for node in popped if -node[0] > epsilon]
        yield Iteration(popped, chosen, tree, queue)
        queue = sorted(queue + [child for node in chosen for child in children(draft, node)])[:n]


def drafted(draft: NextToken, n: int, batch: int, threshold: Fraction = Fraction(0)) -> list[Iteration]:
    """The iterations up to the stop; a repair of the printed loop also stops where D is empty."""
    done = []
    for state in iterations(draft, n, batch):
        done.append(state)
        if not state.chosen or state.sum < threshold:
            return done
    raise AssertionError("iterations never end")


@cache
def top(draft: NextToken, n: int) -> list[Node]:
    """The n best nodes of the whole tree, by looking at every node with less than n edges above it."""
    layer, seen = [ROOT], [ROOT]
    for _ in range(n - 1):
        layer = [child for node in layer for child in children(draft, node)]
        seen += layer
    return sorted(seen)[:n]


def replayed(draft: NextToken, n: int, batch: int, count: int) -> list[Fraction]:
    """The first sums S_i by `flat`."""
    return [worth(chosen) for chosen, _ in flat(draft, n, batch, count)]


def flat(draft: NextToken, n: int, batch: int, count: int) -> list[tuple[list[Node], list[Node]]]:
    """(D, G) of the first iterations, without a queue: every node seen is kept, and every set is computed anew."""
    seen, popped, found = {ROOT}, set[Node](), []
    for _ in range(count):
        newest = sorted(seen - popped)[:batch]
        popped |= set(newest)
        tree = sorted(popped)[:n]
        good = [node for node in newest if node[0] < (tree[-1][0] if len(tree) >= n else 0)]
        found.append((good, tree))
        seen |= {child for node in good for child in children(draft, node)}
    return found


def markov_drafts(tokens: int, largest: int) -> Iterator[Markov]:
    """Drafts with one of `laws` everywhere, then drafts with any of `laws` at the root and after each token."""
    grid = laws(tokens, largest)
    yield from map(Markov, grid)
    yield from (Markov(chosen[0], chosen[1:]) for chosen in product(grid, repeat=tokens + 1))


Run = tuple[Markov, int, int, int]
"""The draft, its tokens, N and B."""


def cases(effort: int) -> Iterator[Run]:
    """Every case of `shown_grids`, small N first."""
    for tokens, largest, most in GRIDS[effort]:
        for n in range(2, most + 1):
            yield from ((draft, tokens, n, batch) for draft in markov_drafts(tokens, largest) for batch in range(1, n))


def shown_grids(effort: int) -> str:
    """The grids of `cases` as (tokens, largest denominator, largest N)."""
    return ", ".join(map(str, GRIDS[effort]))


@cache
def recorded(effort: int) -> list[tuple[Run, list[Iteration]]]:
    """`drafted` with threshold 0 for each of `cases`."""
    return [((draft, tokens, n, batch), drafted(draft, n, batch)) for draft, tokens, n, batch in cases(effort)]


def as_tree(nodes: Sequence[Node]) -> dict[str, Any]:
    """Nodes as data that a page can draw: parents, letters and probabilities, the root first."""
    ordered = sorted(nodes, key=lambda node: (node[1], node[2]))
    place = {node[2]: index for index, node in enumerate(ordered)}
    return {
        "parent": [place[path[:-1]] if path else -1 for _, _, path in ordered],
        "node": [letters(path) for _, _, path in ordered],
        "p_hat": [-value for value, _, _ in ordered],
    }
