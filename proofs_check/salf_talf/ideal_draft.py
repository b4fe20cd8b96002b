"""SALF & TALF: whether a draft model with minimal TALF loss drafts the target's tree."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from proofs_check.claims import Finding, claim
from proofs_check.salf_talf.algorithm2 import beam
from proofs_check.small_drafts import Hat, Law, Nodes, Path, grown, is_tree, select


def beamed(laws: dict[Path, Law], k: int, n: int) -> Nodes:
    """The n best drafted nodes that beam search finds in three layers."""
    return frozenset(path for _, _, path in beam(laws.__getitem__, k, 3, n + 1) if path)


def unties(hat: Hat) -> bool:
    """Whether no two nodes are equally probable."""
    return len(set(hat.values())) == len(hat)


@claim("S-TALF")
def ideal_draft(effort: int) -> Finding:
    laws: list[Law] = [(Fraction(w, 37), 1 - Fraction(w, 37)) for w in (34, 19)]
    sizes = range(1, 2 + effort)
    inner: list[Path] = [path for length in range(3) for path in product(range(2), repeat=length)]

    def pairs() -> Iterator[tuple[Nodes, Hat, int]]:
        for chosen in product(laws, repeat=7):
            target = dict(zip(inner, chosen, strict=True))
            hat = grown(target)
            for n in sizes:
                tree = select(frozenset(hat), n, hat)
                ordered = sorted(hat.values(), reverse=True)
                if ordered[n - 1] == ordered[n]:
                    continue
                free = [path for path in inner if path and path not in tree]
                for other in product(laws, repeat=len(free)):
                    yield tree, grown(target | dict(zip(free, other, strict=True))), n

    def turned(by: int) -> dict[Path, Law]:
        """A different distribution for each inner node, so that products are rarely equal."""
        steep = [Fraction(w, 37) for w in (34, 33, 32, 19, 31, 29, 28)]
        return {path: (steep[(i + by) % 7], 1 - steep[(i + by) % 7]) for i, path in enumerate(inner)}

    def beams() -> Iterator[tuple[Nodes, dict[Path, Law], int, int]]:
        for one, other, n, k in product(range(7), range(7), range(1, 6), (1, 2)):
            tree = beamed(turned(one), k, n)
            mixed = {p: turned(one if not p or p in tree else other)[p] for p in inner}
            if len(tree) == n and unties(grown(turned(one))) and unties(grown(mixed)):
                yield tree, mixed, k, n

    by_value = [{"drafted": select(frozenset(hat), n, hat), "G": tree} for tree, hat, n in pairs() if is_tree(tree)]
    by_beam = [{"drafted": beamed(mixed, k, n), "G": tree} for tree, mixed, k, n in beams() if is_tree(tree)]
    return Finding(
        {
            "count": len(by_value),
            "beamed": len(by_beam),
            "distributions": " and ".join((f"({a}, {b})" for a, b in laws)),
            "largest": sizes[-1],
        },
        cases={"pair": by_value, "pair_of_beams": by_beam},
    )
