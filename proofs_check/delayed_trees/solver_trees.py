"""Node solvers on delayed trees: more paths, and what a delay does to NSS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Finding, claim, smallest
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.walks import words
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law


@dataclass(frozen=True)
class Layers:
    """A world with one pair (p, q) per depth; the last pair also holds at all greater depths."""

    layers: tuple[printed.Pair, ...]

    def at(self, depth: int) -> printed.Pair:
        """(p, q) at the nodes of a depth."""
        return self.layers[min(depth, len(self.layers) - 1)]


def efficiency(
    rule: printed.Procedure, world: Layers, shape: tuple[int, int, int], depth: int = 0, hits: int = 1
) -> Fraction:
    """Mean number of tokens of a cycle on random (K, L1, L2)-delayed trees, by recursion over the levels."""
    paths, trunk, length = shape
    if depth == trunk + length:
        return ONE
    p, q = world.at(depth)
    k = paths if depth == trunk else hits
    total, below = ONE, {}
    for drafts, chance in printed.drafted(q, k):
        emitted = printed.emission(rule, p, q, drafts)
        for token, count in Counter(drafts).items():
            if emitted[token]:
                below[count] = below.get(count) or efficiency(rule, world, shape, depth + 1, count)
                total += chance * emitted[token] * below[count]
    return total


@claim("D-KMONO")
def more_nodes(effort: int) -> Finding:
    def falls(p: Law, q: Law, k: int) -> bool:
        return k == 1 and printed.acceptance(printed.untuned(p, q), p, q, 2) < printed.acceptance(
            printed.untuned(p, q), p, q, 1
        )

    def events(p: Law, q: Law, k: int) -> Iterator[dict[str, Any]]:
        for name, rule in printed.RULES.items():
            yield from compared(name, rule, rule, p, q, k)
        few, many = (printed.KSeq(bracket(p, q, n, 30)[1]) for n in (k, k + 1))
        yield from compared("SpecTr", few, many, p, q, k)
        tournament = printed.untuned(p, q)
        yield from compared("Khisti", tournament, tournament, p, q, k)

    def compared(name: str, few: printed.Rule, many: printed.Rule, p: Law, q: Law, k: int) -> Iterator[dict[str, Any]]:
        before, after = printed.profile(few, p, q, k, k + 1), printed.profile(many, p, q, k + 1, k + 1)
        slack = Fraction(1, 2**20) if name == "SpecTr" else ZERO
        yield from ({"solver": name, "k": k, "now": before[e], "later": after[e] + slack} for e in before)

    p, q, k = smallest(printed.settings(effort), falls)
    most = 3 if effort == 1 else 4
    every_one = [case for case in printed.settings(effort) if case[2] < most]
    before, after = (1 + printed.acceptance(printed.untuned(p, q), p, q, paths) for paths in (k, k + 1))
    return Finding(
        {"count": len(every_one), "over": printed.over(effort), "most": most, "close": len(every_one)},
        {"p": p, "q": q, "K": [k, k + 1], "L": 1, "parent": [-1, 0, 0], "block_efficiency": [before, after]},
        cases={"event": (event for case in every_one for event in events(*case))},
    )


def worlds(effort: int) -> Iterator[tuple[Layers, int, int]]:
    """(world, K, depth of the tree), small ones first."""
    sizes = ((2, 2, 2, 2), (2, 2, 2, 3), (2, 3, 3, 2)) if effort == 1 else ((2, 4, 2, 2), (2, 3, 3, 3), (3, 2, 2, 3))
    for tokens, largest, paths, depth in sizes:
        yield from ((Layers(pair), paths, depth) for pair in product(printed.pairs(tokens, largest), repeat=2))


def delays(world: Layers, paths: int, depth: int) -> list[Fraction]:
    """NSS block efficiency of K paths of one depth for each delay L1 = 0, 1, ..."""
    return [efficiency(printed.nss, world, (paths, trunk, depth - trunk)) for trunk in range(depth + 1)]


def at_budget(world: Layers, draws: int) -> dict[str, Fraction]:
    """The best NSS block efficiency of `draws` draws: as a path, as two or more paths from the root, or delayed."""
    best = {"path": efficiency(printed.nss, world, (1, 0, draws)), "rollouts": ZERO, "delayed": ZERO}
    for paths, length in product(range(2, draws + 1), range(1, draws // 2 + 1)):
        trunk = draws - paths * length
        kind = "delayed" if trunk else "rollouts"
        if trunk >= 0:
            best[kind] = max(best[kind], efficiency(printed.nss, world, (paths, trunk, length)))
    return best


@claim("D-NSS")
def delay_and_nss(effort: int) -> Finding:
    def drops(*case: Any) -> bool:
        values = delays(*case)
        return values[1] < values[0]

    def loses_to_rollouts(world: Layers, draws: int) -> bool:
        best = at_budget(world, draws)
        return best["delayed"] < best["rollouts"]

    def wins(world: Layers, draws: int) -> bool:
        best = at_budget(world, draws)
        return best["delayed"] > max(best["path"], best["rollouts"])

    world, paths, depth = smallest(worlds(effort), drops)
    every_one = [*worlds(effort)]
    sure = tuple(Fraction(token == 0) for token in range(3))
    loses = smallest(((case[0], 4) for case in worlds(1)), loses_to_rollouts)
    later = ((Layers(((sure, sure), pair)), 4) for pair in printed.pairs(3, 3))
    gains = smallest(later, wins)
    return Finding(
        {"count": len(every_one), "loses": _gap(*loses), "gains": _gap(*gains)},
        {
            "layers": [{"p": p, "q": q} for p, q in world.layers],
            "K": paths,
            "depth": depth,
            "block_efficiency_by_L1": delays(world, paths, depth),
            "four_draws": {"layers": [{"p": p, "q": q} for p, q in loses[0].layers], "best": at_budget(*loses)},
        },
        cases={
            "world": (
                {"without_delay": (found := delays(*one))[0], "delayed": found[1], "all": found} for one in every_one
            ),
            "budget": (at_budget(*one) for one in (loses, gains)),
        },
    )


def _gap(world: Layers, draws: int) -> str:
    best = ", ".join(f"{kind} {value}" for kind, value in at_budget(world, draws).items())
    return f"{'; '.join(f'p = {words(p)}, q = {words(q)}' for p, q in world.layers)}: {best}"
