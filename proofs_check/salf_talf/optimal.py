"""Appendix B and Algorithm 2 without the threshold: when the search ends, what it finds, and for an ideal draft."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, pairwise, product
from math import isclose
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.salf_talf.algorithm2 import (
    ROOT,
    Iteration,
    Markov,
    Node,
    Run,
    as_tree,
    cases,
    children,
    flat,
    iterations,
    recorded,
    shown_grids,
    top,
    worth,
)
from proofs_check.salf_talf.threshold import library_draft
from proofs_check.small_drafts import Law, Nodes, Path, drafts, grown, is_tree, laws, letters, select
from spectheory.search import Salf


def paths(nodes: list[Node]) -> list[Path]:
    """The token path of each node."""
    return [path for _, _, path in nodes]


@claim("S-T2")
def loop_invariant(effort: int) -> Finding:
    grids = ((2, 2, 5), (2, 3, 3), (3, 2, 3)) if effort == 1 else ((2, 2, 6), (2, 3, 4), (3, 2, 4))

    def steps() -> Iterator[dict[str, list[Fraction]]]:
        for depth, hat in ((grid[0], hat) for grid in grids for hat in drafts(*grid)):
            p = {(): Fraction(1)} | hat
            for sign, n in product((1, -1), range(1, 6)):  # ties to the first path, or to the last
                order = sorted(p, key=lambda path: (-p[path], [sign * token for token in path]))
                kept: list[Path] = [()]
                for i in range(1, depth + 1):
                    kept = [path for path in order if path in kept or path[:-1] in kept][:n]
                    yield {"T": [p[v] for v in kept], "Top_N": [p[v] for v in order if len(v) <= i][:n]}

    found = [*steps()]
    named = ", ".join(f"{depth} deep with {tokens} tokens and denominators to {most}" for depth, tokens, most in grids)
    return Finding({"count": len(found), "named": named}, cases={"step": found})


def repeats(draft: Markov, n: int, batch: int) -> int:
    """The first iteration after which the state (G, Q) never changes."""
    states = ((state.tree, state.queue, state.chosen) for state in iterations(draft, n, batch))
    return next(i for i, (one, two) in enumerate(pairwise(states), 1) if one == two and not one[2])


@claim("S-T3")
def termination(effort: int) -> Finding:
    endless = [(Markov(law), n, 1) for n in range(2, 4) for law in laws(2, 3) if law[-1] > 0]
    draft, n, batch = smallest(endless, lambda draft, n, batch: repeats(draft, n, batch) > 0)
    place = repeats(draft, n, batch)
    state = next(islice(iterations(draft, n, batch), place - 1, None))

    def values(run: Run, states: list[Iteration]) -> dict[str, Any]:
        model, _, size, _ = run
        found = states[-1].tree
        best = worth(top(model, size))
        calls = len(states) - 1
        return {
            "halts": True,
            "calls": calls,
            "N": size,
            "worth": worth(found),
            "best": best,
            "a_tree": is_tree(paths(found)),
        }

    count = len(recorded(effort))
    return Finding(
        {"place": place, "count": count, "grids": shown_grids(effort)},
        {
            "law": draft.start,
            "n": n,
            "batch": batch,
            "threshold": Fraction(0),
            "same_state_from_iteration": place,
            "queue": [*map(letters, paths(state.queue))],
            **as_tree(state.tree),
        },
        cases={
            "printed_run": ({"halts": not repeats(*one)} for one in endless),
            "repaired_run": (values(*one) for one in recorded(effort)),
        },
    )


@second("S-T3")
def _(case: Case) -> dict[str, Any]:
    draft, n = Markov(case["law"]), case["n"]
    found = flat(draft, n, case["batch"], 200)
    assert all(tree == found[-1][1] for _, tree in found[case["same_state_from_iteration"] - 1 :])
    assert not any(chosen for chosen, _ in found[case["same_state_from_iteration"] - 1 :])
    assert all(worth(chosen) >= case["threshold"] for chosen, _ in found)
    count = 0
    for model, tokens, size, batch in islice(cases(1), 0, None, 17):
        if tokens == 2 and size > 2:
            grown = Salf(size - 1, 0.0, batch).grow(library_draft(model))
            assert isclose(grown.expected, worth(top(model, size)), abs_tol=1e-12)
            assert grown.draft_calls <= size - 1
            count += 1
    return {"drafts": count}


def merged(state: Iteration, n: int) -> list[Node]:
    """The n best nodes of G and Q together."""
    return sorted(state.tree + state.queue)[:n]


def with_all_seen(draft: Markov, n: int, states: list[Iteration], i: int) -> dict[str, Any]:
    """The worths of G, of G and Q together, and of the best of all nodes seen before the draft call of a state."""
    expanded = [node for earlier in states[:i] for node in earlier.chosen]
    seen = [ROOT] + [child for node in expanded for child in children(draft, node)]
    kept = merged(states[i], n)
    best = worth(sorted(seen)[:n])
    return {"G": worth(states[i].tree), "G_and_Q": worth(kept), "best_seen": best, "a_tree": is_tree(paths(kept))}


def at_the_end(run: Run, states: list[Iteration]) -> dict[str, Fraction]:
    """The worths of G and Q together where D is empty, and of the best of the whole tree."""
    model, _, n, _ = run
    return {"G_and_Q": worth(merged(states[-1], n)), "best_of_all": worth(top(model, n))}


def stops_full(effort: int) -> Iterator[tuple[Run, Iteration, Fraction]]:
    """The states in which a threshold can stop a run with a full G, with such a threshold; small N first."""
    for run, states in sorted(recorded(effort), key=lambda one: (one[0][2], one[0][3], one[0][1])):
        for before, state in pairwise(states):
            if state.sum < before.sum and len(state.tree) == run[2]:
                yield run, state, (state.sum + min(before.sum, 1)) / 2


@claim("S-A2-ENS")
def ensures(effort: int) -> Finding:
    th, small = Fraction(3, 5), [(Markov(law), n) for n in range(2, 5) for law in laws(2, 2)]

    def stopped(draft: Markov, n: int, *, root_twice: bool = False) -> Iteration:
        return next(state for state in iterations(draft, n, 1, root_twice=root_twice) if state.sum < th)

    def lacks(draft: Markov, n: int) -> bool:
        state = stopped(draft, n)
        return len(state.tree) < n and worth(state.queue) > 0

    twice = smallest(small, lambda draft, n: len(set(stopped(draft, n, root_twice=True).tree)) < 2)
    early = smallest(small, lacks)
    state = stopped(*early)
    places = [(draft, n, states, i) for (draft, _, n, _), states in recorded(effort) for i in range(len(states))]
    count = len(places)
    run, full, threshold = smallest(stops_full(effort), lambda run, at, th: worth(at.tree) < worth(merged(at, run[2])))
    return Finding(
        {"count": count, "grids": shown_grids(effort), "n": run[2], "batch": run[3]}
        | {"worth": worth(full.tree), "best": worth(merged(full, run[2]))},
        {
            "root_twice": {"law": twice[0].start, "n": twice[1], "batch": 1, "threshold": th, **as_tree([ROOT])},
            "stopped": {
                "law": early[0].start,
                "n": early[1],
                "batch": 1,
                "threshold": th,
                **as_tree(sorted(state.tree + state.queue)[: early[1]]),
                "tree": [*map(letters, paths(state.tree))],
            },
            "full": {
                "law": run[0].start,
                "after": run[0].after,
                "n": run[2],
                "batch": run[3],
                "threshold": threshold,
                **as_tree(sorted({*full.tree, *merged(full, run[2])})),
                "tree": [*map(letters, paths(full.tree))],
                "worth": worth(full.tree),
                "best": worth(merged(full, run[2])),
            },
        },
        cases={
            "state": (with_all_seen(*one) for one in places),
            "end": (at_the_end(*one) for one in recorded(effort)),
        },
    )


@second("S-A2-ENS")
def _(cases: Case) -> None:
    case = cases["root_twice"]
    entries = [Fraction(1), Fraction(1)]  # line 1, line 8
    assert len(entries) == case["n"]
    assert sum(p for p in entries[1:] if p > min(entries)) < case["threshold"]
    case = cases["stopped"]
    draft = library_draft(Markov(case["law"]))
    bare, full = (Salf(case["n"] - 1, 0.6, case["batch"], fill=fill).grow(draft) for fill in (False, True))
    assert len(case["tree"]) == bare.tree.budget + 1 < full.tree.budget + 1 == len(case["parent"])
    assert (bare.draft_calls, full.expected) == (full.draft_calls, float(sum(case["p_hat"])))
    case = cases["full"]
    model = Markov(case["law"], case["after"])
    sums = [worth(chosen) for chosen, _ in flat(model, case["n"], case["batch"], 3)]
    place = next(i for i, found in enumerate(sums) if found < case["threshold"])
    _, tree = flat(model, case["n"], case["batch"], 3)[place]
    assert len(tree) == len(case["tree"]) == case["n"]
    assert worth(tree) == case["worth"] < case["best"] == sum(sorted(case["p_hat"])[-case["n"] :])
    found = Salf(case["n"] - 1, float(case["threshold"]), case["batch"], fill=True).grow(library_draft(model))
    assert isclose(found.expected, case["best"])


INNER: list[Path] = [path for length in range(3) for path in product(range(2), repeat=length)]
"""The nodes of a full tree of two tokens, 3 deep, that have children."""


def beamed(laws: dict[Path, Law], k: int, n: int) -> Nodes:
    """EAGLE-2: expand the k best nodes of each of three layers into k children each; then the n best nodes."""
    layer, pool = [ROOT], []
    for _ in range(3):
        layer = sorted(child for node in layer for child in children(laws.__getitem__, node)[:k])
        pool, layer = pool + layer, layer[:k]
    return frozenset(path for _, _, path in sorted(pool)[:n])


@claim("S-TALF")
def ideal_draft(effort: int) -> Finding:
    laws: list[Law] = [(Fraction(w, 37), 1 - Fraction(w, 37)) for w in (34, 19)]

    def pairs() -> Iterator[dict[str, Nodes]]:
        for chosen, n in product(product(laws, repeat=7), range(1, 2 + effort)):
            target = dict(zip(INNER, chosen, strict=True))
            hat, ordered = grown(target), sorted(grown(target).values(), reverse=True)
            if ordered[n - 1] == ordered[n]:
                continue
            tree = select(frozenset(hat), n, hat)
            free = [path for path in INNER if path and path not in tree]
            for other in product(laws, repeat=len(free)):
                drafted = grown(target | dict(zip(free, other, strict=True)))
                yield {"drafted": select(frozenset(drafted), n, drafted), "G": tree}

    def turned(by: int) -> dict[Path, Law]:
        """A different distribution for each inner node, so that products are rarely equal."""
        steep = [Fraction(w, 37) for w in (34, 33, 32, 19, 31, 29, 28)]
        return {path: (steep[(i + by) % 7], 1 - steep[(i + by) % 7]) for i, path in enumerate(INNER)}

    def beams() -> Iterator[dict[str, Nodes]]:
        for one, other, n, k in product(range(7), range(7), range(1, 6), (1, 2)):
            tree = beamed(turned(one), k, n)
            mixed = {p: turned(one if not p or p in tree else other)[p] for p in INNER}
            hats = [grown(turned(one)), grown(mixed)]
            if len(tree) == n and all(len(set(hat.values())) == len(hat) for hat in hats):  # no ties
                yield {"drafted": beamed(mixed, k, n), "G": tree}

    by_value, by_beam = [*pairs()], [*beams()]
    distributions = " and ".join(f"({a}, {b})" for a, b in laws)
    return Finding(
        {"count": len(by_value), "beamed": len(by_beam), "distributions": distributions, "largest": 1 + effort},
        cases={"pair": by_value, "pair_of_beams": by_beam},
    )
