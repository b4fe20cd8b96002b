"""SGLang: the engine, and its statistics from responses, Prometheus and a benchmark. Its flags: `sglang_flags`.

The names are from the wheels of 0.5.12, 0.5.15 and 0.5.23, and the older names from stored source, read 2026-11-21.
0.5.12 renamed most of `meta_info` and kept some old names next to the new names; 0.5.23 has only the new names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectheory.core.errors import InputError
from spectheory.engines import statistics
from spectheory.engines.engine import Engine
from spectheory.engines.exports import Export
from spectheory.engines.observed import Observer
from spectheory.engines.prometheus import Metrics
from spectheory.engines.report_values import (
    EXACT,
    agree,
    count,
    counts,
    json_value,
    mapping,
    mappings,
    missing,
    number,
    pick,
    within,
)
from spectheory.engines.sglang_benchmarks import FORMATS
from spectheory.engines.sglang_flags import ADAPTIVE_ALGORITHMS, ONE_CHAIN, VERSIONS, export
from spectheory.engines.sglang_observed import ADVICE, observed_in_log, observed_in_metrics
from spectheory.engines.sglang_points import BenchPoint, from_bench_speculative
from spectheory.engines.statistics import TOTALS_ONLY, Statistics
from spectheory.planning.fitting import Fitting, at_most, one_length

__all__ = ["ENGINE", "VERSIONS", "BenchPoint", "export", "from_bench_speculative", "from_meta_info", "from_metrics"]

CYCLES = ("spec_verify_ct",)
ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
LENGTH = ("spec_accept_length",)
RATE = ("spec_accept_rate",)
LONGEST = 32
"""Maximum number of accepted tokens per cycle if the report does not say how many were drafted; SGLang's defaults
are below 20."""


def from_meta_info(data: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, min_trials: int = 100) -> Statistics:
    """Statistics of one response, or the sum over several. Each is a `meta_info`, or a response that contains one.

    Names of all versions of SGLang are understood. Responses in which nothing was verified are left out.

    Raises:
        InputError: no known name is found, or the figures contradict each other.
    """
    infos = [mapping("meta_info", item.get("meta_info", item)) for item in mappings("data", data)]
    known = (*CYCLES, *ACCEPTED, *DRAFTED, *HISTOGRAM)
    if not any(name in info for info in infos for name in known):
        raise missing("meta_info", known, (name for info in infos for name in info))
    used = [info for info in infos if pick(info, CYCLES) != 0 and any(name in info for name in known)]
    rows = [_read(info) for info in used]
    drafts, accepted = sum(row[0] for row in rows), sum(row[1] for row in rows)
    drafted = sum(row[2] or 0 for row in rows) if rows and all(row[2] is not None for row in rows) else None
    histograms = [row[3] for row in rows]
    said = [f"{len(rows)} responses are added"] if len(rows) > 1 else []
    if not rows or any(histogram is None for histogram in histograms):
        return statistics.from_totals(
            "SGLang",
            "meta_info",
            drafts=drafts,
            drafted=drafted,
            accepted=accepted,
            min_trials=min_trials,
            assumed=said,
        )
    width = max(2, *(len(histogram or ()) for histogram in histograms))
    total = [sum(h[j] for h in histograms if h is not None and j < len(h)) for j in range(width)]
    counted = statistics.from_histograms({width - 1: total})
    return statistics.from_positions(
        "SGLang", "meta_info", counted, drafts=drafts, drafted=drafted, min_trials=min_trials, assumed=said
    )


def _read(info: Mapping[str, Any]) -> tuple[int, int, int | None, list[int] | None]:
    """(cycles, accepted, drafted, histogram) of one response, after a check that they agree."""
    histogram, drafted, accepted, cycles = (pick(info, names) for names in (HISTOGRAM, DRAFTED, ACCEPTED, CYCLES))
    if histogram is not None:
        histogram = counts(HISTOGRAM[0], histogram)
        for name, value, expected in (
            (CYCLES[0], cycles, sum(histogram)),
            (ACCEPTED[0], accepted, sum(j * n for j, n in enumerate(histogram))),
        ):
            if value is not None:
                agree(name, count(name, value), expected, "the histogram", 0)
        cycles, accepted = sum(histogram), sum(j * n for j, n in enumerate(histogram))
    if cycles is None or accepted is None:
        wanted = (*CYCLES,) if cycles is None else ACCEPTED
        raise missing("meta_info", wanted, info)
    cycles, accepted = count(CYCLES[0], cycles), count(ACCEPTED[0], accepted)
    drafted = None if drafted is None else count(DRAFTED[0], drafted)
    rate, length = pick(info, RATE), pick(info, LENGTH)
    if rate is not None and drafted and drafted >= accepted:
        agree(RATE[0], number(RATE[0], rate), accepted / drafted, f"accepted={accepted} of drafted={drafted}", EXACT)
    if length is not None and cycles:
        _check_length(info, number(LENGTH[0], length), cycles, accepted, _longest(cycles, accepted, drafted, histogram))
    return cycles, accepted, drafted, histogram


def _longest(cycles: int, accepted: int, drafted: int | None, histogram: list[int] | None) -> int:
    """Maximum number of tokens that the last cycle can have accepted."""
    if histogram is not None:
        return max(j for j, n in enumerate(histogram) if n)
    return min(accepted, LONGEST if drafted is None else drafted // cycles)


def _check_length(info: Mapping[str, Any], length: float, cycles: int, accepted: int, longest: int) -> None:
    """Check `length`, tokens of the answer per cycle: prefill and retractions add one each, the end may cut some."""
    retractions = count("num_retractions", info.get("num_retractions") or 0)
    most = cycles + accepted + 1 + retractions
    why = f"{cycles} cycles with {accepted} accepted, one token from the prefill and at most {longest} cut at the end,"
    within(LENGTH[0], length, (cycles + accepted - longest) / cycles, most / cycles, why, EXACT)


def from_metrics(text: str) -> Statistics:
    """Statistics of `/metrics`: gauges of the last batches, and the number of cycles since the server started.

    They have no acceptance rates, because SGLang has no counters of drafted and accepted tokens here. Use `meta_info`.
    """
    metrics, length = Metrics.parse(text), "sglang:spec_accept_length"
    metrics.require("the metrics", [length])
    tau = metrics.gauge(length)
    if not tau:
        raise InputError(f"{length} must be a finite number above 0, got {tau}: nothing has been verified yet")
    nodes = metrics.gauge("sglang:spec_num_draft_tokens")
    if nodes and tau > nodes + EXACT:
        raise InputError(f"{length} is {tau:g}, more than sglang:spec_num_draft_tokens={nodes:g}: pass a single scrape")
    drafts = metrics.counter("sglang:spec_verify_calls")
    sentences = [TOTALS_ONLY, "tau is a gauge of the last batches, not a mean since the start"]
    sentences += metrics.gauge_notes(length)
    return Statistics("SGLang", "metrics", None, tau, drafts or None, None, None, tuple(sentences))


FAMILY_ALGORITHMS = {
    "model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
    "ngram": "NGRAM",
}
"""The algorithm of SGLang for each family of drafts."""


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest envelope, or the fastest chains that the version can run."""
    algorithm = fitting.of_family(FAMILY_ALGORITHMS)
    model = None if algorithm == "NGRAM" else fitting.module if algorithm == "NEXTN" else fitting.model
    if algorithm in ONE_CHAIN:
        chains = fitting.chains(one_length(fitting.longest), f"SGLang takes with {algorithm}, one for all batch sizes")
        made = export(chains.runs, version=version, algorithm=algorithm, model=model)
        return made.after(*fitting.notes(chains))
    by_batch = VERSIONS[version] and algorithm in ADAPTIVE_ALGORITHMS
    if by_batch or len(set(fitting.chain_lengths)) == 1:
        found, notes = fitting.better(at_most(fitting.longest), "SGLang takes by batch size")
    else:
        what = f"SGLang {version} takes with {algorithm}, one length for all batch sizes"
        found, notes = fitting.better(one_length(fitting.longest), what)
    return export(found.runs, version=version, algorithm=algorithm, model=model).after(*notes)


ENGINE = Engine(
    name="sglang",
    title="SGLang",
    versions=VERSIONS,
    parts=3,
    exporter=_fitted,
    readers={
        "sglang-response": lambda text, least: from_meta_info(json_value(text), min_trials=least),
        "sglang-metrics": lambda text, _: from_metrics(text),
        "sglang-bench": lambda text, _: from_bench_speculative(text),
    },
    benchmarks=FORMATS,
    observers={
        "sglang-metrics": Observer(lambda metrics, _: observed_in_metrics(metrics), scraped=True),
        "sglang-log": Observer(lambda text, _: observed_in_log(text)),
    },
    advice=ADVICE,
)
