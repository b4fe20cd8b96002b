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
import re
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
        most = plan.branching * plan.levels
        if not plan.levels <= plan.nodes <= most:
            bounds = f"from levels={plan.levels} to branching * levels={most}"
            raise InputError(f"nodes must be {bounds} for TensorRT-LLM, got {plan.nodes}")
        lines = {
            "max_draft_len": str(plan.levels),
            "use_dynamic_tree": "true",
            "dynamic_tree_max_topK": str(plan.branching),
            "max_total_draft_tokens": str(plan.nodes),
        }
        notes = ("not for targets with MLA or sliding-window attention",)
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
    trees = decoding_type not in WITHOUT_MODEL and not elsewhere
    found, notes = fitting.better(*limits, lambda levels, branching: levels * branching, trees=trees)
    model = None if decoding_type in WITHOUT_MODEL else fitting.model
    return export(found.runs, version=version, model=model, decoding_type=decoding_type).after(*notes, *elsewhere)


def _chains_only(target: ModelConfig | None) -> tuple[str, ...]:
    """A note if TensorRT-LLM cannot draft trees for the target, because of its kind of attention."""
    if target is None or not (target.shape.latent or any(cache.window for cache in target.shape.caches)):
        return ()
    kind = "multi-head latent attention" if target.shape.latent else "sliding-window attention"
    return (f"only chains, because TensorRT-LLM drafts no trees for targets with {kind}, such as {target.name}",)


BLOCK, LATENCY = "specDecodingStats", "iterLatencyMS"
DRAFTED, ACCEPTED = "numDraftTokens", "numAcceptedTokens"
REQUESTS, LENGTH = "numRequestsWithDraftTokens", "acceptanceLength"


def _get(data: Mapping[str, Any], name: str) -> Any:
    """The value under a name or, as Python spells it, under the same name in snake case."""
    return pick(data, (name, re.sub("[A-Z]+", lambda capitals: f"_{capitals[0].lower()}", name)))


def from_iteration_stats(rows: Sequence[Mapping[str, Any]], min_trials: int = 100) -> Statistics:
    """Statistics of iterations, which are added, as `LLM.get_stats` or `/metrics` report them.

    Iterations without drafts are left out. With attention DP, only rank 0 counts, because other ranks report copies.
    """
    if not any(map(_block, rows)):
        raise missing("the iteration stats", [BLOCK], (name for row in rows for name in row))
    used = [_block(row) for row in rows if not row.get("attentionDpRank")]
    return added([_read(block) for block in used if block], "iterations", min_trials)


def _read(block: Mapping[str, Any]) -> Counts:
    """The counts of one iteration, where each request that drafted is a cycle."""
    for name in (DRAFTED, ACCEPTED):
        if _get(block, name) is None:
            raise missing(BLOCK, [name], block)
    drafted, accepted = (count(name, _get(block, name)) for name in (DRAFTED, ACCEPTED))
    requests, length = _get(block, REQUESTS), _get(block, LENGTH)
    length = None if length is None else number(LENGTH, length)
    if drafted == 0:
        return Counts(0, 0, 0)
    if requests is None:
        if accepted == 0 or length is None or length <= 1:
            return Counts(None, drafted, accepted)
        requests = round(accepted / (length - 1))
    requests = count(REQUESTS, requests)
    if not 1 <= requests <= drafted:
        raise InputError(f"{REQUESTS} must be from 1 to {DRAFTED}={drafted}, got {requests}: each drafted a token")
    if length is not None:
        agree(LENGTH, length, 1 + accepted / requests, f"1 + numAcceptedTokens / {requests} requests", EXACT)
    return Counts(requests, drafted, accepted)


def observe_iterations(text: str, min_trials: int) -> Observed:
    """A server by its iterations: those with drafts, or all iterations if none has."""
    data = json_values(text)
    rows = [row for row in data if not row.get("attentionDpRank")]
    drafting = [row for row in rows if _get(_block(row), DRAFTED)]
    chosen = [row for row in drafting or rows if _get(row, LATENCY) and _decoding(row)]
    if not chosen and not drafting:
        raise nothing_decoded()
    seconds = [number(LATENCY, _get(row, LATENCY)) / 1e3 for row in chosen]
    drafts = [number(LATENCY, _get(_block(row), LATENCY) or 0) for row in chosen]
    found = from_iteration_stats(data, min_trials) if drafting else None
    return Observed(
        statistics=found,
        batch=sum(map(_decoding, chosen)) / len(chosen) if chosen else None,
        step_seconds=sum(seconds) / len(seconds) if chosen else None,
        draft_seconds=sum(drafts) / len(drafts) / 1e3 if chosen and all(drafts) and found else None,
        notes=("the time of an iteration contains the prompts that are read in it",),
    )


def _block(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The counts of the drafts of an iteration, which may also be given alone."""
    alone = any(_get(row, name) is not None for name in (DRAFTED, ACCEPTED))
    return mapping(BLOCK, _get(row, BLOCK) or (row if alone else {}))


def _decoding(row: Mapping[str, Any]) -> float:
    inner = mapping("inflightBatchingStats", _get(row, "inflightBatchingStats") or {})
    return number("numGenRequests", _get(inner, "numGenRequests") or _get(row, "numActiveRequests") or 0)


ENGINE = Engine(
    name="trtllm",
    title="TensorRT-LLM",
    versions=VERSIONS,
    exporter=_fitted,
    readers={
        "trtllm-stats": Reader(lambda text, least: from_iteration_stats(json_values(text), least), observe_iterations),
    },
)
