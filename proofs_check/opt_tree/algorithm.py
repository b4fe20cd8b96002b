"""Algorithm 1, one drafting step at a time, and the drafts on which it is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from proofs_check.small_drafts import Hat, Nodes, Path, best_worth, drafts

FEW = ((1, 2, 4), (2, 2, 4), (2, 3, 4), (3, 2, 3))
GRIDS = {1: FEW, 2: (*FEW, (2, 2, 9), (2, 3, 5), (3, 2, 4))}
"""By effort: depth, tokens and largest denominator of the drafts that are checked one by one."""


def cases(effort: int) -> Iterator[tuple[int, Hat]]:
    """(n, draft) over the grids; n nodes, and the full tree n deep."""
    return ((depth, hat) for depth, tokens, largest in GRIDS[effort] for hat in drafts(depth, tokens, largest))


def shown_grids(effort: int) -> str:
    """The grids of `cases` as (n, tokens, largest denominator)."""
    return ", ".join(map(str, GRIDS[effort]))


def steps(n: int, hat: Hat, *, later_first: bool = False) -> list[Nodes]:
    """T of Algorithm 1 after drafting steps 1, ..., n; equal p-hat in a layer are ordered by path, or in reverse."""
    layer: list[Path] = [()]
    kept: list[Nodes] = [frozenset()]
    for depth in range(1, n + 1):
        candidates = sorted((node for node in hat if len(node) == depth and node[:-1] in layer), reverse=later_first)
        layer = sorted(candidates, key=hat.__getitem__, reverse=True)[:n]
        kept.append(kept[-1] | set(layer))
    return kept[1:]


def gains(drafted: list[Nodes], n: int, hat: Hat) -> list[Fraction]:
    """E_sub(T, n) - E after each drafting step of Algorithm 1, E starting at 0."""
    worths = [best_worth(nodes, n, hat) for nodes in drafted]
    return [after - before for before, after in pairwise([Fraction(0), *worths])]


def falling(gained: Sequence[Fraction]) -> bool:
    """Whether the gains are non-increasing and at most 1."""
    return all(later <= gain for gain, later in pairwise([Fraction(1), *gained]))


def stop(gained: Sequence[Fraction], delta: Fraction) -> int:
    """Drafting steps that Algorithm 1 takes: until one gains no more than delta, or the depth is n."""
    return next((step for step, gain in enumerate(gained, 1) if gain <= delta), len(gained))


def grown(n: int, hat: Hat, delta: Fraction, *, later_first: bool = False) -> Nodes:
    """T when Algorithm 1 leaves its loop."""
    drafted = steps(n, hat, later_first=later_first)
    return drafted[stop(gains(drafted, n, hat), delta) - 1]
