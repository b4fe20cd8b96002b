"""TensorRT-LLM: its statistics from iterations, and its `speculative_config` in YAML.

The names are from cpp/include/tensorrt_llm/executor/types.h and tensorrt_llm/metrics, read 2026-11-21.
`acceptanceLength` is the mean over requests that drafted, so accepted + requests = acceptanceLength * requests.
`iterLatencyMS` of an iteration is its whole time, and the one of `specDecodingStats` is the time of its drafting.

Versions of the config, read 2026-11-21 (tensorrt_llm/llmapi/llm_args.py, https://nvidia.github.io/TensorRT-LLM/):

- 1.3, 1.4: the batch sizes in `draft_len_schedule` are upper bounds. {4: 4, 8: 2} drafts 4 tokens up to batch size 4,
  2 up to 8, and none above (PR #10860, merged 2026-03-13). In 1.2 they are lower bounds.
- Dynamic trees: in 1.3.0rc27 and 1.4.0rc1 (PR #13081, merged 2026-04). Static trees (`eagle_choices`, removed in 1.4
  by PR #18210) are not exported.
- MTP: the last candidates of 1.3 rename `num_nextn_predict_layers`, the number of drafted tokens, to `max_draft_len`,
  which the first ones overwrite with 1, and accept the old name. 1.4 has the new name.
- NGram: `max_draft_len`, without the overlap scheduler.
- Which versions change the draft length of MTP with the batch size is not known, and none does for NGram
  (`support_dynamic_draft_len`), so both get one length. `max_concurrency` is the last batch size with drafts.

The root is not counted. A dynamic tree needs max_draft_len <= max_total_draft_tokens <= topK * max_draft_len.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spectheory.core.errors import InputError
from spectheory.engines.engine import Engine, Export, Observed, Reader, nothing_decoded
from spectheory.engines.report_values import EXACT, agree, count, json_values, mapping, missing, number, pick
from spectheory.engines.statistics import Counts, Statistics, added
from spectheory.hardware.model_config import ModelConfig
from spectheory.planning.envelope import Envelope
from spectheory.planning.fitting import ChainRange, Fitting, checked_ranges, first_is_longest, one_length_then_off

DECODING_TYPES = {"eagle3": "Eagle3", "mtp": "MTP", "ngram": "NGram"}
"""The values of `decoding_type` by family of the draft."""
FILE = "speculative_config.yaml"
Lines = dict[str, str]


VERSIONS = {"1.3": "num_nextn_predict_layers", "1.4": "max_draft_len"}
"""The versions, and the name of the number of tokens that MTP drafts."""
WITHOUT_MODEL = ("MTP", "NGram")
"""The values of `decoding_type` that load no draft: the module in the target's checkpoint, and n-gram lookup."""


def export(
    plan: Envelope | Sequence[ChainRange], *, version: str, model: str | None = None, decoding_type: str = "Eagle3"
) -> Export:
    """The plan as a YAML file for `trtllm-serve --extra_llm_api_options`, drafting with the EAGLE-3 head `model`.

    The types "MTP" and "NGram" load no `model`. They take chains of one length, up to a batch size.
    """
    key = ENGINE.release(version)
    if isinstance(plan, Envelope):
        lines, notes = _envelope(plan)
    elif decoding_type in WITHOUT_MODEL:
        lines, notes = _one_length(checked_ranges(plan), decoding_type, VERSIONS[key])
    else:
        lines, notes = _ranges(checked_ranges(plan))
    named = {} if model is None else {"speculative_model": json.dumps(model)}
    lines = {"decoding_type": decoding_type} | named | lines
    text = "speculative_config:\n" + "".join(f"  {name}: {value}\n" for name, value in lines.items())
    text += "disable_overlap_scheduler: true\n" * (decoding_type == "NGram")
    return Export("TensorRT-LLM", key, ("--extra_llm_api_options", FILE), {FILE: text}, notes)


def _one_length(ranges: list[ChainRange], decoding_type: str, mtp_length: str) -> tuple[Lines, tuple[str, ...]]:
    first, *others = ranges
    if first.length == 0 or len(others) > 1 or any(item.length for item in others):
        lengths = ", ".join(f"{item.length} up to batch {item.last_batch}" for item in ranges)
        raise InputError(f"ranges must be one length, and 0 above a batch size, for {decoding_type}, got {lengths}")
    most = {"max_concurrency": str(first.last_batch)} if others else {}
    if decoding_type == "MTP":
        return {mtp_length: str(first.length)} | most, ("the checkpoint of the target must contain the module",)
    size = "max_matching_ngram_size has its default: count the acceptance with the same size"
    return {"max_draft_len": str(first.length)} | most, (size,)


def _envelope(plan: Envelope) -> tuple[Lines, tuple[str, ...]]:
    most = plan.branching * plan.levels
    if not plan.levels <= plan.nodes <= most:
        raise InputError(
            f"nodes must be from levels={plan.levels} to branching * levels={most} for TensorRT-LLM, got {plan.nodes}"
        )
    lines = {
        "max_draft_len": str(plan.levels),
        "use_dynamic_tree": "true",
        "dynamic_tree_max_topK": str(plan.branching),
        "max_total_draft_tokens": str(plan.nodes),
    }
    return lines, ("not for targets with MLA or sliding-window attention",)


def _ranges(ranges: list[ChainRange]) -> tuple[Lines, tuple[str, ...]]:
    longest = max(item.length for item in ranges)
    if ranges[0].length != longest:
        raise InputError(
            f"length of the first range must be the longest of all, {longest}, got {ranges[0].length}: TensorRT-LLM "
            "uses the length at batch size 1 as max_draft_len"
        )
    table = {item.last_batch: item.length for item in ranges if item != ranges[-1] or item.length > 0}
    schedule = "{" + ", ".join(f"{batch}: {length}" for batch, length in table.items()) + "}"
    return {"max_draft_len": str(longest), "draft_len_schedule": schedule}, (
        f"above batch size {max(table)} this version does not speculate; before PR #10860 (2026-03-13), in early "
        "candidates of 1.3, keys were lower bounds",
        "while drafting is off, the state of the draft goes stale, lowering acceptance (#16888, open in 2026-07)",
    )


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest envelope, or the fastest chains of which the longest is at batch size 1; or chains of one length."""
    decoding_type, elsewhere = fitting.of_family(DECODING_TYPES), _chains_only(fitting.target)
    limits = first_is_longest, "TensorRT-LLM takes, the longest at batch size 1"
    if decoding_type in WITHOUT_MODEL:
        limits = one_length_then_off, f"{decoding_type} in TensorRT-LLM takes, one length up to a batch size"
        own = fitting.loaded
        elsewhere = (f"the module is read from the checkpoint of the target, not from {own}",) if own else ()
    if decoding_type in WITHOUT_MODEL or elsewhere:
        found = fitting.chains(*limits)
        notes = (*fitting.notes(found), *elsewhere)
    else:
        found, notes = fitting.better(*limits, lambda levels, branching: levels * branching)
    model = None if decoding_type in WITHOUT_MODEL else fitting.model
    return export(found.runs, version=version, model=model, decoding_type=decoding_type).after(*notes)


def _chains_only(target: ModelConfig | None) -> tuple[str, ...]:
    """A note if TensorRT-LLM cannot draft trees for the target, because of its kind of attention."""
    if target is None or not (target.shape.latent or target.shape.sliding_layers):
        return ()
    kind = "multi-head latent attention" if target.shape.latent else "sliding-window attention"
    return (f"only chains, because TensorRT-LLM drafts no trees for targets with {kind}, such as {target.name}",)


BLOCK = ("specDecodingStats", "spec_decoding_stats")
LATENCY = ("iterLatencyMS", "iter_latency_ms")
BATCHING = ("inflightBatchingStats", "inflight_batching_stats")
GENERATING = ("numGenRequests", "num_gen_requests")
ACTIVE = ("numActiveRequests", "num_active_requests")
DRAFTED = ("numDraftTokens", "num_draft_tokens")
ACCEPTED = ("numAcceptedTokens", "num_accepted_tokens")
REQUESTS = ("numRequestsWithDraftTokens", "num_requests_with_draft_tokens")
LENGTH = ("acceptanceLength", "acceptance_length")


def from_iteration_stats(rows: Sequence[Mapping[str, Any]], min_trials: int = 100) -> Statistics:
    """Statistics of iterations, which are added, as `LLM.get_stats` or `/metrics` report them.

    Iterations without drafts are left out. With attention DP, only rank 0 counts, because other ranks report copies.
    """
    blocks = [(_block(row), row) for row in rows]
    if not any(block for block, _ in blocks):
        inner = [row for row in rows if any(name in row for name in (*DRAFTED, *ACCEPTED))]
        if not inner:
            raise missing("the iteration stats", BLOCK, (name for row in rows for name in row))
        blocks = [(row, row) for row in inner]
    used = [block for block, row in blocks if block and not row.get("attentionDpRank")]
    return added([_read(block) for block in used], "iterations", min_trials)


def _read(block: Mapping[str, Any]) -> Counts:
    """The counts of one iteration, where each request that drafted is a cycle."""
    for names in (DRAFTED, ACCEPTED):
        if pick(block, names) is None:
            raise missing("specDecodingStats", names, block)
    drafted, accepted = (count(names[0], pick(block, names)) for names in (DRAFTED, ACCEPTED))
    requests, length = pick(block, REQUESTS), pick(block, LENGTH)
    length = None if length is None else number(LENGTH[0], length)
    if drafted == 0:
        return Counts(0, 0, 0)
    if requests is None:
        if accepted == 0 or length is None or length <= 1:
            return Counts(None, drafted, accepted)
        requests = round(accepted / (length - 1))
    requests = count(REQUESTS[0], requests)
    if not 1 <= requests <= drafted:
        raise InputError(
            f"{REQUESTS[0]} must be from 1 to {DRAFTED[0]}={drafted}, got {requests}: each drafted a token"
        )
    if length is not None:
        agree(LENGTH[0], length, 1 + accepted / requests, f"1 + numAcceptedTokens / {requests} requests", EXACT)
    return Counts(requests, drafted, accepted)


def observe_iterations(text: str, min_trials: int) -> Observed:
    """A server by its iterations: those with drafts, or all iterations if none has."""
    data = json_values(text)
    rows = [row for row in data if not row.get("attentionDpRank")]
    drafting = [row for row in rows if pick(_block(row), DRAFTED)]
    chosen = [row for row in drafting or rows if pick(row, LATENCY) and _decoding(row)]
    if not chosen and not drafting:
        raise nothing_decoded()
    seconds = [number(LATENCY[0], pick(row, LATENCY)) / 1e3 for row in chosen]
    drafts = [number(LATENCY[0], pick(_block(row), LATENCY) or 0) for row in chosen]
    found = from_iteration_stats(data, min_trials) if drafting else None
    return Observed(
        statistics=found,
        batch=sum(map(_decoding, chosen)) / len(chosen) if chosen else None,
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


ENGINE = Engine(
    name="trtllm",
    title="TensorRT-LLM",
    versions=VERSIONS,
    exporter=_fitted,
    readers={
        "trtllm-stats": Reader(lambda text, least: from_iteration_stats(json_values(text), least), observe_iterations),
    },
)
