"""SALF & TALF: what the training of the draft model aims at."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from proofs_check.small_drafts import Hat, Law, Nodes, Path, grown, is_tree, select
from proofs_check.verdict import Verdict, claim, every


def beam(hat: Hat, k: int, n: int) -> Nodes:
    """The n best of what beam search finds in the full tree, the root left out."""
    layer: list[Path] = [()]
    pool: list[Path] = []
    for _ in range(max(map(len, hat))):
        found = [
            child for node in layer for child in best([path for path in hat if path[:-1] == node and path], hat, k)
        ]
        pool += found
        layer = best(found, hat, k)
    return frozenset(best(pool, hat, n))


def best(nodes: list[Path], hat: Hat, count: int) -> list[Path]:
    """The most probable ones."""
    return sorted(nodes, key=lambda node: (-hat[node], len(node), node))[:count]


def unties(hat: Hat) -> bool:
    """Whether no two nodes are equally probable."""
    return len(set(hat.values())) == len(hat)


@claim("S-TALF", source="SALF & TALF, Sections 1 and 3.2, Algorithm 1", stated=False)
def ideal_draft(effort: int) -> Verdict:
    """A draft model that minimises the TALF loss on the target's tree G generates the same tree as the target.

    L_n is least where the draft's law after n is the target's (claim T-CE has the proof), for each node n of G, the
    root and the leaves included. Nothing is said about the nodes outside G, where the draft may have any law. "Any
    dynamic tree construction algorithms can be used" (Section 3.2); two are looked at, draft and target with the same
    one and no ties.

    Proof for the N most probable nodes, as SpecExec finds them. A node outside G has an ancestor or itself, m, that is
    the child of a node of G and not in G. Draft and target agree on m, which is below every node of G, and what is
    below m is no more probable than m, under any law. So both have the same Top_N.

    Proof for the beam search of EAGLE-2, which the paper trains with: k nodes expanded a layer, k children each, then
    the N best of all. Let the target find N or more. By induction on the layers the draft expands the same nodes
    of G, and so finds all of G. What else it finds is a child of a node of G, which the target finds too and does not
    keep, or is below a node that is not in G: in each case it is less probable than every node of G and takes no place
    from one, neither among the k of its layer nor among the N.
    """
    laws = [(Fraction(w, 37), 1 - Fraction(w, 37)) for w in (34, 19)]
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
        """A law of its own for each inner node, so that products rarely meet."""
        steep = [Fraction(w, 37) for w in (34, 33, 32, 19, 31, 29, 28)]
        return {path: (steep[(i + by) % 7], 1 - steep[(i + by) % 7]) for i, path in enumerate(inner)}

    def beams() -> Iterator[tuple[Nodes, Hat, int, int]]:
        for one, other, n, k in product(range(7), range(7), range(1, 6), (1, 2)):
            hat = grown(turned(one))
            tree = beam(hat, k, n)
            mixed = grown({p: turned(one if not p or p in tree else other)[p] for p in inner})
            if len(tree) == n and unties(hat) and unties(mixed):
                yield tree, mixed, k, n

    count = every(pairs(), lambda case: select(frozenset(case[1]), case[2], case[1]) == case[0] and is_tree(case[0]))
    beamed = every(beams(), lambda case: beam(*case[1:]) == case[0] and is_tree(case[0]))
    return Verdict(
        "holds",
        f"Proved in the statement; seen on {count:,} pairs of a target and a draft that agree on G for the most "
        f"probable nodes and {beamed:,} for beams of 1 and 2 (N to 5, a law of its own at each node); 2 tokens, laws "
        f"{' and '.join(f'({a}, {b})' for a, b in laws)}, full trees 3 deep, N of 1 to {sizes[-1]} drafted nodes.",
        "a proof in words; exact enumeration",
    )
