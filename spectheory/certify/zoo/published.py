"""Verifiers of papers as the code of their authors runs them, rewritten here from a reading of that code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spectheory.certify.zoo.specimen import documented
from spectheory.core.arrays import Vector, excess, power
from spectheory.core.chance import draw
from spectheory.core.draft import Draft
from spectheory.core.world import Levels, Paths

TWO_TOKENS = (Levels((1, 1)),)
TWO_PATHS = (Paths(2, 1),)


def _quotient(mass: Any, total: Any) -> Any:
    return mass / total if total else mass * 0


def _stepping_back(draft: Draft, p: Any, rng: Any, never_above_one: bool) -> tuple[int, int]:
    """Keep the whole path by its joint ratio, else the longest prefix whose coin succeeds, and draw one correction."""
    last = draft.tree.budget
    ratios = [draft.q[0].sum()]
    for node in range(1, last + 1):
        token = int(draft.tokens[node])
        ratios.append(ratios[-1] * p[node - 1][token] / draft.q[node - 1][token])
    if rng.random() < ratios[-1]:
        return last, draw(p[last], rng)
    for node in range(last - 1, -1, -1):
        reached = min(1, ratios[node]) * p[node]
        missing, over = excess(reached, draft.q[node]), excess(draft.q[node], reached)
        forced = never_above_one and ratios[node + 1] >= 1
        if forced or node == 0 or rng.random() < _quotient(missing.sum(), max(missing.sum(), over.sum())):
            if missing.sum():
                return node, draw(missing, rng)
            return node + 1, draw(p[node + 1], rng)
    raise AssertionError


def hsd_clever(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """HSD, "clever" mode: the whole path is kept by the ratio without cap, and no step back where the ratio is above 1.

    Seen in `algorithm_clean.py` of the authors (arXiv 2601.05724) with HSD=True. The inner weights are min(1, r) of
    their own prefix, without the largest ratio so far. Where nothing is missing, one more drafted token is kept.
    """
    return _stepping_back(draft, p, rng, never_above_one=True)


def hsd_without_cap(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """HSD without the cap, but with one corrected token only; the paper's Algorithm 1 corrects all tokens that follow.

    Seen in `algorithm_clean.py` of the authors (arXiv 2601.05724) with HSD=False.
    """
    return _stepping_back(draft, p, rng, never_above_one=False)


def _paths(draft: Draft) -> list[list[int]]:
    """The nodes of each path below the root, in draw order. A node that was drawn m times is on m paths."""
    hits = [0] * (draft.tree.budget + 1)

    def path() -> Iterator[int]:
        node = 0
        while draft.draws[node]:
            hits[node] += 1
            node = draft.draws[node][hits[node] - 1]
            yield node

    return [list(path()) for _ in draft.draws[0]]


def spectr_gbv(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """SpecTr-GBV, the code: each of K paths is tried with the probability it would be kept with if it were tried alone.

    Seen in `src/engine.py` of the authors (arXiv 2604.25925), which asks for blocks of two tokens or more; one token is
    enough to show it. With the target's and the draft's joint masses b and a of a block, and s = min(1, a / b), a block
    among the K drafts is kept with b (1 - (1 - s)^K) / (1 - (1 - a)^K), if no other one was kept before it. The
    correction has the weights b (1 - s^K). The paper also describes a modified target for the tokens that follow, which
    the code leaves out, so blocks of two tokens are lossy for K = 1 too.
    """
    paths = _paths(draft)
    count, length = len(paths), len(paths[0])
    one = draft.q[0].sum()
    accepted, masses, refused = 0, (one, one), set()
    for path in paths:
        nodes, drafted, target = [0, *path], [one], [one]
        for before, node in zip(nodes, path, strict=False):
            token = int(draft.tokens[node])
            drafted.append(drafted[-1] * draft.q[before][token])
            target.append(target[-1] * p[before][token])
        for depth in range(int(draft.tree.depth[accepted]) + 1, length):
            node, ours, theirs = nodes[depth], target[depth] * p[nodes[depth]], drafted[depth] * draft.q[nodes[depth]]
            left = (ours * power(1 - _shares(theirs, ours), count)).sum()
            top = left - target[depth] * (1 - min(1, _quotient(drafted[depth], target[depth]))) ** count
            coin = rng.random()
            if node in refused:
                continue
            if coin < _quotient(top, 1 - (1 - drafted[depth]) ** count - (target[depth] - left)):
                accepted, masses = node, (drafted[depth], target[depth])
            else:
                refused.add(node)
        whole = target[length] * (1 - (1 - min(1, _quotient(drafted[length], target[length]))) ** count)
        if rng.random() < _quotient(whole, 1 - (1 - drafted[length]) ** count):
            return path[-1], draw(p[path[-1]], rng)
    drafted_mass, target_mass = masses
    ours = target_mass * p[accepted]
    rest = ours * (1 - power(_shares(drafted_mass * draft.q[accepted], ours), count))
    return accepted, draw(rest if rest.sum() else p[accepted], rng)


def _shares(drafted: Vector, target: Vector) -> Vector:
    """min(1, drafted / target) for each token; 0 for 0 / 0."""
    return (drafted / (target + (target == 0))).clip(max=1) * (drafted > 0)


PUBLISHED = (
    documented("hsd-clever", hsd_clever, False, TWO_TOKENS),
    documented("hsd-without-cap", hsd_without_cap, False, TWO_TOKENS),
    documented("spectr-gbv", spectr_gbv, False, TWO_PATHS),
)
