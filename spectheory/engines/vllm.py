"""vLLM: statistics from Prometheus, the log and single responses. Plans: see `vllm_config`.

Names by vllm/v1/spec_decode/metrics.py and https://docs.vllm.ai/en/v0.32.0/features/speculative_decoding/, read
2026-11-21. Metrics of single requests: PR #48915, first in 0.29. llama.cpp follows the same definitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spectheory.engines import statistics
from spectheory.engines.names import agree, count, counts, mapping, missing, number
from spectheory.engines.prometheus import Metrics
from spectheory.engines.statistics import Statistics
from spectheory.engines.vllm_config import VERSIONS, export

__all__ = ["VERSIONS", "export", "from_log_line", "from_prometheus", "from_request_metrics"]

PREFIX = "vllm:spec_decode_num_"


def from_prometheus(text: str, *, min_trials: int = 100) -> Statistics:
    """Statistics of `/metrics`: the counters since the server started, summed over label sets.

    Raises:
        ValueError: the counters are missing, contradict each other, or count fewer than `min_trials` cycles.
    """
    metrics, per_position = Metrics.parse(text), PREFIX + "accepted_tokens_per_pos"
    wanted = [PREFIX + name for name in ("drafts", "draft_tokens", "accepted_tokens")]
    for name in (*wanted, per_position):
        metrics.require("the metrics", [name])
    drafts, drafted, accepted = (metrics.counter(name) or 0 for name in wanted)
    found = metrics.by_position(per_position)
    agree(wanted[2], accepted, sum(found), f"the sum of {per_position}", 0)
    sets = metrics.label_sets(per_position)
    shown = "; ".join(", ".join(f"{key}={value}" for key, value in labels.items()) for labels in sets)
    hits, trials = statistics.from_prefix_counts(found, drafts)
    return statistics.from_positions(
        "vllm",
        "prometheus",
        hits=hits,
        trials=trials,
        drafts=drafts,
        drafted=drafted,
        min_trials=min_trials,
        assumed=[f"the counters of {len(sets)} label sets are summed: {shown}"] if len(sets) > 1 else [],
    )


def from_log_line(line: str, *, min_trials: int = 100) -> Statistics:
    """Statistics of a line `SpecDecoding metrics: Mean acceptance length: ...`: the interval since the line before."""
    forms = {
        "Mean acceptance length": r"Mean acceptance length:\s*([\d.]+)",
        "Per-position acceptance rate": r"Per-position acceptance rate:\s*\[?([\d.]+(?:,\s*[\d.]+)*)",
        "Accepted": r"\bAccepted:\s*(\d+) tokens",
        "Drafted": r"\bDrafted:\s*(\d+) tokens",
        "Avg Draft acceptance rate": r"Avg Draft acceptance rate:\s*([\d.]+)\s*%",
    }
    found = {name: re.findall(form, line) for name, form in forms.items()}
    for name in list(forms)[:2]:
        if len(found[name]) != 1:
            if not found[name]:
                raise missing("the line", list(forms)[:2], re.findall(r"([A-Za-z][\w -]*):", line))
            raise ValueError(
                f"line must be a single one, got {len(found[name])} of {name}: pass one interval at a time"
            )
    accepted, drafted = (int(found[name][0]) if found[name] else None for name in ("Accepted", "Drafted"))
    if accepted is not None and drafted and found["Avg Draft acceptance rate"]:
        given = float(found["Avg Draft acceptance rate"][0])
        agree("Avg Draft acceptance rate in %", given, 100 * accepted / drafted, "Accepted / Drafted", 0.06)
    rates = [float(rate) for rate in found["Per-position acceptance rate"][0].split(",")]
    tau = float(found["Mean acceptance length"][0])
    return statistics.from_rounded(
        "vllm", "log line", tau=tau, rates=rates, accepted=accepted, drafted=drafted, min_trials=min_trials
    )


def from_request_metrics(data: Mapping[str, Any], *, min_trials: int = 100) -> Statistics:
    """Statistics of one response of a server with `--per-request-spec-decode-metrics summary` or `detailed`.

    `data` is the response, its `metrics`, or what stands there under `speculative_decoding`. With the histograms by
    draft length, or the steps of `detailed`, drafts of mixed lengths bias nothing. One request has few cycles: lower
    `min_trials`, and mind the intervals.
    """
    inner = mapping("data", data).get("metrics") or data
    inner = mapping("metrics", inner).get("speculative_decoding") or inner
    histogram = inner.get("acceptance_histogram")
    if histogram is None:
        raise missing("the response", ["acceptance_histogram"], inner)
    histogram = counts("acceptance_histogram", histogram)
    drafts = sum(histogram)
    by_length = _by_length(inner) or {len(histogram) - 1: histogram}
    hits, trials = statistics.from_histograms(by_length)
    accepted = sum(j * n for j, n in enumerate(histogram))
    agree("the sum of acceptance_histogram_by_draft_length", sum(hits), accepted, "acceptance_histogram", 0)
    drafted = inner.get("num_draft_tokens")
    for name, expected in (("num_spec_steps", drafts), ("num_accepted_draft_tokens", accepted)):
        if inner.get(name) is not None:
            agree(name, count(name, inner[name]), expected, "acceptance_histogram", 0)
    if inner.get("mean_acceptance_length") is not None and drafts:
        tau = number("mean_acceptance_length", inner["mean_acceptance_length"])
        agree("mean_acceptance_length", tau, 1 + accepted / drafts, "acceptance_histogram", 1e-3)
    return statistics.from_positions(
        "vllm",
        "request metrics",
        hits=hits,
        trials=trials,
        drafts=drafts,
        drafted=None if drafted is None else count("num_draft_tokens", drafted),
        min_trials=min_trials,
    )


def _by_length(inner: Mapping[str, Any]) -> dict[int, list[int]]:
    """Histograms by draft length, as reported or from the steps; empty where neither is there."""
    rows = inner.get("acceptance_histogram_by_draft_length")
    made: dict[int, list[int]] = {}
    for k, row in (rows or {}).items():
        made[int(k)] = counts(f"acceptance_histogram_by_draft_length[{k}]", row)
        if len(row) != int(k) + 1:
            raise ValueError(
                f"acceptance_histogram_by_draft_length[{k}] must have {int(k) + 1} entries, got {len(row)}"
            )
    if made:
        return made
    accepted, drafted = inner.get("per_step_accepted") or [], inner.get("per_step_drafted") or []
    for j, k in zip(counts("per_step_accepted", accepted), counts("per_step_drafted", drafted), strict=True):
        if j > k:
            raise ValueError(f"per_step_accepted must be at most per_step_drafted={k}, got {j}")
        made.setdefault(k, [0] * (k + 1))[j] += 1
    return made
