"""vLLM: the engine, and its statistics from Prometheus, the log and single responses. Its config: `vllm_config`.

The names are from vllm/v1/spec_decode/metrics.py and https://docs.vllm.ai/en/v0.32.0/features/speculative_decoding/,
read 2026-11-21. Metrics of single requests came with 0.29 (PR #48915). llama.cpp uses the same definitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from spectheory.engines import statistics
from spectheory.engines.engine import Engine
from spectheory.engines.exports import Export
from spectheory.engines.observed import Observer
from spectheory.engines.prometheus import Metrics
from spectheory.engines.report_values import EXACT, agree, count, counts, json_values, mapping, missing, number
from spectheory.engines.statistics import RECOVERED, Counted, Statistics
from spectheory.engines.vllm_benchmarks import FORMATS
from spectheory.engines.vllm_config import MAX_SPEC_LEN, VERSIONS, WITHOUT_MODEL, export
from spectheory.engines.vllm_observed import ADVICE, PREFIX, observed_in_log, observed_in_metrics
from spectheory.planning.fitting import Fitting, at_most, one_length

__all__ = [
    "ENGINE",
    "VERSIONS",
    "export",
    "from_log",
    "from_log_line",
    "from_prometheus",
    "from_request_metrics",
]

METHODS = {
    "model": "draft_model",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "p-eagle": "eagle3",
    "dflash": "dflash",
    "dspark": "dspark",
    "medusa": "medusa",
    "pard": "draft_model",
    "mtp": "mtp",
    "ngram": "ngram",
    "suffix": "suffix",
}
"""The method of vLLM for each family of drafts."""
PARALLEL = ("p-eagle", "pard")
"""The families that share the method of others, but draft all tokens in one forward."""
FORMS = {
    "Mean acceptance length": r"Mean acceptance length:\s*([\d.]+)",
    "Per-position acceptance rate": r"Per-position acceptance rate:\s*\[?([\d.]+(?:,\s*[\d.]+)*)",
    "Accepted": r"\bAccepted:\s*(\d+) tokens",
    "Drafted": r"\bDrafted:\s*(\d+) tokens",
    "Avg Draft acceptance rate": r"Avg Draft acceptance rate:\s*([\d.]+)\s*%",
}
"""The figures in a log line: name and pattern of each."""


def from_prometheus(text: str | Metrics, *, min_trials: int = 100) -> Statistics:
    """Statistics of `/metrics`: counters since the server started, summed over label sets.

    For the time between two scrapes, pass `Metrics.parse(later).since(Metrics.parse(earlier))`.

    Raises:
        InputError: the counters are missing, contradict each other, or count fewer than `min_trials` cycles.
    """
    metrics, per_position = Metrics.parse(text) if isinstance(text, str) else text, PREFIX + "accepted_tokens_per_pos"
    wanted = [PREFIX + name for name in ("drafts", "draft_tokens", "accepted_tokens")]
    for name in (*wanted, per_position):
        metrics.require("the metrics", [name])
    drafts, drafted, accepted = (metrics.counter(name) or 0 for name in wanted)
    found = metrics.by_position(per_position)
    agree(wanted[2], accepted, sum(found), f"the sum of {per_position}", 0)
    sets = metrics.label_sets(per_position)
    shown = "; ".join(", ".join(f"{key}={value}" for key, value in labels.items()) for labels in sets)
    assumed = [f"the counters of {len(sets)} label sets are summed: {shown}"] if len(sets) > 1 else []
    counted = statistics.from_prefix_counts(found, drafts)
    return statistics.from_positions(
        "vLLM", "prometheus", counted, drafts=drafts, drafted=drafted, min_trials=min_trials, assumed=assumed
    )


@dataclass(frozen=True)
class _Line:
    """The figures of one log line. A figure that the line does not have is None."""

    tau: float
    rates: list[float]
    accepted: int | None
    drafted: int | None
    percent: float | None

    @classmethod
    def parse(cls, line: str) -> _Line:
        found = {name: re.findall(form, line) for name, form in FORMS.items()}
        for name in list(FORMS)[:2]:
            if len(found[name]) != 1:
                if not found[name]:
                    wanted = [name for name in list(FORMS)[:2] if not found[name]]
                    raise missing("the line", wanted, re.findall(r"([A-Za-z][\w -]*):", line))
                raise InputError(
                    f"line must have {name!r} once, got it {len(found[name])} times: use from_log for several lines"
                )
        tau, rates, accepted, drafted, percent = found.values()
        return cls(
            tau=float(tau[0]),
            rates=[float(rate) for rate in rates[0].split(",")],
            accepted=int(accepted[0]) if accepted and drafted else None,
            drafted=int(drafted[0]) if accepted and drafted else None,
            percent=float(percent[0]) if percent else None,
        )

    def statistics(self, min_trials: int) -> Statistics:
        return statistics.from_rounded("vLLM", "log line", min_trials=min_trials, **vars(self))


def from_log_line(line: str, *, min_trials: int = 100) -> Statistics:
    """Statistics of one log line `SpecDecoding metrics: ...`. It covers the time since the previous such line."""
    return _Line.parse(line).statistics(min_trials)


def from_log(text: str, *, min_trials: int = 100) -> Statistics:
    """Statistics of a log: the sum over all lines `SpecDecoding metrics: ...`. Other lines are ignored.

    A line with the mean nan, because nothing was drafted, adds nothing. A line adds only to the positions that it has.

    Raises:
        InputError: there is no such line, a line contradicts itself, or one of several lines has no counts.
    """
    every = text.splitlines()
    lines = [line for line in every if "Mean acceptance length: nan" not in line]
    if len(lines) < len(every) and not any("Mean acceptance length" in line for line in lines):
        raise InputError("vLLM has drafted nothing yet: the mean acceptance length is nan in every line")
    found = [line for line in lines if re.search(FORMS["Mean acceptance length"], line)]
    if len(found) < 2:
        return from_log_line(found[0] if found else text, min_trials=min_trials)
    rows, drafts, drafted = [], 0, 0
    for i, line in enumerate(found, 1):
        part = _Line.parse(line)
        part.statistics(1)
        if part.accepted is None or part.drafted is None:
            raise InputError(
                f"line {i} of {len(found)} must have Accepted and Drafted to be added: pass this line alone"
            )
        cycles, counted = statistics.counts_behind(part.rates, part.tau, part.accepted, part.drafted)
        rows.append(statistics.from_prefix_counts(counted, cycles))
        drafts, drafted = drafts + cycles, drafted + part.drafted
    total, assumed = statistics.added(rows), [f"{len(found)} lines of the log are added", RECOVERED]
    return statistics.from_positions(
        "vLLM", "log", total, drafts=drafts, drafted=drafted, min_trials=min_trials, assumed=assumed
    )


def from_request_metrics(data: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, min_trials: int = 100) -> Statistics:
    """Statistics of a server's response, or the sum over several responses.

    The server must run with `--per-request-spec-decode-metrics summary` or `detailed`. Each item of `data` is a
    response, its `metrics`, or the value under `speculative_decoding` in these. Items without drafted tokens are left
    out. Drafts of different lengths do not bias the rates if the response has histograms by draft length, or the steps
    of `detailed`. One request has few cycles: lower `min_trials`, and expect wide intervals.
    """
    read = [_request(item) for item in ([data] if isinstance(data, Mapping) else data)]
    used = [row for row in read if row[1]] or read[:1]
    if not used:
        raise InputError("data must hold at least one response, got none: pass the server's responses")
    counted, drafts, drafted = zip(*used, strict=True)
    return statistics.from_positions(
        "vLLM",
        "request metrics",
        statistics.added(counted),
        drafts=sum(drafts),
        drafted=None if None in drafted else sum(drafted),
        min_trials=min_trials,
        assumed=[f"{len(used)} responses are added"] if len(used) > 1 else [],
    )


def _request(data: Mapping[str, Any]) -> tuple[Counted, int, int | None]:
    """(counts by position, cycles, drafted tokens) of one response, after a check that they agree."""
    inner = mapping("data", data).get("metrics") or data
    inner = mapping("metrics", inner).get("speculative_decoding") or inner
    histogram = inner.get("acceptance_histogram")
    if histogram is None:
        raise missing("the response", ["acceptance_histogram"], inner)
    histogram = counts("acceptance_histogram", histogram)
    drafts, accepted = sum(histogram), sum(j * n for j, n in enumerate(histogram))
    by_length, source = _by_length(inner)
    counted = statistics.from_histograms(by_length or {len(histogram) - 1: histogram})
    agree(f"the sum of {source}", sum(counted[0]), accepted, "acceptance_histogram", 0)
    for name, expected in (
        ("num_spec_steps", drafts),
        ("num_accepted_draft_tokens", accepted),
        ("num_spec_tokens", len(histogram) - 1),
    ):
        if inner.get(name) is not None:
            agree(name, count(name, inner[name]), expected, "acceptance_histogram", 0)
    if inner.get("mean_acceptance_length") is not None and drafts:
        tau = number("mean_acceptance_length", inner["mean_acceptance_length"])
        agree("mean_acceptance_length", tau, 1 + accepted / drafts, "acceptance_histogram", EXACT)
    return counted, drafts, _drafted(inner, by_length, drafts * (len(histogram) - 1), accepted)


def _drafted(inner: Mapping[str, Any], by_length: Mapping[int, list[int]], most: int, accepted: int) -> int | None:
    """`num_draft_tokens`, after a check against the histograms by length, or else against its maximum `most`.

    None if the response does not have it.
    """
    if inner.get("num_draft_tokens") is None:
        return None
    drafted = count("num_draft_tokens", inner["num_draft_tokens"])
    if drafted < accepted:
        raise InputError(
            f"num_draft_tokens={drafted} must be at least accepted={accepted}: pass the response as the server sent it"
        )
    if by_length:
        said = sum(k * sum(row) for k, row in by_length.items())
        agree("num_draft_tokens", drafted, said, "the steps by draft length", 0)
    elif drafted > most:
        raise InputError(
            f"num_draft_tokens must be at most {most}, the longest draft in every step of acceptance_histogram, got "
            f"{drafted}: pass the response as the server sent it"
        )
    if inner.get("draft_acceptance_rate") is not None and drafted:
        rate = number("draft_acceptance_rate", inner["draft_acceptance_rate"])
        agree("draft_acceptance_rate", rate, accepted / drafted, f"{accepted} accepted of {drafted} drafted", EXACT)
    return drafted


def _by_length(inner: Mapping[str, Any]) -> tuple[dict[int, list[int]], str]:
    """(histograms by draft length, name of the field they come from). They are empty if no field has them."""
    name = "acceptance_histogram_by_draft_length"
    made: dict[int, list[int]] = {}
    for k, row in mapping(name, inner.get(name) or {}).items():
        if not is_digits(k):
            raise InputError(f"{name} must have draft lengths as keys, such as '3', got {k!r:.40}")
        made[int(k)] = counts(f"{name}[{k}]", row)
        if len(row) != int(k) + 1:
            raise InputError(f"{name}[{k}] must have {int(k) + 1} entries, got {len(row)}")
    if made:
        return made, name
    accepted, drafted = (counts(key, inner.get(key) or []) for key in ("per_step_accepted", "per_step_drafted"))
    if len(accepted) != len(drafted):
        raise InputError(
            f"per_step_accepted and per_step_drafted must be equally long, got {len(accepted)} and {len(drafted)}: "
            "pass both as the response has them"
        )
    for j, k in zip(accepted, drafted, strict=True):
        if j > k:
            raise InputError(f"per_step_accepted must be at most per_step_drafted={k}, got {j}")
        made.setdefault(k, [0] * (k + 1))[j] += 1
    return made, "per_step_accepted"


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest chains that the version can run."""
    method = fitting.of_family(METHODS)
    found = fitting.chains(at_most(MAX_SPEC_LEN), f"vLLM verifies, of up to {MAX_SPEC_LEN} tokens")
    if len(found.runs) > 1 and not VERSIONS[version].schedule:
        found = fitting.chains(one_length(MAX_SPEC_LEN), f"vLLM {version} takes, one length for all batch sizes")
    model = None if method in WITHOUT_MODEL else fitting.model
    model = fitting.module if method == "mtp" else model
    made = export(found.runs, version=version, method=method, model=model, parallel=fitting.family in PARALLEL)
    return made.after(*fitting.notes(found))


ENGINE = Engine(
    name="vllm",
    title="vLLM",
    versions=VERSIONS,
    exporter=_fitted,
    readers={
        "vllm-metrics": lambda text, least: from_prometheus(text, min_trials=least),
        "vllm-log": lambda text, least: from_log(text, min_trials=least),
        "vllm-response": lambda text, least: from_request_metrics(json_values(text), min_trials=least),
    },
    benchmarks=FORMATS,
    observers={
        "vllm-metrics": Observer(
            lambda metrics, least: observed_in_metrics(metrics, partial(from_prometheus, metrics, min_trials=least)),
            scraped=True,
        ),
        "vllm-log": Observer(lambda text, least: observed_in_log(text, partial(from_log, text, min_trials=least))),
    },
    advice=ADVICE,
)
