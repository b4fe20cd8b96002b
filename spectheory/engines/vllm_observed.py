"""vLLM servers as `Observed`, from `/metrics` or the log, and what to change in vLLM.

The names are from vllm/v1/metrics/{stats,loggers}.py, read 2026-11-23. `vllm:inter_token_latency_seconds` is observed
once for each request and step, not for each token, so its mean is the time of a cycle. `vllm:iteration_tokens_total` is
observed once for each step, so its count is the number of steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from spectheory.engines.observed import Advice, Observed, nothing_decoded
from spectheory.engines.prometheus import Metrics
from spectheory.engines.statistics import Statistics

LATENCY = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
PREFIX = "vllm:spec_decode_num_"
STEPS = "vllm:iteration_tokens_total_count"
_GENERATED = r"Avg generation throughput:\s*([\d.]+) tokens/s.*?Running:\s*(\d+) reqs"
PROMPTS_TOO = "the time of a step contains the prompts that are read in the same step"


def observed_in_metrics(metrics: Metrics, statistics: Callable[[], Statistics]) -> Observed:
    """A model in a scrape, or in the difference of two; `statistics` reads what was drafted, if anything was.

    Raises:
        InputError: the server generated nothing, or the counters contradict each other.
    """
    seconds = metrics.mean(*LATENCY)
    drafts = metrics.total(PREFIX + "drafts")
    if seconds is None and not drafts:
        metrics.require("the metrics", [f"{name}_count" for name in LATENCY])
        raise nothing_decoded("vllm-metrics")
    steps, waits = metrics.total(STEPS), max(metrics.total(f"{name}_count") for name in LATENCY)
    batch = waits / steps if steps and waits else metrics.gauge("vllm:num_requests_running") or None
    seen = Observed(
        "vLLM",
        "vllm-metrics",
        batch=None if batch is None else max(batch, 1.0),
        step_seconds=seconds,
        prompt_tokens=metrics.mean("vllm:request_prompt_tokens"),
        cached_share=metrics.quotient("vllm:prefix_cache_hits", "vllm:prefix_cache_queries") or 0.0,
        output_tokens=metrics.mean("vllm:request_generation_tokens"),
        notes=(PROMPTS_TOO,) if seconds is not None else (),
    )
    if not drafts:
        return seen
    found = statistics()
    positions = len(metrics.by_position(f"{PREFIX}accepted_tokens_per_pos"))
    nodes = (found.drafted or 0) / drafts
    return replace(
        seen,
        statistics=found,
        tau=found.tau or 1.0,
        nodes=nodes,
        depth=positions,
        notes=(*seen.notes, *found.assumed),
    )


def observed_in_log(text: str, statistics: Callable[[], Statistics]) -> Observed:
    """A server by its lines of throughput; `statistics` reads its lines `SpecDecoding metrics`, if there are any.

    Raises:
        InputError: there are no such lines, no request ran in any of them, or figures contradict each other.
    """
    lines = [(float(rate), int(running)) for rate, running in re.findall(_GENERATED, text)]
    busy = [(rate, running) for rate, running in lines if rate > 0 and running > 0]
    speculating = "Mean acceptance length" in text
    if not busy and not speculating:
        raise nothing_decoded("vllm-log")
    found = statistics() if speculating else None
    tau = 1.0 if found is None else found.tau or 1.0
    rate, running = (sum(row[i] for row in busy) for i in (0, 1))
    notes = ("the batch is the number of running requests when a line was written, in the mean of the busy lines",)
    seen = Observed(
        "vLLM",
        "vllm-log",
        statistics=found,
        tau=tau,
        batch=running / len(busy) if busy else None,
        step_seconds=running * tau / rate if busy else None,
        notes=(*notes, PROMPTS_TOO) if busy else (),
    )
    if found is None or found.acceptance is None or found.drafts is None:
        return seen
    nodes, depth = (found.drafted or 0) / found.drafts, found.acceptance.cycles_of
    positions = round(nodes) if depth is None else depth.budget
    return replace(seen, nodes=nodes, depth=positions, notes=(*seen.notes, *found.assumed))


ADVICE = Advice(
    length='"num_speculative_tokens": {length} in --speculative-config',
    causes={
        "acceptance": "look at the rates by position and at the text: was the draft made for this model, its chat "
        "template, language and context length?",
        "draft": '"draft_tensor_parallel_size": 1 for a small draft model, "parallel_drafting": true if the draft was '
        'trained for it, "use_local_argmax_reduction": true, or an EAGLE or MTP head instead of a model',
        "verification": "draft fewer tokens; for a mixture of experts, verification reads the experts of every token",
        "batch": 'limit --max-num-seqs, or "num_speculative_tokens_per_batch_size" with shorter drafts for large '
        "batches",
        "overhead": "check that CUDA graphs cover the batch times the drafted tokens (cudagraph_capture_sizes), that "
        "--enforce-eager is not set, and that sampling needs no penalties or logprobs",
    },
)
