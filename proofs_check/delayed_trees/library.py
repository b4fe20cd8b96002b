"""Spectheory's own verifiers, solvers and sums over trees in Fractions, for the second checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

import spectheory as st
from proofs_check.plays import ONE, ZERO, gathered
from proofs_check.small_drafts import Law, Path
from spectheory.core.chance import branches

SOLVERS = {"NSS": st.otlp.NSS(), "NaiveTree": st.otlp.Naive(), "SpecInfer": st.otlp.SpecInfer()}
SPECTR = {"SpecTr": st.otlp.SpecTr()}
NAIVE = st.verify.TopDown(st.otlp.Naive())
Drafts = Iterable[tuple[st.Draft, Fraction]]


@cache
def array(law: Law) -> np.ndarray:
    """Probabilities as spectheory takes them; read only."""
    found = np.array(law, dtype=object)
    found.flags.writeable = False
    return found


def arrays(laws: Sequence[Law]) -> np.ndarray:
    """A matrix with one row per distribution."""
    return np.array([list(array(law)) for law in laws], dtype=object)


def layered(layers: Sequence[tuple[Law, Law]]) -> st.World:
    """A world with one pair (p, q) per depth; the last pair also holds at all greater depths."""
    rows = [(array(tuple(p)), array(tuple(q))) for p, q in layers]
    last = len(rows) - 1
    return st.World(lambda context: rows[min(len(context), last)][0], lambda context: rows[min(len(context), last)][1])


def tokens_per_call(solver: st.otlp.Solver, world: st.World, paths: int, trunk: int, length: int) -> Fraction:
    """Mean number of tokens of a cycle on (K, L1, L2)-delayed trees, summed over all trees."""
    return st.yields.delayed_block_efficiency(solver, world, paths, length, trunk).value


def drafted_paths(world: st.World, length: int) -> list[tuple[st.Draft, Fraction]]:
    """Every drafted path of `length` tokens, with its probability."""
    grown = branches(lambda rng: st.Paths(1, length).grow(world, rng))
    return [(draft, chance) for draft, chance in grown if chance]


def emitted(verifier: st.verify.Verifier, world: st.World, drafts: Drafts) -> Iterator[tuple[Path, Fraction]]:
    """The accepted tokens with the token after them, for each draft and each node at which the verifier can stop."""
    for draft, chance in drafts:
        outcome = verifier.outcome(draft, world.target(draft))
        for node, stop in enumerate(outcome.stop):
            for token, x in enumerate(outcome.next_token[node]):
                yield (*draft.context(node), token), chance * stop * x


def played(pairs: Sequence[tuple[Law, Law]], policy: tuple[int, int], cycles: int) -> tuple[Fraction, Fraction]:
    """Expected tokens of `cycles` cycles from token 0, and the expected number of cycles that start after token 1.

    Texts have two tokens. `pairs` are p and q after each last token, `policy` how many tokens are drafted there.
    """
    p, q = (arrays([pair[side] for pair in pairs]) for side in (0, 1))
    world = st.World.markov(p, q)
    turns: list[dict[tuple[int, int], Fraction]] = []
    for last in (0, 1):
        start = st.World(lambda c, s=last: world.p((s, *c)), lambda c, s=last: world.q((s, *c)))
        texts = emitted(NAIVE, start, drafted_paths(start, policy[last]))
        turns.append(gathered(((len(text), text[-1]), chance) for text, chance in texts))
    at, tokens, seen = [ONE, ZERO], ZERO, ZERO
    for _ in range(cycles):
        tokens += sum((at[last] * n * x for last in (0, 1) for (n, _), x in turns[last].items()), ZERO)
        seen += at[1]
        at = [sum((at[o] * x for o in (0, 1) for (_, to), x in turns[o].items() if to == t), ZERO) for t in (0, 1)]
    return tokens, seen
