"""SpecDecode-Bench's simulator as a special case: copies of one request, no arrivals, linear times.

Its rule, in our words. A batch is b copies of one request, whose prompts are read in one forward. Then, step by step, a
target forward of K + 1 tokens of each unfinished copy takes time linear in the cached tokens of all copies and in the
tokens of the forward. A draft runs once, in time linear in the cached tokens and in K + 1; the step has a constant
overhead. A copy emits the recorded accepted length at its position, at most K + 1. The cache of a copy counts its
emitted tokens, the last one included, from the first token on. Plain steps are the same with K = 0 and no draft.

Source: https://github.com/SpecDecode-Bench/simulator (arXiv 2601.11580), whose coefficients for Llama-3.1-8B with
EAGLE-3 on an H100 are `PUBLISHED`. No code of it is used here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.serving_validation.check import Check
from benchmarks.serving_validation.engines import LinearTimes
from simulate import Requests, Tier, serve
from simulate.serving.engine_loop import keys_of, uniform
from spectheory import Acceptance, ServingRun, Tree

PUBLISHED = LinearTimes(
    kv=3.92645679e-08,
    tokens=2.10103129e-05,
    fixed=5.88590713e-03,
    draft_kv=2.37768493e-09,
    draft_tokens=8.41429603e-07,
    draft_fixed=2.13526175e-03,
    overhead=1.20683946e-03,
)
PROMPT, ANSWER, LONGEST = 400, 300, 5
ROUNDING = 1e-9
RATES = {"instructcoder-like": 0.8, "hard": 0.45}
"""Rates of acceptance from which lengths are recorded, at every position, for the chain of `LONGEST`."""


def checks() -> Iterator[Check]:
    """Decoding seconds of the rule and of `serve`, with the same accepted lengths: equal up to rounding.

    One request has random lengths: the record holds at each position what the engine draws there. Copies have the same
    lengths as each other, and the engine draws for each request, so batches of copies have constant lengths.
    """
    for name, rate in RATES.items():
        record = recorded(Tier.of(Tree.chain(LONGEST), Acceptance.by_rank([rate])), seed=3)
        for drafted in (0, 1, 3, 5):
            tier = Tier.of(Tree.chain(drafted), Acceptance.by_rank([rate]))
            yield _check(f"1 copy, {name}, K = {drafted}", tier, 1, record)
    for copies in (8, 32):
        for drafted, kept in ((0, 0), (3, 0), (3, 2), (5, 5)):
            survival = (np.arange(drafted + 1) <= kept).astype(float)[None]
            record = np.full(ANSWER, kept + 1)
            yield _check(
                f"{copies} copies, K = {drafted}, {kept} kept", Tier(Tree.chain(drafted), survival), copies, record
            )


def _check(case: str, tier: Tier, copies: int, record: np.ndarray) -> Check:
    run = simulated(tier, copies)
    decoding = run.completion_seconds - run.first_token_seconds
    expected = rule(PUBLISHED, copies, record, tier.tree.budget)
    return Check("SpecDecode-Bench's rule", case, float(decoding.max()), expected, ROUNDING * expected, "s")


def simulated(tier: Tier, copies: int) -> ServingRun:
    """The copies in `serve`: all arrive at once, and are read in one step."""
    server = PUBLISHED.server(copies, PROMPT + ANSWER, before=1)
    requests = Requests(np.zeros(copies), np.full(copies, PROMPT), np.full(copies, ANSWER))
    return serve(tier, requests, server=server, seed=3)


def recorded(tier: Tier, seed: int) -> np.ndarray:
    """(answer,) tokens that a cycle at each position of the first request emits, the first token at position 0."""
    key = keys_of(seed, 1)[0]
    drawn = np.array([uniform(key, position) for position in range(1, ANSWER + 1)])
    return 1 + (drawn[:, None] < tier.survival[0, 1:]).sum(1)


def rule(times: LinearTimes, copies: int, lengths: np.ndarray, drafted: int) -> float:
    """Seconds after the prompts until copies with these accepted lengths at each position are complete."""
    seconds, emitted = 0.0, 1
    while emitted < len(lengths):
        cached = copies * (PROMPT + emitted)
        seconds += times.forward(cached, copies * (drafted + 1)) + times.overhead
        seconds += times.draft(cached, drafted + 1) if drafted else 0.0
        emitted += min(int(lengths[emitted - 1]), drafted + 1)
    return seconds
