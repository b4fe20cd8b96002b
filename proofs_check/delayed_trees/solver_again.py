"""The second checks of the node solvers: spectheory's solvers and trees, sympy, and closed forms.

Nothing here plays the printed algorithms or uses their formulas; the tries of K-SEQ are played alone.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp

import spectheory as st
from proofs_check.claims import Case, second
from proofs_check.delayed_trees.library import SOLVERS, SPECTR, array, layered, tokens_per_call
from proofs_check.delayed_trees.solver_printed import THIRDS, acceptance, output, parts
from proofs_check.small_drafts import Law
from spectheory.otlp import NSS, Khisti, SpecTr


@second("D-RHO")
def gap_by_tries(case: Case) -> None:
    """Second check: p_acc and beta computed from the tries alone. For other laws the gap falls with rho."""

    def gap(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
        def tries(rng: Any) -> list[bool]:
            tokens = [rng.choice(len(q), p=q) for _ in range(k)]
            return [bool(rng.random() * rho * q[token] < p[token]) for token in tokens]

        played = list(st.branches(tries))
        some = sum((chance for tried, chance in played if any(tried)), Fraction(0))
        return some - rho * sum((chance for tried, chance in played if tried[0]), Fraction(0))

    assert [gap(case["p"], case["q"], case["k"], rho) for rho in case["rho"]] == case["gap"] == [0] * len(case["rho"])
    gaps = [gap(*THIRDS, 2, 1 + Fraction(i, 8)) for i in range(9)]
    assert gaps == sorted(set(gaps), reverse=True)
    assert gaps[0] > 0 > gaps[-1]


@second("D-RHO-BIN")
def refused_factor(case: Case) -> None:
    """Second check: a closed form of the emitted distribution. Spectheory refuses this factor; its own is lossless."""
    p, q, k, rho = case["p"], case["q"], case["k"], case["rho"]
    one = [min(a / rho, b) for a, b in zip(p, q, strict=True)]
    gamma = sum(((1 - sum(one)) ** i for i in range(k)), Fraction(0))
    left = [max(a - gamma * b, Fraction(0)) for a, b in zip(p, one, strict=True)]
    share = (1 - gamma * sum(one)) / sum(left)
    closed = tuple(gamma * b + share * rest for b, rest in zip(one, left, strict=True))
    assert closed == case["emitted"] != p
    assert sum(closed) == 1
    try:
        SpecTr(rho=rho).distribution(array(p), array(q), [0] * k)
    except ValueError:
        assert output(SpecTr(), p, q, k) == p
        return
    raise AssertionError(f"spectheory takes rho = {rho}")


@second("D-KHISTI-EXACT")
def khisti_for_two(case: Case) -> None:
    """Second check: spectheory's closed form, its bound, and its distributions summed over all drafts agree."""
    solver = Khisti(truncation=1)
    p, q, k = array(case["p"]), array(case["q"]), case["k"]
    assert solver.acceptance(p, q, k) == acceptance(solver, case["p"], case["q"], k) == case["acceptance"]
    assert solver.acceptance_bounds(p, q, k)[0] == case["bound"] < case["acceptance"]
    for more in (3, 4):
        assert solver.acceptance(p, q, more) == acceptance(solver, case["p"], case["q"], more)
    x, y, w = sp.symbols("x y w")  # masses of x, of y, and of what else x beats
    for drafts in (2, 3, 4, 5):
        met = sum(
            sp.binomial(drafts, i) * sp.binomial(drafts - i, j) * x**i * y**j * w ** (drafts - i - j)
            for i in range(1, drafts)
            for j in range(1, drafts - i + 1)
        )
        mass = x + y + w
        powers = (
            sp.binomial(drafts, j) * (-y) ** j * (mass ** (drafts - j) - (mass - x) ** (drafts - j))
            for j in range(1, drafts)
        )
        assert sp.expand(met + sum(powers)) == 0
    flat, falling = parts(*[1] * 7), parts(*range(7, 0, -1))
    assert solver.acceptance(array(falling), array(flat), 3) == acceptance(solver, falling, flat, 3)


@second("D-L1-ALL")
def nearer_and_less(case: Case) -> None:
    """Second check: spectheory's formulas give the acceptances, and twice the total variation is the distance."""
    solvers = SOLVERS | SPECTR
    near, far = case["nearer"], case["farther"]
    for case in (near, far):
        p, q = array(case["p"]), array(case["q"])
        assert 2 * sum(max(a - b, 0) for a, b in zip(p, q, strict=True)) == case["l1"]
        for name, solver in solvers.items():
            slack = Fraction(1, 2**8) if name == "SpecTr" else 0  # of the bracket of rho*
            assert abs(solver.acceptance(p, q, case["k"]) - case["acceptance"][name]) <= slack
    assert near["l1"] < far["l1"]
    for name, solver in solvers.items():
        less, more = (solver.acceptance(array(case["p"]), array(case["q"]), case["k"]) for case in (near, far))
        assert less < more, name


def some_worlds() -> list[st.World]:
    """Worlds with two depths and three tokens."""
    laws = [parts(*weights) for weights in ((0, 3, 1), (1, 3, 0), (1, 1, 1), (2, 0, 1), (1, 4, 2))]
    chosen = [laws[i : i + 4] for i in range(2)] + [[laws[i] for i in (4, 2, 0, 3)], [laws[i] for i in (3, 4, 1, 0)]]
    return [layered([(a, b), (c, d)]) for a, b, c, d in chosen]


@second("D-KMONO")
def trees_of_more_paths(case: Case) -> None:
    """Second check: sum over all trees. Khisti emits fewer tokens with more paths, other rules never in some worlds."""
    world = layered([(case["p"], case["q"])])
    found = [tokens_per_call(Khisti(truncation=1), world, paths, 0, case["L"]) for paths in case["K"]]
    assert found == case["block_efficiency"]
    assert found[1] < found[0]
    spectr = [tokens_per_call(SpecTr(), one, paths, 0, 2) for one in some_worlds() for paths in (1, 2)]
    assert all(few <= many + Fraction(1, 2**30) for few, many in zip(spectr[::2], spectr[1::2], strict=True))
    for solver, trunk in product(SOLVERS.values(), (0, 1)):
        world = some_worlds()[trunk]
        values = [tokens_per_call(solver, world, paths, trunk, 2 - trunk) for paths in (1, 2, 3)]
        assert values == sorted(values)
        assert tokens_per_call(solver, world, 2, trunk, 1) <= tokens_per_call(solver, world, 2, trunk, 2)


@second("D-NSS")
def delays_by_trees(case: Case) -> None:
    """Second check: spectheory's sum over all drafted trees."""
    world = layered([(layer["p"], layer["q"]) for layer in case["layers"]])
    paths, depth = case["K"], case["depth"]
    found = [tokens_per_call(NSS(), world, paths, trunk, depth - trunk) for trunk in range(depth + 1)]
    assert found == case["block_efficiency_by_L1"]
    assert found[1] < found[0]
    four = case["four_draws"]
    world = layered([(layer["p"], layer["q"]) for layer in four["layers"]])
    shapes = {"path": [(1, 0, 4)], "rollouts": [(2, 0, 2), (4, 0, 1)], "delayed": [(2, 2, 1), (3, 1, 1)]}
    best = {kind: max(tokens_per_call(NSS(), world, *shape) for shape in each) for kind, each in shapes.items()}
    assert best == four["best"]
    assert best["delayed"] < best["rollouts"]
