"""Verifiers of one path and Traversal, Section 3: programs written from their descriptions, every run of them summed.

Texts are compared up to L tokens: after a whole accepted path every verifier draws from the target, so that what
comes later has the target's distribution anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees import walks
from proofs_check.delayed_trees.library import drafted_paths, emitted
from proofs_check.plain import spelled
from proofs_check.plays import ONE, ZERO, Pick, flip, gathered, runs
from proofs_check.small_drafts import Path
from spectheory.certify.zoo.chains import block_stopping_with_weight
from spectheory.core.chance import branches

Coin = Callable[[Fraction, Fraction], Fraction]
"""(w, mass of (w p - q)+) -> probability to accept an inner node."""
Judged = dict[tuple[Path, int, Path], Fraction]
"""The joint distribution of the drafted path, of tau and of the emitted tokens, the bonus token left out."""


def weights(world: walks.ContextTable, path: Path) -> list[Fraction]:
    """w_0 = 1, w_i = min(1, w_(i-1) p / q)."""
    found = [ONE]
    for i, token in enumerate(path):
        p, q = world.pair(path[:i])
        found.append(min(ONE, found[-1] * p[token] / q[token]))
    return found


def lacking(world: walks.ContextTable, node: Path, weight: Fraction) -> Fraction:
    """S = sum (w p - q)+."""
    return sum(walks.shortfall(weight, *world.pair(node)), ZERO)


def as_described(weight: Fraction, missing: Fraction) -> Fraction:
    """The coin of Section 3.1: the weight itself."""
    return weight


def as_published(weight: Fraction, missing: Fraction) -> Fraction:
    """As in arXiv 2403.10444, Algorithm 2; where it is 0/0 any value gives the same distribution."""
    total = missing + 1 - weight
    return missing / total if total else ONE


def block(world: walks.ContextTable, length: int, coin: Coin) -> Judged:
    """Block verification: independent coins, the deepest accepted node, the w-weighted residual."""

    def program(pick: Pick) -> tuple[Path, int, Path]:
        path = walks.drawn(pick, world, (1, length, 0))[0]
        w = weights(world, path)
        inner = [coin(w[i], lacking(world, path[:i], w[i])) for i in range(1, length)]
        accepted = [flip(pick, chance) for chance in [*inner, w[length]]]
        tau = max((i for i, kept in enumerate(accepted, 1) if kept), default=0)
        return path, tau, _corrected(pick, world, path, tau, w[tau])

    return runs(program)


def _corrected(pick: Pick, world: walks.ContextTable, path: Path, tau: int, weight: Fraction) -> Path:
    if tau == len(path):
        return path
    p, q = world.pair(path[:tau])
    return (*path[:tau], pick(walks.normalised(walks.shortfall(weight, p, q), otherwise=p)))


def naive(world: walks.ContextTable, length: int) -> Judged:
    """Naive: a coin min(1, p / q) for each node, the deepest with all above it accepted, (p - q)+."""

    def program(pick: Pick) -> tuple[Path, int, Path]:
        path = walks.drawn(pick, world, (1, length, 0))[0]
        tau = 0
        while tau < length and flip(pick, weights(world.after(path[:tau]), path[tau : tau + 1])[1]):
            tau += 1
        return path, tau, _corrected(pick, world, path, tau, ONE)

    return runs(program)


def tree_monte_carlo(world: walks.ContextTable, length: int) -> Judged:
    """Tree verification: exits carry the mass that left the path, each drafted token thins them all."""

    def program(pick: Pick) -> tuple[Path, int, Path]:
        path = walks.drawn(pick, world, (1, length, 0))[0]
        mass, exits = ONE, dict[Path, Fraction]()
        for i, token in enumerate(path):
            p, q = world.pair(path[:i])
            over = [max(y - mass * x, ZERO) for x, y in zip(p, q, strict=True)]
            thin = over[token] / (sum(over) * q[token]) if any(over) else ONE
            exits = {end: thin * kept for end, kept in exits.items()}
            exits |= {(*path[:i], y): thin * out for y, out in enumerate(walks.shortfall(mass, p, q))}
            mass = min(ONE, mass * p[token] / q[token])
        choice = pick([mass, *exits.values()])
        return (path, length, path) if choice == 0 else (path, len(end := list(exits)[choice - 1]) - 1, end)

    return runs(program)


def output(world: walks.ContextTable, judged: Judged, length: int) -> walks.Emitted:
    """The distribution of the first `length` tokens of the text."""
    return walks.completed(world, gathered((tokens, chance) for (_, _, tokens), chance in judged.items()), length)


def is_lossless(world: walks.ContextTable, judged: Judged, length: int) -> bool:
    """Whether the distribution of texts is the target's."""
    return output(world, judged, length) == world.texts(length)


def accepted(judged: Judged) -> Fraction:
    """The mean number of accepted tokens, E[tau]."""
    return sum((tau * chance for (_, tau, _), chance in judged.items()), ZERO)


def kept(judged: Judged, node: Path) -> Fraction:
    """The probability that the draft begins with `node` and tau reaches it."""
    return sum((x for (path, tau, _), x in judged.items() if path[: len(node)] == node and tau >= len(node)), ZERO)


def nodes(world: walks.ContextTable, length: int) -> list[Path]:
    """Every non-empty beginning of a path that can be drafted."""
    every_one = (path for depth in range(1, length + 1) for path in product(range(world.size), repeat=depth))
    return [path for path in every_one if world.chance(path, 1)]


def within_w(world: walks.ContextTable, judged: Judged, length: int, *, exactly: bool) -> bool:
    """Whether P(tau >= i | first i drafted tokens) is at most w_i, or w_i exactly, everywhere."""
    pairs = [(kept(judged, node), world.chance(node, 1) * weights(world, node)[-1]) for node in nodes(world, length)]
    return all(one == bound if exactly else one <= bound for one, bound in pairs)


def two_steps(effort: int) -> list[walks.ContextTable]:
    """Worlds in which all verifiers of two tokens are compared."""
    return walks.worlds(2, 2, 3) if effort == 1 else walks.worlds(2, 3, 3)[::3] + walks.worlds(3, 2, 2)


def wide(effort: int) -> list[walks.ContextTable]:
    """Worlds with one pair (p, q) in every context, where paths of one and of three tokens are checked."""
    return walks.worlds(2, 4) + (walks.worlds(3, 2) if effort == 1 else walks.worlds(3, 3))


def covered(effort: int) -> str:
    """The worlds of `two_steps` in words."""
    halves = "all of two tokens with probabilities in halves, free after the empty context and after each first token"
    if effort == 1:
        return halves
    return "every third of two tokens with halves and thirds after each context; three tokens with halves"


@claim("D-BV-DESC")
def described_block(effort: int) -> Finding:
    def beyond_repair(world: walks.ContextTable) -> bool:
        judged = block(world, 2, as_described)
        return any(kept(judged, node) > world.chance(node, 0) for node in nodes(world, 1))

    def values(world: walks.ContextTable, length: int, coin: Coin) -> dict[str, Any]:
        judged = block(world, length, coin)
        lost = walks.distance(output(world, judged, length), world.texts(length))
        return {"lost": lost, "keeps_w": within_w(world, judged, length, exactly=True)}

    one_token = wide(effort)
    world = smallest(walks.worlds(2, 3), beyond_repair)
    judged = block(world, 2, as_described)
    longer = [*((w, 2) for w in two_steps(effort)), *((w, 3) for w in walks.worlds(2, 3))]
    return Finding(
        {"short": len(one_token), "count": len(longer), "covered": covered(effort)}
        | {"kept": kept(judged, (0,)), "target": world.chance((0,), 0), "pair": spelled(world.pair(()))},
        {
            "L": 2,
            "parent": [-1, 0, 1],
            "pair_at_every_context": world.pair(()),
            "kept_A": kept(judged, (0,)),
            "target_A": world.chance((0,), 0),
            "total_variation": walks.distance(output(world, judged, 2), world.texts(2)),
        },
        cases={
            "path": (values(*one, as_described) for one in ((world, 2), *longer)),
            "path_of_one_token": (values(one, 1, as_described) for one in one_token),
            "path_with_the_coins_h": (values(*one, as_published) for one in longer),
        },
    )


@second("D-BV-DESC")
def _(case: Case) -> None:
    world = walks.ContextTable((case["pair_at_every_context"],))
    target = world.library()
    drafts = drafted_paths(target, 2)
    stops: walks.Emitted = gathered(
        ((*draft.context(node), token)[:2], chance * x)
        for draft, chance in drafts
        for (node, token), x in branches(
            lambda rng, d=draft: block_stopping_with_weight(d, np.array(target.target(d)), rng)
        )
    )
    played = walks.completed(world, stops, 2)
    assert walks.distance(played, world.texts(2)) == case["total_variation"] > 0
    first = sum(x for text, x in played.items() if text[0] == 0)
    assert first >= case["kept_A"] > case["target_A"]
    kept = gathered((text[:2], chance) for text, chance in emitted(st.verify.Block(), target, drafts))
    assert walks.completed(world, kept, 2) == world.texts(2)
