"""TensorRT-LLM servers as `Observed`, from the statistics of iterations, and what to change in TensorRT-LLM.

The names are from cpp/include/tensorrt_llm/executor/types.h, read 2026-11-21: `iterLatencyMS` of an iteration is its
whole time, and the one of `specDecodingStats` is the time of its drafting; `draftOverhead` is their quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spectheory.engines.observed import Advice, Observed, nothing_decoded
from spectheory.engines.report_values import mapping, mappings, number, pick
from spectheory.engines.statistics import Statistics

BLOCK = ("specDecodingStats", "spec_decoding_stats")
LATENCY = ("iterLatencyMS", "iter_latency_ms")
BATCHING = ("inflightBatchingStats", "inflight_batching_stats")
GENERATING = ("numGenRequests", "num_gen_requests")
ACTIVE = ("numActiveRequests", "num_active_requests")
DRAFTED = ("numDraftTokens", "num_draft_tokens")


def observed_in_iterations(data: Any, statistics: Callable[[Any], Statistics]) -> Observed:
    """A server by its iterations: those with drafts, or all iterations if none has. `statistics` reads the drafts.

    Raises:
        InputError: there is no iteration with its time and requests that decode.
    """
    rows = [row for row in mappings("data", data) if not row.get("attentionDpRank")]
    drafting = [row for row in rows if pick(_block(row), DRAFTED)]
    chosen = [row for row in drafting or rows if pick(row, LATENCY) and _decoding(row)]
    if not chosen and not drafting:
        raise nothing_decoded("trtllm-stats")
    seconds = [number(LATENCY[0], pick(row, LATENCY)) / 1e3 for row in chosen]
    batches = [_decoding(row) for row in chosen]
    drafts = [pick(_block(row), LATENCY) for row in chosen]
    found = statistics(data) if drafting else None
    known = found is not None and found.drafts and found.drafted
    return Observed(
        "TensorRT-LLM",
        "trtllm-stats",
        statistics=found,
        tau=1.0 if found is None else found.tau or 1.0,
        nodes=(found.drafted / found.drafts if known else None) if found else 0.0,  # pyrefly: ignore[unsupported-operation]
        depth=None if found else 0,
        batch=sum(batches) / len(batches) if chosen else None,
        step_seconds=sum(seconds) / len(seconds) if chosen else None,
        draft_seconds=sum(drafts) / len(drafts) / 1e3 if chosen and all(drafts) and found else None,
        notes=("the time of an iteration contains the prompts that are read in it",),
    )


def _block(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(BLOCK[0], pick(row, BLOCK) or {})


def _decoding(row: Mapping[str, Any]) -> float:
    """The number of requests that decode in an iteration."""
    inner = mapping(BATCHING[0], pick(row, BATCHING) or {})
    return number(GENERATING[0], pick(inner, GENERATING) or pick(row, ACTIVE) or 0)


ADVICE = Advice(
    length="max_draft_len: {length} in speculative_config",
    causes={
        "acceptance": "check that the draft was made for this target; use_rejection_sampling: true accepts more when "
        "sampling than comparing with the sampled token",
        "draft": "a smaller max_draft_len, or a head (Eagle3, MTP) instead of a draft model",
        "verification": "a smaller max_draft_len, or max_total_draft_tokens for a tree; for a mixture of experts, "
        "verification reads the experts of every token",
        "batch": "draft_len_schedule, or max_concurrency, above which nothing is drafted",
        "overhead": "check that cuda_graph_config covers the batch, and that disable_overlap_scheduler is not set",
    },
)
