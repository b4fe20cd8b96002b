"""The plan that a user of the command line would have: trace, profile, plan, count again, plan again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from reference import tracing
from reference.models import Pair
from reference.profiling import TOKENS, profile
from spectheory import Plan
from spectheory.planning.planner import plan

MAX_BUDGET = 64


def measured_plan(
    pair: Pair,
    prompts: list[list[int]],
    *,
    new_tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    rounds: int = 15,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> Plan:
    """Plan for texts like those that follow `prompts`, which have one length; for the middle of such a text.

    Rates are counted from where cycles of a first plan start, as every cycle's do. `done` is told the finished
    prompts, then the finished rounds of the profile.
    """
    settings = tracing.TraceSettings(
        dataset="prompts before those clocked", temperature=temperature, new_tokens=new_tokens, seed=seed
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        tracing.record_trace(pair, prompts, settings, folder, done)
        length = len(prompts[0])
        latency = profile(
            pair,
            tokens=[size for size in TOKENS if size <= 2 * MAX_BUDGET and length + new_tokens + size <= pair.context],
            contexts=(length, length + new_tokens),
            rounds=rounds,
            temperature=temperature,
            seed=seed,
            done=done,
        ).smoothed()
        context = length + new_tokens // 2
        first = plan(tracing.acceptance(folder).smoothed(), latency, max_budget=MAX_BUDGET, context=context)
        rates = tracing.acceptance(folder, policy=first.tree).smoothed()
        return plan(rates, latency, max_budget=MAX_BUDGET, context=context)
