"""Traversal verification, rules for deterministic trees, and which rule beats which: Sections 3.2 and 3.3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.delayed_trees import walks
from proofs_check.delayed_trees.library import array
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.verification import as_published, block, covered, two_steps
from proofs_check.plays import ONE, ZERO, Pick, flip, gathered, runs
from proofs_check.small_drafts import Law, Path


class Judging:
    """Traversal of one draft: children in order of first appearance, then the node; the first accepted keeps its path.

    Paths that begin alike share nodes where `merge`; a rejected token leaves q where `strike`.
    """

    def __init__(self, world: walks.ContextTable, draft: walks.DraftedPaths, *, merge: bool, strike: bool) -> None:
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
            rest = walks.shortfall(weight, p, q)
            weight, p = as_published(weight, sum(rest, ZERO)), walks.normalised(rest, otherwise=p)
            if self.strike:
                q = walks.normalised([ZERO if t == token else x for t, x in enumerate(q)], otherwise=q)
        stop = self.left * (weight if depth else ONE)
        if not stop:
            return
        self.left -= stop
        ends = [((*node, y), x) for y, x in enumerate(p)] if groups else [(node, ONE)]
        for end, chance in ends:
            self.emitted[end] = self.emitted.get(end, ZERO) + stop * chance


def output(world: walks.ContextTable, shape: walks.DelayedShape, *, merge: bool, strike: bool) -> walks.Emitted:
    """The distribution of texts when such drafts are traversed."""
    emitted = gathered(
        (end, chance * x)
        for draft, chance in runs(lambda pick: walks.drawn(pick, world, shape)).items()
        for end, x in Judging(world, draft, merge=merge, strike=strike).emitted.items()
    )
    return walks.completed(world, emitted, shape[1] + shape[2])


def is_lossless(world: walks.ContextTable, shape: walks.DelayedShape, *, merge: bool, strike: bool) -> bool:
    """Whether the distribution of texts is the target's."""
    return output(world, shape, merge=merge, strike=strike) == world.texts(shape[1] + shape[2])


def reduces_to_block(world: walks.ContextTable) -> bool:
    """Whether Traversal on one path of two tokens has the same output as block verification."""
    by_path: dict[Path, walks.Emitted] = {}
    for (path, _, end), chance in block(world, 2, as_published).items():
        by_path.setdefault(path, {})[end] = chance / world.chance(path, 1)
    return all(
        walks.distance(Judging(world, (path,), merge=True, strike=True).emitted, found) == 0
        for path, found in by_path.items()
    )


@claim("D-TRAV")
def traversal(effort: int) -> Finding:
    shapes = [(2, 0, 1), (3, 0, 1), (2, 0, 2), (2, 1, 1)]
    grid = [(world, shape) for world in two_steps(effort) for shape in shapes[2:]]
    grid += [(world, shape) for world in walks.worlds(3, 1 + effort) + walks.worlds(2, 4) for shape in shapes[:2]]
    separate = [case for case in grid if case[1][1] == 0]

    def lost_by(world: walks.ContextTable, shape: walks.DelayedShape, *, merge: bool, strike: bool) -> Fraction:
        return walks.distance(output(world, shape, merge=merge, strike=strike), world.texts(shape[1] + shape[2]))

    world = smallest(walks.worlds(3, 4), lambda world: not is_lossless(world, (2, 0, 1), merge=True, strike=False))
    lost = walks.distance(output(world, (2, 0, 1), merge=True, strike=False), world.texts(1))
    p, q = world.pair(())
    return Finding(
        {
            "single": len(two_steps(effort)),
            "covered": covered(effort),
            "merged": len(grid),
            "size": 1 + effort,
            "apart": len(separate),
            "lost": lost,
            "p": walks.words(p),
            "q": walks.words(q),
        },
        cases={
            "tree": ({"lost": lost_by(*case, merge=True, strike=True)} for case in grid),
            "tree_with_separate_branches": ({"lost": lost_by(*case, merge=False, strike=False)} for case in separate),
            "tree_with_q_unchanged": [{"lost": lost}],
            "path": ({"same_as_block": reduces_to_block(world)} for world in two_steps(effort)),
        },
    )


@second("D-TRAV")
def _(case: Case) -> None:
    def program(pick: Pick) -> Path:
        draft = walks.drawn(pick, world, (2, 0, 1))
        p, q = world.pair(())
        for token in dict.fromkeys(path[0] for path in draft):
            if flip(pick, min(ONE, p[token] / q[token])):
                return (token,)
            p = walks.normalised(walks.shortfall(ONE, p, q), otherwise=p)
            q = walks.normalised([ZERO if t == token else x for t, x in enumerate(q)], otherwise=q)
        return (pick(p),)

    for world in walks.worlds(2, 4):
        assert runs(program) == world.texts(1)
    for world in walks.worlds(2, 2, 3)[::40]:
        mean = sum(
            chance * x * walks.depth_kept(draft, end)
            for draft, chance in runs(lambda pick, w=world: walks.drawn(pick, w, (2, 0, 2))).items()
            for end, x in Judging(world, draft, merge=True, strike=True).emitted.items()
        )
        found = st.expected_block_efficiency(st.verify.Traversal(), world.library(), st.Paths(2, 2))
        assert found.value == 1 + mean


def tried(p: Law, children: Path, q_of: dict[int, Law]) -> Law:
    """The emitted distribution when fixed children are tried in turn by naive rejection against q_of[child]."""

    def program(pick: Pick) -> int:
        law = p
        for child in children:
            q = q_of[child]
            if flip(pick, min(ONE, law[child] / q[child]) if q[child] else ONE):
                return child
            law = walks.normalised(walks.shortfall(ONE, law, q), otherwise=law)
        return pick(law)

    found = runs(program)
    return tuple(found.get(token, ZERO) for token in range(len(p)))


def point(size: int, token: int) -> Law:
    """The distribution with all mass on one token."""
    return tuple(Fraction(int(t == token)) for t in range(size))


def fixed_children(size: int, largest: int) -> Iterator[tuple[Law, Law, Path]]:
    """(p, q, children): distinct children that are drafted whatever q says, q positive on them, fewest first."""
    for count in range(1, size + 1):
        for p, q in product(walks.all_laws(size, largest), repeat=2):
            yield from ((p, q, one) for one in permutations(range(size), count) if all(q[child] for child in one))


def others(p: Law, q: Law, k: int) -> dict[str, printed.Procedure]:
    """The paper's OT-based rules other than NSS, for k children."""
    return {
        "NaiveTree": printed.naive,
        "SpecTr": printed.KSeq(bracket(p, q, k, 4)[1]),
        "SpecInfer": printed.spec_infer,
        "Khisti": next(iter(printed.tournaments(len(p)))),
    }


@claim("D-DET")
def deterministic_trees(effort: int) -> Finding:
    """Proof: fixed children are no source of chance, so the text at the node has the distribution that the rule emits
    given them. A rule that works therefore emits p, whatever the children are: this is NSS.
    """
    cases = [case for size in (2, 3) for case in fixed_children(size, 2 + effort)]

    def all_lossy(p: Law, q: Law, children: Path) -> bool:
        rules = others(p, q, len(children)).values()
        return all(printed.emission(rule, p, q, children) != p for rule in rules)

    def with_points(p: Law, children: Path) -> dict[str, Law]:
        return {"p": p, "emitted": tried(p, children, {child: point(len(p), child) for child in children})}

    p, q, children = smallest(cases, all_lossy)
    orders = {size: [c for n in range(1, size + 1) for c in permutations(range(size), n)] for size in (2, 3)}
    mended = [(p, one) for size in (2, 3) for p in walks.all_laws(size, 3 + effort) for one in orders[size]]
    return Finding(
        {
            "count": len(cases),
            "rules": ", ".join(others(p, q, 1)),
            "lossy": [walks.words(p), walks.words(q), "ABC"[children[0]]],
            "mended": len(mended),
        },
        cases={
            "node": ({"p": p, "emitted_by_NSS": printed.emission(printed.nss, p, q, c)} for p, q, c in cases),
            "lossy_node": [
                {"p": p, "emitted": printed.emission(rule, p, q, children)}
                for rule in others(p, q, len(children)).values()
            ],
            "node_tried_with_point_masses": (with_points(*case) for case in mended),
        },
    )


@second("D-DET")
def _(case: Case) -> None:
    half = array((Fraction(1, 2), Fraction(1, 2)))
    lossy = (st.otlp.Naive(), st.otlp.SpecTr(), st.otlp.SpecInfer(), st.otlp.Khisti(), st.otlp.RRS())
    assert all(list(solver.distribution(half, half, [0])) == [1, 0] for solver in lossy)
    for p in map(array, walks.all_laws(3, 3)):
        for child in range(3):
            for solver in (st.otlp.NSS(), st.otlp.Naive(), st.otlp.SpecInfer(), st.otlp.RRS(), st.otlp.GreedyTopK()):
                assert list(solver.distribution(p, array(point(3, child)), [child])) == list(p)
