"""The second checks of the node solvers: spectheory's solvers and trees, sympy, and closed forms against plays.

Nothing here plays the printed algorithms or uses their formulas, but for tries of K-SEQ that are played alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import sympy as sp

import spectheory as st
from proofs_check.verdict import Verdict, second
from spectheory.otlp import NSS, Khisti, Naive, Solver, SpecInfer, SpecTr

Law = Sequence[Fraction]


def array(law: Law) -> Any:
    """As spectheory takes it."""
    return np.array([Fraction(chance) for chance in law], dtype=object)


def drafts_of(q: Law, k: int) -> list[tuple[tuple[int, ...], Fraction]]:
    """All k independent draws and their probability."""
    found = [(x, prod((q[t] for t in x), start=Fraction(1))) for x in product(range(len(q)), repeat=k)]
    return [(drafts, chance) for drafts, chance in found if chance]


def emitted(solver: Solver, p: Law, q: Law, k: int) -> tuple[Fraction, ...]:
    """The law of the emitted token of a spectheory solver over all drafts."""
    laws = [solver.distribution(array(p), array(q), drafts) * chance for drafts, chance in drafts_of(q, k)]
    return tuple(np.sum(laws, axis=0))


def accepted(solver: Solver, p: Law, q: Law, k: int) -> Fraction:
    """Its acceptance by Definition 5.1, from its laws and not from its formula."""
    return sum(
        (c * sum(solver.distribution(array(p), array(q), x)[t] for t in set(x)) for x, c in drafts_of(q, k)),
        Fraction(0),
    )


def layered(layers: Sequence[tuple[Law, Law]]) -> st.World:
    """A world with one pair of laws at each depth; the last serves all below."""
    rows = [(array(p), array(q)) for p, q in layers]
    return st.World(
        lambda context: rows[min(len(context), len(rows) - 1)][0],
        lambda context: rows[min(len(context), len(rows) - 1)][1],
    )


def tokens_per_call(solver: Solver, world: st.World, paths: int, trunk: int, length: int) -> Fraction:
    """E[tau + 1] on delayed trees, by spectheory over all trees."""
    return st.delayed_block_efficiency(solver, world, paths, length, trunk).value


@second("D-RHO")
def gap_by_tries(verdict: Verdict) -> str:
    """p_acc and beta from tries that are played alone, and the gap of another setting, which overlaps."""

    def gap(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
        def tries(rng: Any) -> list[bool]:
            tokens = [rng.choice(len(q), p=q) for _ in range(k)]
            return [bool(rng.random() * rho * q[token] < p[token]) for token in tokens]

        played = list(st.branches(tries))
        some = sum((chance for tried, chance in played if any(tried)), Fraction(0))
        return some - rho * sum((chance for tried, chance in played if tried[0]), Fraction(0))

    case = verdict.case
    assert [gap(case["p"], case["q"], case["k"], rho) for rho in case["rho"]] == case["gap"] == [0] * len(case["rho"])
    thirds = (Fraction(1, 3), Fraction(2, 3))
    gaps = [gap(thirds, thirds[::-1], 2, 1 + Fraction(i, 8)) for i in range(9)]
    assert gaps == sorted(set(gaps), reverse=True)
    assert gaps[0] > 0 > gaps[-1]
    return "the formulas, and the tries played by themselves with uniform numbers and nothing else, agree."


@second("D-RHO-BIN")
def refused_factor(verdict: Verdict) -> str:
    """The emitted law by its closed form; spectheory refuses that factor, and is lossless at the end it uses."""
    case = verdict.case
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
        assert emitted(SpecTr(), p, q, k) == p
        return "the play over every coin and the closed form agree; spectheory.otlp.SpecTr refuses the factor."
    raise AssertionError(f"spectheory takes rho = {rho}")


@second("D-RHO-OPT")
def root_isolated(verdict: Verdict) -> str:
    """The root isolated by sympy as that of a polynomial; the acceptance above it from spectheory's laws."""
    case = verdict.case
    p, q, k, rho = case["p"], case["q"], case["k"], case["rho"]
    x = sp.symbols("x")
    bends = sorted({Fraction(1), Fraction(k), *(a / b for a, b in zip(p, q, strict=True) if b and 1 < a / b < k)})
    roots = []
    for low, high in pairwise(bends):
        a = sum((a for a, b in zip(p, q, strict=True) if a <= low * b), Fraction(0))
        s = sum((b for a, b in zip(p, q, strict=True) if a > low * b), Fraction(0))
        beta = sp.Rational(s) + sp.Rational(a) / x
        found = sp.Poly(sp.numer(sp.together(1 - (1 - beta) ** k - x * beta)), x)
        isolated: Any = found.intervals(eps=sp.Rational(1, 10**12))
        roots += [Fraction(str(end)) for (start, end), _ in isolated if low <= Fraction(str(start)) and end <= high]
    assert len(roots) == 1, "one root, isolated from above"
    at_root = sum((min(a, roots[0] * b) for a, b in zip(p, q, strict=True)), Fraction(0))
    assert accepted(SpecTr(rho=rho), p, q, k) == case["acceptance"] > case["acceptance_at_root_at_most"] >= at_root
    assert emitted(SpecTr(rho=rho), p, q, k) == p
    assert accepted(SpecTr(), p, q, k) < case["acceptance"]
    return "Algorithm 8 at a halved bracket, and the root isolated by sympy with spectheory.otlp.SpecTr's laws, agree."


@second("D-KHISTI-EXACT")
def khisti_for_two(verdict: Verdict) -> str:
    """Spectheory's closed form for two drafts, its bound, and its laws over all drafts."""
    case, solver = verdict.case, Khisti(truncation=1)
    p, q, k = array(case["p"]), array(case["q"]), case["k"]
    assert solver.acceptance(p, q, k) == accepted(solver, case["p"], case["q"], k) == case["acceptance"]
    assert solver.acceptance_bounds(p, q, k)[0] == case["bound"] < case["acceptance"]
    for more in (3, 4):
        assert solver.acceptance(p, q, more) == accepted(solver, case["p"], case["q"], more)
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
    flat = array([Fraction(1, 7)] * 7)
    falling = array([Fraction(7 - i, 28) for i in range(7)])
    assert solver.acceptance(falling, flat, 3) == accepted(solver, falling, flat, 3)
    return (
        "the algorithm, and spectheory.otlp.Khisti by its closed form and by its laws over all drafts, agree; for 3 "
        "and 4 drafts it and its laws do. The binomial sum is that over the numbers of drafts x and y, in symbols up "
        "to 5 drafts; with q flat on 7 tokens, where one order decides, spectheory's sum and its laws over all 343 "
        "drafts agree."
    )


@second("D-L1-ALL")
def nearer_and_less(verdict: Verdict) -> str:
    """Spectheory's formulas, and total variation for the distance."""
    solvers = {"NSS": NSS(), "NaiveTree": Naive(), "SpecInfer": SpecInfer(), "SpecTr": SpecTr()}
    near, far = verdict.case["nearer"], verdict.case["farther"]
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
    return "the plays over all drafts and coins, and spectheory's formulas for the four rules agree."


@second("D-BR14")
def spec_infer_law(verdict: Verdict) -> str:
    """Spectheory's law, which is lossless on average."""
    case = verdict.case
    law = SpecInfer().distribution(array(case["p"]), array(case["q"]), case["drafts"])
    assert {t: law[t] for t in case["drafts"]} == case["branching"] != case["printed"]
    assert emitted(SpecInfer(), case["p"], case["q"], len(case["drafts"])) == case["p"]
    return "Algorithm 4 played over every coin, and spectheory.otlp.SpecInfer's law agree."


@second("D-BR15")
def khisti_law(verdict: Verdict) -> str:
    """Spectheory's law, which is lossless on average."""
    case, solver = verdict.case, Khisti(truncation=1)
    law = solver.distribution(array(case["p"]), array(case["q"]), case["drafts"])
    assert {t: law[t] for t in case["drafts"]} == case["branching"] != case["printed"]
    assert emitted(solver, case["p"], case["q"], len(case["drafts"])) == case["p"]
    return "Algorithm 5 played over every coin, and spectheory.otlp.Khisti's law, its contests solved by flows, agree."


def some_worlds() -> list[st.World]:
    """Worlds of two layers on three tokens."""
    laws = [tuple(Fraction(w, sum(ws)) for w in ws) for ws in ((0, 3, 1), (1, 3, 0), (1, 1, 1), (2, 0, 1), (1, 4, 2))]
    chosen = [laws[i : i + 4] for i in range(2)] + [[laws[i] for i in (4, 2, 0, 3)], [laws[i] for i in (3, 4, 1, 0)]]
    return [layered([(a, b), (c, d)]) for a, b, c, d in chosen]


@second("D-KMONO")
def trees_of_more_paths(verdict: Verdict) -> str:
    """Spectheory over all trees: the counterexample, one without truncation, and the three that cannot fall."""
    case = verdict.case
    world = layered([(case["p"], case["q"])])
    found = [tokens_per_call(Khisti(truncation=1), world, paths, 0, case["L"]) for paths in case["K"]]
    assert found == case["block_efficiency"]
    assert found[1] < found[0]
    choice = case["without_truncation"]
    p, q = array(choice["p"]), array(choice["q"])
    right, wrong = (array([Fraction(t == token) for t in range(3)]) for token in (0, 1))
    sure_below_2 = st.World(
        lambda context: right if context else p, lambda context: (right if context[0] == 2 else wrong) if context else q
    )
    whole = [tokens_per_call(Khisti(truncation=3), sure_below_2, paths, 0, choice["levels"]) for paths in (1, 2)]
    assert whole == [choice["one_path"], choice["two_paths_by_beta"][1]]
    assert whole[1] < whole[0]
    assert accepted(Khisti(truncation=3), p, q, 2) == st.optimal_acceptance(p, q, 2)
    assert [value < whole[0] for value in choice["two_paths_by_beta"].values()] == [False, False, True]
    spectr = [tokens_per_call(SpecTr(), one, paths, 0, 2) for one in some_worlds() for paths in (1, 2)]
    assert all(few <= many + Fraction(1, 2**30) for few, many in zip(spectr[::2], spectr[1::2], strict=True))
    for solver, trunk in product((NSS(), Naive(), SpecInfer()), (0, 1)):
        world = some_worlds()[trunk]
        values = [tokens_per_call(solver, world, paths, trunk, 2 - trunk) for paths in (1, 2, 3)]
        assert values == sorted(values)
        assert tokens_per_call(solver, world, 2, trunk, 1) <= tokens_per_call(solver, world, 2, trunk, 2)
    return (
        "the printed procedures, and spectheory.delayed_block_efficiency over all trees agree; its Khisti without "
        f"truncation, whose flow has beta = 1, goes from {whole[0]} to {whole[1]} tokens in the world shown, and its "
        "SpecTr, with a factor at most 2^-32 above rho*, falls from one path to two by less than 2^-30 in some others."
    )


@second("D-REGIMES")
def ordered_trees(verdict: Verdict) -> str:
    """Spectheory over all trees of some worlds, and each rule's loss."""
    solvers = {"NSS": NSS(), "NaiveTree": Naive(), "SpecInfer": SpecInfer()}
    for world, paths, trunk in product(some_worlds()[2:], (1, 2, 3), (0, 1)):
        values = [tokens_per_call(solver, world, paths, trunk, 2 - trunk) for solver in solvers.values()]
        assert values == sorted(values)
    layers = [
        tuple(array([Fraction(w, sum(weights)) for w in weights]) for weights in pair)
        for pair in (((0, 3, 1), (1, 3, 0)), ((1, 0, 0), (1, 1, 0)))
    ]
    world = st.World(lambda c: layers[min(len(c), 1)][0], lambda c: layers[min(len(c), 1)][1])
    emit = {name: tokens_per_call(solver, world, 2, 0, 2) for name, solver in (solvers | {"SpecTr": SpecTr()}).items()}
    assert emit["NSS"] < emit["SpecTr"] < emit["NaiveTree"] == emit["SpecInfer"]
    assert (emit["SpecTr"], emit["NSS"]) == (Fraction(9, 4), Fraction(553, 256))
    assert emit["NaiveTree"] == Fraction(145, 64)
    thirds = (Fraction(1, 3), Fraction(2, 3))
    infer, tr, khisti = (accepted(solver, thirds, thirds[::-1], 2) for solver in (SpecInfer(), SpecTr(), Khisti()))
    assert accepted(NSS(), thirds, thirds[::-1], 2) < accepted(Naive(), thirds, thirds[::-1], 2) < tr
    assert infer < tr < khisti
    assert accepted(Khisti(truncation=1), thirds, thirds, 2) < 1  # with p = q the other three accept always
    assert accepted(SpecInfer(), thirds, thirds, 2) == accepted(SpecTr(), thirds, thirds, 2) == 1
    return (
        "spectheory.delayed_block_efficiency over all trees and its solvers' laws over all drafts give the same orders "
        "and, in the tree, the same numbers."
    )


@second("D-NSS")
def delays_by_trees(verdict: Verdict) -> str:
    """Spectheory over all drafted trees."""
    case = verdict.case
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
    return "the sum over drafts and emitted tokens, and spectheory.delayed_block_efficiency over all trees agree."
