"""TensorRT-LLM: the engine, and its statistics from iterations and Prometheus. Its config: `tensorrt_llm_config`.

The names are from cpp/include/tensorrt_llm/executor/types.h and tensorrt_llm/metrics, read 2026-11-21.
`acceptanceLength` is the mean over requests that drafted, so accepted + requests = acceptanceLength * requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spectheory.core.errors import InputError
from spectheory.engines import statistics
from spectheory.engines.engine import Engine
from spectheory.engines.exports import Export
from spectheory.engines.observed import Observer
from spectheory.engines.prometheus import Metrics
from spectheory.engines.report_values import EXACT, agree, count, json_value, mapping, mappings, missing, number, pick
from spectheory.engines.statistics import TOTALS_ONLY, Statistics
from spectheory.engines.tensorrt_llm_config import VERSIONS, WITHOUT_MODEL, export, export_without_model
from spectheory.engines.tensorrt_llm_observed import ADVICE, BLOCK, observed_in_iterations
from spectheory.hardware.model_config import ModelConfig
from spectheory.planning.fitting import Fitting, first_is_longest, one_length_then_off

__all__ = ["ENGINE", "VERSIONS", "export", "export_without_model", "from_iteration_stats", "from_metrics"]

DECODING_TYPES = {"eagle3": "Eagle3", "mtp": "MTP", "ngram": "NGram"}
"""The values of `decoding_type` by family of the draft."""

DRAFTED = ("numDraftTokens", "num_draft_tokens")
ACCEPTED = ("numAcceptedTokens", "num_accepted_tokens")
REQUESTS = ("numRequestsWithDraftTokens", "num_requests_with_draft_tokens")
LENGTH = ("acceptanceLength", "acceptance_length")


def from_iteration_stats(data: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, min_trials: int = 100) -> Statistics:
    """Statistics of one iteration, or the sum over several, as `LLM.get_stats` or `/metrics` report them.

    Iterations without drafts are left out. With attention DP, only rank 0 counts, because other ranks report copies.
    """
    rows = mappings("data", data)
    blocks = [(mapping(BLOCK[0], pick(row, BLOCK) or {}), row) for row in rows]
    if not any(block for block, _ in blocks):
        inner = [row for row in rows if any(name in row for name in (*DRAFTED, *ACCEPTED))]
        if not inner:
            raise missing("the iteration stats", BLOCK, (name for row in rows for name in row))
        blocks = [(row, row) for row in inner]
    used = [block for block, row in blocks if block and not row.get("attentionDpRank")]
    read = [_read(block) for block in used]
    totals = [sum(row[i] or 0 for row in read) for i in range(3)]
    drafted, accepted, drafts = totals
    said = [f"{len(read)} iterations are added"] if len(read) > 1 else []
    if any(row[2] is None for row in read):
        sentences = (TOTALS_ONLY, "the report does not count the requests with drafts: tau is unknown", *said)
        return Statistics("TensorRT-LLM", "iteration stats", None, None, None, drafted, accepted, sentences)
    return statistics.from_totals(
        "TensorRT-LLM",
        "iteration stats",
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        min_trials=min_trials,
        assumed=said,
    )


def _read(block: Mapping[str, Any]) -> tuple[int, int, int | None]:
    """(drafted tokens, accepted tokens, requests that drafted or None if unknown) of one iteration."""
    for names in (DRAFTED, ACCEPTED):
        if pick(block, names) is None:
            raise missing("specDecodingStats", names, block)
    drafted, accepted = (count(names[0], pick(block, names)) for names in (DRAFTED, ACCEPTED))
    if accepted > drafted:
        raise InputError(
            f"numAcceptedTokens={accepted} must be at most numDraftTokens={drafted}: pass the stats as reported"
        )
    requests, length = pick(block, REQUESTS), pick(block, LENGTH)
    if drafted == 0:
        return 0, 0, 0
    length = None if length is None else number(LENGTH[0], length)
    if requests is None and (length is None or accepted == 0):
        if length is not None:
            agree(LENGTH[0], length, 1, "numAcceptedTokens=0", EXACT)
        return drafted, accepted, None
    named = REQUESTS[0] if requests is not None else f"the number of requests, by {LENGTH[0]}={length:g},"
    if requests is None:
        requests = round(accepted / (length - 1)) if length is not None and length > 1 else 0
    requests = count(REQUESTS[0], requests)
    if not 1 <= requests <= drafted:
        raise InputError(
            f"{named} must be from 1 to {DRAFTED[0]}={drafted}, as each request drafted a token, got {requests}: pass "
            "the stats as reported"
        )
    if length is not None:
        agree(LENGTH[0], length, 1 + accepted / requests, f"1 + numAcceptedTokens / {requests} requests", EXACT)
    return drafted, accepted, requests


def from_metrics(text: str) -> Statistics:
    """Statistics of Prometheus metrics: token counters since the start, and the last iteration's acceptance length."""
    metrics, prefix = Metrics.parse(text), "trtllm_spec_decode_"
    names = [prefix + "num_draft_tokens", prefix + "num_accepted_tokens"]
    for name in names:
        metrics.require("the metrics", [name])
    drafted, accepted = (metrics.counter(name) or 0 for name in names)
    tau = metrics.gauge(prefix + "acceptance_length")
    sentences = [TOTALS_ONLY, "the counters do not say how many cycles there were"]
    if tau is not None:
        sentences.append("tau is a gauge of the last iteration, not a mean since the start")
        sentences += metrics.gauge_notes(prefix + "acceptance_length")
    return Statistics("TensorRT-LLM", "metrics", None, tau or None, None, drafted, accepted, tuple(sentences))


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest envelope, or the fastest chains of which the longest is at batch size 1; or chains of one length."""
    decoding_type = fitting.of_family(DECODING_TYPES)
    if decoding_type in WITHOUT_MODEL:
        return _fitted_without_model(fitting, version, decoding_type)
    model = fitting.model
    grows, chained = VERSIONS[version].dynamic_tree, _chains_only(fitting.target)
    limits = first_is_longest, f"TensorRT-LLM {version} takes, the longest at batch size 1"
    if grows and not chained:
        found, notes = fitting.better(*limits, lambda levels, branching: levels * branching)
    else:
        found = fitting.chains(*limits)
        notes = (*fitting.notes(found), *chained) if grows else fitting.notes(found)
    return export(found.runs, version=version, model=model).after(*notes)


def _fitted_without_model(fitting: Fitting, version: str, decoding_type: str) -> Export:
    """The fastest chains of one length, up to a batch size."""
    found = fitting.chains(one_length_then_off, f"{decoding_type} in TensorRT-LLM takes, one length up to a batch size")
    made = export_without_model(found.runs, version=version, decoding_type=decoding_type)
    own = decoding_type == "MTP" and fitting.module
    elsewhere = (f"the module is read from the checkpoint of the target, not from {own}",) if own else ()
    return made.after(*fitting.notes(found), *elsewhere)


def _chains_only(target: ModelConfig | None) -> tuple[str, ...]:
    """A note if TensorRT-LLM cannot draft trees for the target, because of its kind of attention."""
    if target is None or not (target.shape.latent or target.shape.sliding_layers):
        return ()
    kind = "multi-head latent attention" if target.shape.latent else "sliding-window attention"
    return (f"only chains, because TensorRT-LLM drafts no trees for targets with {kind}, such as {target.name}",)


ENGINE = Engine(
    name="trtllm",
    title="TensorRT-LLM",
    versions=VERSIONS,
    exporter=_fitted,
    readers={
        "trtllm-stats": lambda text, least: from_iteration_stats(json_value(text), min_trials=least),
        "trtllm-metrics": lambda text, _: from_metrics(text),
    },
    observers={
        "trtllm-stats": Observer(
            lambda text, least: observed_in_iterations(
                json_value(text), partial(from_iteration_stats, min_trials=least)
            )
        )
    },
    advice=ADVICE,
)
