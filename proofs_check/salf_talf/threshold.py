"""The sums S_i of line 13, whether they fall (Theorem 1), and the threshold: what it says and what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.salf_talf import algorithm2
from proofs_check.small_drafts import Law, laws, letters, positive_laws
from spectheory.search import MarkovDraft, Salf

THRESHOLDS = [Fraction(quarter, 4) for quarter in (1, 2, 3)]


def library_draft(draft: algorithm2.Markov) -> MarkovDraft:
    """The same draft as an object of spectheory; the root has a token of its own, which is never drafted."""
    after = draft.after or (draft.start,) * len(draft.start)
    return MarkovDraft(np.array([(*map(float, law), 0.0) for law in (*after, draft.start)]), len(after))


def best_seen(state: algorithm2.Iteration, n: int) -> Fraction:
    """The worth of the best tree of the nodes seen, at line 13."""
    return algorithm2.worth(sorted(state.tree + state.queue)[:n])


def same_law_runs(
    most: int = 6, *, any_batch: bool = False
) -> Iterator[tuple[algorithm2.Run, list[algorithm2.Iteration]]]:
    """Runs with one distribution at every node, small N first; B is below the number of tokens, or any B < N."""
    for n in range(2, most + 1):
        for tokens in (2, 3):
            for law in laws(tokens, 4):
                for batch in range(1, n if any_batch else min(n, tokens)):
                    yield (
                        (algorithm2.Markov(law), tokens, n, batch),
                        algorithm2.drafted(algorithm2.Markov(law), n, batch),
                    )


Stop = tuple[algorithm2.Run, list[algorithm2.Iteration], Fraction, int]
"""A run, a threshold, and the number of iterations, from 0, at which to look."""


def stops(*, at_stop: bool) -> Iterator[Stop]:
    """With `at_stop` the iterations where the threshold stops a run that could continue, else all earlier ones."""
    for run, states in same_law_runs():
        for th in THRESHOLDS:
            last = next(i for i, state in enumerate(states) if state.sum < th)
            places = [last] if at_stop and states[last].chosen else [] if at_stop else range(last)
            yield from ((run, states, th, place) for place in places)


def left_over(run: algorithm2.Run, states: list[algorithm2.Iteration], th: Fraction, place: int) -> Fraction:
    """How much all further drafting adds to the worth of the best tree."""
    return best_seen(states[-1], run[2]) - best_seen(states[place], run[2])


def shown_stop(run: algorithm2.Run, states: list[algorithm2.Iteration], th: Fraction, place: int) -> dict[str, Any]:
    draft, _, n, batch = run
    return {
        "law": draft.start,
        "n": n,
        "batch": batch,
        "threshold": th,
        "iteration": place + 1,
        "sum": states[place].sum,
        "further_benefit": left_over(run, states, th, place),
        **algorithm2.as_tree(sorted(states[place].tree + states[place].queue)[:n]),
    }


@claim("S-T1-USE")
def meaning(effort: int) -> Finding:
    early = smallest(stops(at_stop=True), lambda *case: left_over(*case) >= case[2])
    late = smallest(stops(at_stop=False), lambda *case: left_over(*case) < case[2])

    def calls() -> Iterator[dict[str, Fraction]]:
        for (_, _, n, _), states in algorithm2.recorded(effort):
            values = [best_seen(state, n) for state in states]
            for i, (before, after) in enumerate(pairwise(values)):
                yield from ({"gain": after - before, "S_i": state.sum} for state in states[: i + 1])

    def values(*case: Any) -> dict[str, Fraction]:
        (_, _, n, _), states, th, place = case
        one_call = best_seen(states[place + 1], n) - best_seen(states[place], n)
        return {"S_i": states[place].sum, "th": th, "further_drafting": left_over(*case), "one_further_call": one_call}

    found = [*calls()]
    places = (values(*case) for at_stop in (True, False) for case in stops(at_stop=at_stop))
    return Finding(
        {"count": len(found), "grids": algorithm2.shown_grids(effort)},
        {"stops_too_early": shown_stop(*early), "goes_on_for_less": shown_stop(*late)},
        cases={"place": places, "call": found},
    )


@second("S-T1-USE")
def _(cases: Case) -> None:
    for name, case in cases.items():
        draft, n, place = algorithm2.Markov(case["law"]), case["n"], case["iteration"] - 1
        found = algorithm2.flat(draft, n, case["batch"], place + 1)
        assert algorithm2.worth(found[place][0]) == case["sum"]
        expanded = [node for chosen, _ in found[:place] for node in chosen]
        seen = {(): Fraction(1)}
        for value, _, path in expanded:
            seen |= {(*path, token): -value * p for token, p in enumerate(draft(path))}
        now = sum(sorted(seen.values())[-n:], Fraction(0))
        further = algorithm2.worth(algorithm2.top(draft, n)) - now
        assert further == case["further_benefit"], "looking at the whole tree gives another benefit"
        assert (case["sum"] < case["threshold"] <= further) == (name == "stops_too_early")
        assert (case["sum"] >= case["threshold"] > further) == (name == "goes_on_for_less")
        library = Salf(n - 1, float(case["threshold"]), case["batch"], fill=True).grow(library_draft(draft))
        assert (library.draft_calls == place) == (name == "stops_too_early")


def taken(states: list[algorithm2.Iteration], th: Fraction) -> list[algorithm2.Node]:
    """The tree G where the threshold stops the run."""
    return next(state.tree for state in states if state.sum < th or not state.chosen)


def accepted(tree: list[algorithm2.Node], emitted: tuple[int, ...]) -> int:
    """Drafted tokens accepted where greedy decoding emits these tokens."""
    paths = {node[2] for node in tree}
    return max(length for length in range(len(emitted) + 1) if emitted[:length] in paths)


@claim("S-TH")
def lower_threshold(effort: int) -> Finding:
    def exchanges() -> Iterator[tuple[algorithm2.Run, Fraction, Fraction, algorithm2.Node]]:
        for run, states in same_law_runs(any_batch=True):
            for low, high in pairwise((*THRESHOLDS, Fraction(9, 10))):
                lost = sorted(set(taken(states, high)) - set(taken(states, low)))
                yield from ((run, high, low, node) for node in lost)

    def values(before: list[algorithm2.Node], after: list[algorithm2.Node], n: int) -> dict[str, Any]:
        tau = {"tau_of_higher_th": algorithm2.worth(before), "tau_of_lower_th": algorithm2.worth(after)}
        return tau | {"lost_nodes": len(set(before) - set(after)), "nodes": len(after), "N": n}

    def kept_by(run: algorithm2.Run, high: Fraction, low: Fraction, node: algorithm2.Node) -> dict[str, Any]:
        states = algorithm2.drafted(run[0], run[2], run[3])
        counts = {name: accepted(taken(states, th), node[2]) for name, th in (("higher", high), ("lower", low))}
        return {f"tau_of_{name}_th": count for name, count in counts.items()}

    run, high, low, node = smallest(exchanges(), lambda run, *lost: run[0].start[-1] > 0)
    draft, _, n, batch = run
    states = algorithm2.drafted(draft, n, batch)
    emitted = node[2]
    lowered = [(a.tree, b.tree, n) for (_, _, n, _), states in algorithm2.recorded(effort) for a, b in pairwise(states)]
    return Finding(
        {"count": len(lowered), "grids": algorithm2.shown_grids(effort)},
        {
            "law": draft.start,
            "n": n,
            "batch": batch,
            "emitted": letters(emitted),
            "threshold_high": high,
            "threshold_low": low,
            "accepted_high": accepted(taken(states, high), emitted),
            "accepted_low": accepted(taken(states, low), emitted),
            **algorithm2.as_tree(sorted(set(taken(states, high)) | set(taken(states, low)))),
            "tree_high": [letters(path) for _, _, path in taken(states, high)],
            "tree_low": [letters(path) for _, _, path in taken(states, low)],
        },
        cases={
            "target": (kept_by(*one) for one in exchanges()),
            "target_equal_to_the_draft": (values(*one) for one in lowered),
        },
    )


@second("S-TH")
def _(case: Case) -> dict[str, Any]:
    counts = []
    for kind in ("high", "low"):
        grown = Salf(case["n"] - 1, float(case[f"threshold_{kind}"]), case["batch"])
        found = grown.grow(library_draft(algorithm2.Markov(case["law"])))
        paths = {""}
        names = [""]
        for node in range(1, found.tree.budget + 1):
            names.append(names[found.tree.parent[node]] + "ABC"[int(found.tokens[node])])
            paths.add(names[-1])
        assert sorted(paths) == sorted(case[f"tree_{kind}"]), "the library grows another tree"
        counts.append(max(k for k in range(len(case["emitted"]) + 1) if case["emitted"][:k] in paths))
    assert counts == [case["accepted_high"], case["accepted_low"]]
    assert counts[0] > counts[1]
    assert case["threshold_high"] > case["threshold_low"]
    return {"counts": counts}


def stalls(states: list[algorithm2.Iteration], first: int = 2) -> int | None:
    """The first i >= `first` with 0 < S_i <= S_{i+1}, or None."""
    sums = [state.sum for state in states]
    return next((i for i in range(first, len(sums)) if 0 < sums[i - 1] <= sums[i]), None)


def tied(one: algorithm2.Iteration, two: algorithm2.Iteration) -> bool:
    """Whether the nodes of D_i and D_{i+1} all have one probability, and are equally many."""
    return len(one.chosen) == len(two.chosen) and len({node[0] for node in one.chosen + two.chosen}) == 1


def steps(effort: int) -> Iterator[dict[str, Any]]:
    """What the formulas of Theorem 1 name, for each two states in a row of every run."""
    for (draft, tokens, _, batch), states in algorithm2.recorded(effort):
        for i, (one, two) in enumerate(pairwise(states), 1):
            yield {
                "i": i,
                "B": batch,
                "V": tokens,
                "support": draft.support,
                "S_i": one.sum,
                "S_next": two.sum,
                "tied": tied(one, two),
            }


def pairs(effort: int) -> Iterator[tuple[algorithm2.Markov, int, algorithm2.Iteration, algorithm2.Iteration]]:
    """(draft, B, two states in a row) of every run."""
    for (draft, _, _, batch), states in algorithm2.recorded(effort):
        yield from ((draft, batch, *pair) for pair in pairwise(states))


def smallest_stall(laws: Callable[[int], list[Law]]) -> tuple[Law, int, int]:
    """The first (law, N, B) whose sums stall, with two or three tokens; B is below the number of tokens."""
    cases = ((law, n, b) for n in range(2, 7) for v in (2, 3) for law in laws(v) for b in range(1, min(v, n)))
    return smallest(
        cases, lambda law, n, batch: stalls(algorithm2.drafted(algorithm2.Markov(law), n, batch)) is not None
    )


@claim("S-T1")
def theorem_1(effort: int) -> Finding:
    law, n, batch = smallest_stall(lambda tokens: positive_laws(tokens, 4))
    states = algorithm2.drafted(algorithm2.Markov(law), n, batch)
    i = stalls(states)
    assert i is not None
    found = [*steps(effort)]
    strict = sum(one["support"] > one["B"] and one["S_i"] > 0 for one in found)
    return Finding(
        {"falling": len(found), "strict": strict, "grids": algorithm2.shown_grids(effort)},
        {
            "law": law,
            "n": n,
            "batch": batch,
            "i": i,
            "expanded_i": [letters(node[2]) for node in states[i - 1].chosen],
            "expanded_next": [letters(node[2]) for node in states[i].chosen],
            "sums": [state.sum for state in states],
            **algorithm2.as_tree(states[i].tree),
        },
        cases={"step": found},
    )


@second("S-T1")
def _(case: Case) -> dict[str, Any]:
    sums = algorithm2.replayed(algorithm2.Markov(case["law"]), case["n"], case["batch"], len(case["sums"]))
    assert sums == case["sums"], "the flat replay gives other sums"
    assert sums[case["i"] - 1] == sums[case["i"]] > 0 < min(case["law"])
    assert case["batch"] < len(case["law"])
    random, count = Random(7), 0
    for _ in range(60):
        n, batch = random.randint(5, 14), random.randint(1, 3)
        weights = [sorted(random.sample(range(1, 9999), 4), reverse=True) for _ in range(n)]
        draft = algorithm2.ByDepth(tuple(tuple(Fraction(w, sum(row)) for w in row) for row in weights))
        sums = algorithm2.replayed(draft, n, batch, 2 * n)
        alive = sums[: sums.index(Fraction(0)) + 1]
        assert all(before > after for before, after in pairwise(alive)), "sums of a draft without ties do not fall"
        count += len(alive) - 1
    return {"count": count}


@claim("S-T1-W")
def leftover(effort: int) -> Finding:
    def values(one: algorithm2.Iteration, two: algorithm2.Iteration) -> dict[str, int]:
        before, after = ({node[2] for node in state.chosen} for state in (one, two))
        parents = {path[:-1] for path in after}
        return {
            "W": sum(path[:-1] not in before for path in after),
            "Y": sum(path not in parents for path in before),
        }

    found = [values(one, two) for _, _, one, two in pairs(effort)]
    return Finding({"count": len(found), "grids": algorithm2.shown_grids(effort)}, cases={"step": found})
