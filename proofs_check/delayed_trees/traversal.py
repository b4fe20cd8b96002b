"""Traversal verification, rules for deterministic trees, and which rule beats which: Sections 3.2 and 3.3."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import spectheory as st
from proofs_check.delayed_trees.verification import as_published, block, covered, two_steps
from proofs_check.delayed_trees.walks import (
    ONE,
    ZERO,
    Draft,
    Emitted,
    Law,
    Path,
    Pick,
    Shape,
    World,
    all_laws,
    array,
    completed,
    depth_kept,
    distance,
    drawn,
    flip,
    normalised,
    runs,
    shortfall,
    words,
    worlds,
)
from proofs_check.verdict import Verdict, claim, every, second, smallest


class Judging:
    """Traversal of one draft: children in order of first appearance, then the node; the first accepted keeps its path.

    Paths that begin alike share nodes where `merge`; a rejected token leaves q where `strike`.
    """

    def __init__(self, world: World, draft: Draft, *, merge: bool, strike: bool) -> None:
        self.world, self.draft, self.merge, self.strike = world, draft, merge, strike
        self.left, self.emitted = ONE, dict[Path, Fraction]()
        self.visit(range(len(draft)), 0, ONE)

    def groups(self, members: Sequence[int], depth: int) -> list[list[int]]:
        """The paths through each child of a node that `members` pass."""
        paths = [k for k in members if len(self.draft[k]) > depth]
        tokens = {(self.draft[k][depth] if self.merge else k): list[int]() for k in paths}
        for k in paths:
            tokens[self.draft[k][depth] if self.merge else k].append(k)
        return list(tokens.values())

    def visit(self, members: Sequence[int], depth: int, weight: Fraction) -> None:
        """Judge all below a node and then the node, whose weight is given."""
        node = self.draft[members[0]][:depth]
        p, q = self.world.pair(node)
        groups = self.groups(members, depth)
        for group in groups:
            token = self.draft[group[0]][depth]
            self.visit(group, depth + 1, min(ONE, weight * p[token] / q[token]))
            rest = shortfall(weight, p, q)
            weight, p = as_published(weight, sum(rest, ZERO)), normalised(rest, otherwise=p)
            if self.strike:
                q = normalised([ZERO if t == token else x for t, x in enumerate(q)], otherwise=q)
        stop = self.left * (weight if depth else ONE)
        self.left -= stop
        ends = [((*node, y), x) for y, x in enumerate(p)] if groups else [(node, ONE)]
        for end, chance in ends:
            self.emitted[end] = self.emitted.get(end, ZERO) + stop * chance


def output(world: World, shape: Shape, *, merge: bool, strike: bool) -> Emitted:
    """The law of texts when such drafts are traversed."""
    emitted: Emitted = {}
    for draft, chance in runs(lambda pick: drawn(pick, world, shape)).items():
        for end, x in Judging(world, draft, merge=merge, strike=strike).emitted.items():
            emitted[end] = emitted.get(end, ZERO) + chance * x
    return completed(world, emitted, shape[1] + shape[2])


def is_lossless(world: World, shape: Shape, *, merge: bool, strike: bool) -> bool:
    """Whether it is the target's."""
    return output(world, shape, merge=merge, strike=strike) == world.texts(shape[1] + shape[2])


def reduces_to_block(world: World) -> bool:
    """Whether on one path of two tokens the law of what is emitted given the path is that of block verification."""
    by_path: dict[Path, Emitted] = {}
    for (path, _, end), chance in block(world, 2, as_published).items():
        by_path.setdefault(path, {})[end] = chance / world.chance(path, 1)
    return all(
        distance(Judging(world, (path,), merge=True, strike=True).emitted, found) == 0
        for path, found in by_path.items()
    )


@claim("D-TRAV", source="Delayed tree expansion, Section 3.2 and Table 1")
def traversal(effort: int) -> Verdict:
    """Traversal verification applies to K i.i.d. paths (it is lossless), and for K = 1 it is block verification.

    The text leaves open how coinciding paths are treated. Read: they share nodes (Definition 3.1), children are judged
    in order of first appearance, and a rejected child's token is struck from q, as in arXiv 2505.12398 for draws
    without replacement. Block verification is the published one (see D-BV-DESC).

    Proof, for all laws, K and shapes. Claim: if a node is entered with weight w, the texts emitted at or below it have
    w times the target's probability given the node. By induction on the levels below. At a leaf it stops with w, and
    the target goes on. At an inner node the state is (w, p, q), at first the node's own laws, and what is still to be
    emitted is w p, the target going on behind each token: by induction on the children left. Given which paths pass the
    children judged so far, the token of the next child is a draw from q without theirs, which is the q of the state.
    Child x, of weight min(1, w p(x)/q(x)), emits that many times the target's law behind x, by the induction on levels:
    in all min(q, w p). Left is (w p - q)+, of mass S, and nothing was emitted with probability 1 - w + S: so given
    that, w' p' is left with w' = S / (1 - w + S), p' = N((w p - q)+), which is the next state. It does not depend on x,
    so each x may leave w' p' to the children after it. Behind the last child the node itself stops with w and a token
    of p: w p. The root has w = 1 and emits the target's law.
    """
    shapes = [(2, 0, 1), (3, 0, 1), (2, 0, 2), (2, 1, 1)]
    grid = [(world, shape) for world in two_steps(effort) for shape in shapes[2:]]
    grid += [(world, shape) for world in worlds(3, 1 + effort) + worlds(2, 4) for shape in shapes[:2]]
    single = every(two_steps(effort), reduces_to_block)
    merged = every(grid, lambda case: is_lossless(*case, merge=True, strike=True))
    apart = every([case for case in grid if case[1][1] == 0], lambda c: is_lossless(*c, merge=False, strike=False))
    world = smallest(worlds(3, 4), lambda world: not is_lossless(world, (2, 0, 1), merge=True, strike=False))
    lost = distance(output(world, (2, 0, 1), merge=True, strike=False), world.texts(1))
    p, q = world.pair(())
    return Verdict(
        "holds",
        f"The proof. For K = 1 the state after the one child is h and N((w p - q)+), word for word those of block "
        f"verification; the law given the path was the same in {single:,} worlds ({covered(effort)}). The target's law "
        f"was kept in all of {merged:,} pairs of world and shape: such worlds with (K, L1, L2) of (2, 0, 2) and (2, 1, "
        f"1); one pair of laws at every context, three tokens up to denominator {1 + effort} and two up to 4, with (2, "
        "0, 1) and (3, 0, 1). It did as well with coinciding branches kept apart "
        f"and q left as it is ({apart:,}), but merging them without striking loses {lost} of total variation at K = "
        f"2, L = 1, p = {words(p)}, q = {words(q)}.",
        "a proof in words; the published procedure on every draft of the worlds named",
    )


@second("D-TRAV")
def _(verdict: Verdict) -> str:
    def program(pick: Pick) -> Path:
        draft = drawn(pick, world, (2, 0, 1))
        p, q = world.pair(())
        for token in dict.fromkeys(path[0] for path in draft):
            if flip(pick, min(ONE, p[token] / q[token])):
                return (token,)
            p = normalised(shortfall(ONE, p, q), otherwise=p)
            q = normalised([ZERO if t == token else x for t, x in enumerate(q)], otherwise=q)
        return (pick(p),)

    assert verdict.status == "holds"
    for world in worlds(2, 4):
        assert runs(program) == world.texts(1)
    for world in worlds(2, 2, 3)[::40]:
        mean = sum(
            chance * x * depth_kept(draft, end)
            for draft, chance in runs(lambda pick, w=world: drawn(pick, w, (2, 0, 2))).items()
            for end, x in Judging(world, draft, merge=True, strike=True).emitted.items()
        )
        found = st.expected_block_efficiency(st.verify.Traversal(), world.library(), st.Paths(2, 2))
        assert found.value == 1 + mean
    return "the law of each draft summed; the rule run as a program at L = 1, and spectheory's Traversal at K = L = 2."


def tried(p: Law, children: Path, q_of: dict[int, Law]) -> Law:
    """Try fixed children one after another by naive rejection against q_of[child]: the law of what is emitted."""

    def program(pick: Pick) -> int:
        law = p
        for child in children:
            q = q_of[child]
            if flip(pick, min(ONE, law[child] / q[child]) if q[child] else ONE):
                return child
            law = normalised(shortfall(ONE, law, q), otherwise=law)
        return pick(law)

    found = runs(program)
    return tuple(found.get(token, ZERO) for token in range(len(p)))


def point(size: int, token: int) -> Law:
    """All mass on one token."""
    return tuple(Fraction(int(t == token)) for t in range(size))


@claim("D-DET", source="Delayed tree expansion, Section 3.3")
def deterministic_trees(effort: int) -> Verdict:
    """In the deterministic tree setting (children chosen without chance), only NSS works.

    To work is read as to keep the target's law, and NSS as the algorithm that samples p. Every rule that works emits a
    token of law p, as NSS does; but NSS is not the only such algorithm.
    """
    cases = [(p, list(c)) for size in (2, 3) for p in all_laws(size, 3 + effort) for c in _orders(size)]

    def mends(case: tuple[Law, list[int]]) -> bool:
        p, children = case
        return tried(p, tuple(children), {child: point(len(p), child) for child in children}) == p

    p, (child, *_) = smallest(cases, lambda case: mends(case) and 0 < case[0][case[1][0]] < 1)
    count = every(cases, mends)
    lossy = smallest(
        [(p, q) for p in all_laws(2, 3) for q in all_laws(2, 3) if q[0]], lambda c: tried(c[0], (0,), {0: c[1]}) != c[0]
    )
    return Verdict(
        "corrected",
        f"Naive rejection of one child after another, each with the point mass on it as q, emitted p in all {count:,} "
        "cases with 2 or 3 tokens and every order of distinct children. What fails on deterministic trees is q taken "
        f"from the model's softmax: p = {words(lossy[0])}, q = {words(lossy[1])}, first token drafted, is lossy.",
        "every run of the rule as a program",
        {
            "p": p,
            "drafted": "ABCD"[child],
            "q": point(len(p), child),
            "emitted": tried(p, (child,), {child: point(len(p), child)}),
        },
        "With drafts that are not random a rule keeps the target's law if and only if its branching probabilities are "
        "p, those of NSS: the text's law at the node is the rule's law. NSS is one such rule; every solver that is "
        "lossless for the law of its one drafted child is another when given the point mass as q.",
    )


def _orders(size: int) -> list[Path]:
    return [c for n in range(1, size + 1) for c in product(range(size), repeat=n) if len(set(c)) == n]


@second("D-DET")
def _(verdict: Verdict) -> str:
    case = verdict.counterexample or {}
    p, q, child = case["p"], case["q"], "ABCD".index(case["drafted"])
    nss = list(st.otlp.NSS().distribution(array(p), array(q), [child]))
    for solver in (st.otlp.Naive(), st.otlp.SpecInfer(), st.otlp.RRS(), st.otlp.GreedyTopK()):
        assert list(solver.distribution(array(p), array(q), [child])) == nss == list(p) == list(case["emitted"])
    return "runs of the rule; spectheory's Naive, SpecInfer, RRS and GreedyTopK with q a point mass equal its NSS."
