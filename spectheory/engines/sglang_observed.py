"""SGLang servers as `Observed`, from `/metrics` or the log, and what to change in SGLang.

The names are from sglang/srt/observability and the scheduler's log of 0.5.x, read 2026-11-23. The sum of
`sglang:inter_token_latency_seconds` is seconds and its count is tokens, so its mean is the time per token, also with
speculation. The throughput of a line `Decode batch` is the tokens since the previous such line by the time since then.
"""

from __future__ import annotations

import re

from spectheory.core.errors import InputError
from spectheory.engines.observed import Advice, Observed, nothing_decoded
from spectheory.engines.prometheus import Metrics
from spectheory.engines.statistics import Statistics

LATENCY = ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds")
LENGTH = "sglang:spec_accept_length"
_RUNNING = r"#running-req:\s*(\d+)"
_RATE = r"gen throughput \(token/s\):\s*([\d.]+)"
_LENGTH = r"accept len:\s*([\d.]+)"
_SHARE = r"accept rate:\s*([\d.]+)"
BETWEEN = "the time of a step contains prompts that are read between two steps"


def observed_in_metrics(metrics: Metrics) -> Observed:
    """A model in a scrape, or in the difference of two. tau and the batch are gauges, in the mean of the scrapes.

    Raises:
        InputError: the server generated nothing.
    """
    seconds = metrics.mean(*LATENCY)
    if seconds is None:
        metrics.require("the metrics", [f"{name}_count" for name in LATENCY])
        raise nothing_decoded("sglang-metrics")
    tau, counted = metrics.gauge(LENGTH) or 1.0, metrics.gauge("sglang:spec_num_draft_tokens")
    if tau < 1:
        raise InputError(
            f"{LENGTH} must be at least 1, or 0 without speculation, got {tau:g}: pass scrapes as they are"
        )
    speculating = tau > 1 or bool(counted)
    gauges = "tau and the batch are gauges of the last batches" + ", in the mean of two scrapes" * metrics.subtracted
    return Observed(
        "SGLang",
        "sglang-metrics",
        statistics=Statistics("SGLang", "metrics", None, tau, None, None, None) if speculating else None,
        tau=tau,
        nodes=(counted - 1 if counted else None) if speculating else 0.0,
        depth=None if speculating else 0,
        batch=metrics.gauge("sglang:num_running_reqs") or None,
        step_seconds=seconds * tau,
        prompt_tokens=metrics.quotient("sglang:prompt_tokens", "sglang:num_requests"),
        cached_share=metrics.quotient("sglang:cached_tokens", "sglang:prompt_tokens") or 0.0,
        output_tokens=metrics.quotient("sglang:generation_tokens", "sglang:num_requests"),
        notes=(gauges, BETWEEN),
    )


def observed_in_log(text: str) -> Observed:
    """A server by its lines `Decode batch`.

    Raises:
        InputError: there is no such line in which requests ran.
    """
    rows = []
    for line in text.splitlines():
        running, rate = re.search(_RUNNING, line), re.search(_RATE, line)
        if running and rate and int(running[1]) and float(rate[1]):
            length, share = re.search(_LENGTH, line), re.search(_SHARE, line)
            tau = max(float(length[1]), 1.0) if length else 1.0
            drafted = (tau - 1) / float(share[1]) if share and float(share[1]) else None
            rows.append((int(running[1]), float(rate[1]), tau, drafted))
    if not rows:
        raise nothing_decoded("sglang-log")
    cycles = sum(rate / tau for _, rate, tau, _ in rows)
    speculating = _LENGTH[:10] in text
    shapes = [drafted for *_, drafted in rows if drafted is not None]
    tau = sum(rate for _, rate, *_ in rows) / cycles
    return Observed(
        "SGLang",
        "sglang-log",
        statistics=Statistics("SGLang", "log", None, tau, None, None, None) if speculating else None,
        tau=tau,
        nodes=(sum(shapes) / len(shapes) if shapes else None) if speculating else 0.0,
        depth=None if speculating else 0,
        batch=sum(running for running, *_ in rows) / len(rows),
        step_seconds=sum(running for running, *_ in rows) / cycles,
        notes=(f"{len(rows)} lines of the log are read", BETWEEN),
    )


ADVICE = Advice(
    length="--speculative-num-steps {length} --speculative-eagle-topk 1 --speculative-num-draft-tokens {nodes}",
    causes={
        "acceptance": "check that the draft was made for this target, its chat template and its context length, and "
        "that --speculative-token-map does not leave out tokens of your language",
        "draft": "fewer --speculative-num-steps, or a head (EAGLE3, NEXTN) instead of STANDALONE",
        "verification": "fewer --speculative-num-draft-tokens; for a mixture of experts, verification reads the "
        "experts of every token",
        "batch": "--speculative-adaptive with a --speculative-adaptive-config whose large batch sizes have "
        '"candidate_steps": [0], or a lower --max-running-requests',
        "overhead": "check that CUDA graphs cover the batch (--cuda-graph-max-bs; the log says `cuda graph: True`) and "
        "that --disable-overlap-schedule is not set",
    },
)
