"""A plan from measurements: trace, profile, plan, count the rates again where cycles of that plan start, plan again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from reference.models import Pair
from reference.profiling import TOKENS, at_temperature, profile
from reference.tracing import TraceSettings, acceptance, record_trace
from spectheory import Latency, Plan
from spectheory.planning.planner import plan

MAX_BUDGET = 64
TRACE, RATES = "trace", "acceptance.json"
"""What `measured_plan` leaves in a folder: the trace, and the rates that the plan was made of, not smoothed."""


def measured_plan(
    pair: Pair,
    prompts: list[list[int]],
    *,
    new_tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    rounds: int = 15,
    dataset: str = "prompts before those clocked",
    latency: Latency | None = None,
    folder: Path | None = None,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> Plan:
    """Plan for texts that continue prompts like these; for the middle of such a text.

    Every cycle starts where the one before it ended, so the rates of the plan are counted only at the positions where
    cycles of a first plan start; the first plan has the rates of all positions.

    Args:
        pair: target and draft.
        prompts: what is traced, all of one length.
        new_tokens: tokens of text after each prompt.
        temperature: of the trace and of the time outside the forwards.
        seed: of the trace and of the profile.
        rounds: runs of each size of the profile.
        dataset: what the trace says of the prompts.
        latency: seconds of the pair's forwards; measured for sizes that suit the prompts where not given. The time
            outside the forwards is measured anew, at `temperature`.
        folder: keeps the trace and the rates there, and continues a trace that was interrupted.
        done: called with the finished and all prompts of the trace, then with the finished and all rounds of the
            profile.

    Raises:
        InputError: the prompts differ in length, or do not fit the models' context with the text.
        ForeignFolderError: `folder` holds a trace of other models, prompts or settings.
    """
    length = len(prompts[0])
    with nullcontext(folder) if folder else TemporaryDirectory() as name:
        kept = Path(name)
        settings = TraceSettings(dataset, temperature=temperature, new_tokens=new_tokens, seed=seed)
        record_trace(pair, prompts, settings, kept / TRACE, done)
        if latency is None:
            latency = profile(
                pair,
                tokens=[n for n in TOKENS if n <= 2 * MAX_BUDGET and length + new_tokens + n <= pair.context],
                contexts=(length, length + new_tokens),
                rounds=rounds,
                temperature=temperature,
                seed=seed,
                done=done,
            )
        else:
            latency = at_temperature(pair, latency, temperature, seed)
        seconds, context = latency.smoothed(), length + new_tokens // 2
        first = plan(acceptance(kept / TRACE).smoothed(), seconds, max_budget=MAX_BUDGET, context=context)
        rates = acceptance(kept / TRACE, policy=first.tree)
        rates.save(kept / RATES)
        return plan(rates.smoothed(), seconds, max_budget=MAX_BUDGET, context=context)
