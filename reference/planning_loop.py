"""`measured_plan`: trace, profile and plan, then plan again with rates where cycles start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reference.models import Pair
from reference.profiling import forward_sizes, profile, with_overheads
from reference.tracing import TraceSettings, acceptance, record_trace, replays
from spectheory import Latency, Replays, Schedule, plan

MAX_BUDGET = 64
DATASET = "prompts of a plan"
TRACE, RATES, LATENCY = "trace", "acceptance.json", "latency.json"
"""Names of what `measured_plan` writes into its folder: the trace, the rates before smoothing, and the seconds."""


def measured_plan(
    pair: Pair,
    prompts: list[list[int]],
    folder: Path,
    *,
    new_tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    rounds: int = 15,
    latency: Latency | None = None,
    sources: Sequence[str] = (),
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> tuple[Schedule, Replays]:
    """Plan for texts that continue prompts like these, at the context in the middle of such a text.

    The rates propose trees; tree and verifier are chosen by replay on the traced texts.

    Args:
        pair: target and draft.
        prompts: prompts to trace, as token ids.
        folder: folder that keeps the trace, the rates and the latency. What is there is not measured again.
        new_tokens: number of tokens of text after each prompt.
        temperature: temperature of the trace and of the measured overheads.
        seed: seed of the trace and of the profile.
        rounds: number of timed forwards of each size in the profile.
        latency: seconds of the pair's forwards; None measures them for sizes that suit the prompts. Overheads at
            another temperature are measured again.
        sources: where each prompt is from, see `record_trace`.
        done: callback with the number of tokens that were traced in this call, and of all that it traces, then with the
            same numbers for the rounds of the profile.

    Returns:
        The plan, and the replays of the traced texts by which it was chosen.

    Raises:
        InputError: the prompts do not fit the models' context with the text.
        ForeignFolderError: `folder` holds a trace with other models, prompts or settings.
    """
    lengths = sorted(map(len, prompts))
    longest = lengths[-1] + new_tokens
    candidates = min(TraceSettings.candidates, pair.vocab_size)
    settings = TraceSettings(DATASET, temperature, candidates, new_tokens, seed=seed)
    record_trace(pair, prompts, settings, folder / TRACE, done, sources=sources)
    if (folder / LATENCY).exists():
        latency = Latency.load(folder / LATENCY)
    elif latency is None:
        latency = profile(
            pair,
            tokens=forward_sizes(min(2 * MAX_BUDGET + 1, pair.context - longest)),
            contexts=(lengths[0], longest),
            rounds=rounds,
            temperature=temperature,
            seed=seed,
            done=done,
        )
    elif latency.provenance.sampling != str(settings.sampling):
        latency = with_overheads(pair, latency, settings.sampling, seed)
    latency.save(folder / LATENCY)
    limits = {"max_budget": MAX_BUDGET, "context": lengths[len(lengths) // 2] + new_tokens // 2}
    rates = acceptance(folder / TRACE)
    rates.save(folder / RATES)
    texts = replays(folder / TRACE, pair, seed=seed)
    return plan(rates.smoothed(), latency.smoothed(), **limits, replays=texts), texts
