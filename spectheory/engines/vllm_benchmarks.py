"""Files of vLLM's benchmarks: `vllm bench serve --save-result` and `vllm bench latency --output-json`.

The fields are from vllm/benchmarks/serve.py (stored commit 009e6d4a), latency.py (stored commit 00cae075) and
lib/utils.py (stored commit 07bf28ea) of https://github.com/vllm-project/vllm, read 2026-11-22.

serve: `mean_tpot_ms` is the mean over requests of (latency - time to first token) / (output tokens - 1), in
milliseconds; `mean_itl_ms` is the mean time between two chunks of a stream, of tau tokens with speculation. The fields
`spec_decode_*` are differences of the server's counters; `spec_decode_acceptance_length` is 1 + accepted tokens /
drafts. Newer versions write them, and only if the server has speculated.

latency: `latencies` are seconds from a batch of prompts to its last tokens, with one prefill. The file has no sizes.
The file `.pytorch.json`, which vLLM writes beside it with SAVE_TO_PYTORCH_BENCHMARK_FORMAT=1, has all arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from spectheory.core.errors import InputError
from spectheory.engines.benchmark_file import AS_WRITTEN, BenchmarkFormat, Entry, Ignored, each
from spectheory.engines.report_values import within
from spectheory.engines.serving_run import (
    ASSUMED,
    CONDITIONS,
    Served,
    Speculation,
    agreed,
    draft_length,
    mean_context,
    speculation,
)
from spectheory.hardware.runs import Conditions, Run

SHORT_PROMPT = 4
"""The prompts of a batch may have this many times the tokens of one answer: their prefill, of about 1 / 200 of a step
per token on most GPUs, is then at most 2% of the steps."""
SIZES = (*CONDITIONS, "input_tokens", "output_tokens")
"""The conditions that a file of `vllm bench latency` may not say."""
PREFILL = "the prefill takes as long as one step: the file has only the time of both together"


def _served(entry: Entry, conditions: Conditions) -> Run:
    """The run of a result of `vllm bench serve`. See `serving_run` for batch, context and seconds.

    With `--save-detailed` the context is the mean over all decoding steps, otherwise that of requests of the mean
    lengths. The draft is a chain of as many tokens as the server drafted per cycle. Other engines may have been
    measured, so the engine is named only if the backend is vllm, or if vLLM's counters are there.
    """
    chunk_seconds = entry.number("mean_itl_ms") / 1e3 if entry.has("mean_itl_ms") else None
    served = Served.of_totals(entry, context=_detailed_context(entry), chunk_seconds=chunk_seconds)
    found, backend = _counted(entry), entry.text("backend") or entry.text("endpoint_type") or ""
    engine = "vllm" if found is not None or backend.startswith("vllm") else None
    return served.run(found, conditions, model=entry.text("model_id"), engine=engine)


def _counted(entry: Entry) -> Speculation | None:
    """Tau and the chain length by the server's counters; None if it has not speculated."""
    if not entry.has("spec_decode_acceptance_length"):
        return None
    tau = entry.number("spec_decode_acceptance_length", least=1)
    if not entry.has("spec_decode_num_drafts") or not entry.has("spec_decode_draft_tokens"):
        return Speculation(tau)
    drafts, drafted = entry.count("spec_decode_num_drafts", least=1), entry.count("spec_decode_draft_tokens", least=1)
    if entry.has("spec_decode_accepted_tokens"):
        accepted = entry.count("spec_decode_accepted_tokens")
        expected = 1 + accepted / drafts
        within(f"{entry.where}: spec_decode_acceptance_length", tau, expected, expected, "1 + accepted / drafts", 0.01)
    return Speculation(tau, draft_length(drafted / drafts))


def _detailed_context(entry: Entry) -> float | None:
    """Mean context over all decoding steps; None if the file does not have the lengths of single requests."""
    if not isinstance(entry.data.get("input_lens"), list) or not isinstance(entry.data.get("output_lens"), list):
        return None
    prompts, answers = (entry.counts(name) for name in ("input_lens", "output_lens"))
    if len(prompts) != len(answers):
        raise InputError(
            f"{entry.where}: input_lens and output_lens must be equally long, got {len(prompts)} and {len(answers)}: "
            f"{AS_WRITTEN}"
        )
    requests = [(prompt, answer - 1) for prompt, answer in zip(prompts, answers, strict=True) if answer > 1]
    steps = sum(step for _, step in requests)
    return sum(step * mean_context(prompt, step) for prompt, step in requests) / steps if steps else None


def _latency(entry: Entry, conditions: Conditions) -> Run:
    """The run of `vllm bench latency`, whose file has no sizes: batch, input_tokens and output_tokens must be given.

    The seconds are the median latency, divided by the number of steps: one prefill and output_tokens - 1 steps, of tau
    tokens with speculation. Long prompts are refused, because their prefill would count as steps.
    """
    times = entry.numbers("latencies") or [entry.positive("avg_latency")]
    return _latency_run(entry.where, times, conditions, None, {})


def _latency_with_arguments(entry: Entry, conditions: Conditions) -> Run | Ignored:
    """The run of `vllm bench latency` in its `.pytorch.json`, as `_latency`, with the sizes in the file."""
    metric, arguments = entry.inside("metric"), entry.inside("benchmark", "extra_info", "args")
    if metric.text("name") != "latency":
        return Ignored(f"{entry.where} has the metric {metric.text('name')}, not latency")
    copies = arguments.count("n", least=1) if arguments.has("n") else 1
    batch = arguments.count("batch_size", least=1) * copies
    prompt, answer = arguments.count("input_len"), arguments.count("output_len", least=1)
    for name, size in (("batch", batch), ("input_tokens", prompt), ("output_tokens", answer)):
        agreed(entry.where, name, size, getattr(conditions, name))
    config = arguments.inside("speculative_config")
    drafted = config.count("num_speculative_tokens", least=1) if config.has("num_speculative_tokens") else None
    named = {
        "model": arguments.text("model"),
        "draft": config.text("model"),
        "gpus": arguments.count("tensor_parallel_size", least=1) if arguments.has("tensor_parallel_size") else None,
        "quantisation": arguments.text("quantization"),
        "kv_dtype": arguments.text("kv_cache_dtype"),
    }
    given = replace(conditions, batch=batch, input_tokens=prompt, output_tokens=answer)
    found = Speculation(nodes=drafted) if arguments.has("speculative_config") else None
    return _latency_run(entry.where, metric.numbers("benchmark_values"), given, found, named)


def _latency_run(
    where: str, times: Sequence[float], sizes: Conditions, found: Speculation | None, named: dict[str, Any]
) -> Run:
    if not times:
        raise InputError(f"{where} has no latencies: {AS_WRITTEN}")
    if sizes.batch is None or sizes.input_tokens is None or sizes.output_tokens is None:
        raise InputError(
            f"{where}: the file of vllm bench latency does not say its sizes: give batch, input_tokens and "
            "output_tokens, the values of --batch-size, --input-len and --output-len"
        )
    prompts, steps = sizes.batch * sizes.input_tokens, sizes.output_tokens - 1
    if steps < 1 or prompts > SHORT_PROMPT * sizes.output_tokens:
        raise InputError(
            f"{where}: {prompts:g} tokens of prompts are too many for answers of {sizes.output_tokens:g} tokens, so "
            "the latency contains more than the decoding: repeat it with a shorter --input-len or a longer --output-len"
        )
    known = speculation(where, found, sizes)
    tokens, depth, tau = (1, 0, None) if known is None else known.shape(where, sizes)
    return Run(
        "plain" if known is None else "speculative",
        sizes.batch,
        mean_context(sizes.input_tokens, steps),
        median(times) / (1 + steps / (tau or 1)),
        tokens=tokens,
        depth=depth,
        tau=tau,
        engine="vllm",
        source=where,
        **named,
    )


FORMATS = {
    "vllm-serve": BenchmarkFormat(
        ("model_id", "mean_tpot_ms", "total_output_tokens"), each(_served, ASSUMED), CONDITIONS
    ),
    "vllm-latency": BenchmarkFormat(("avg_latency", "latencies"), each(_latency, PREFILL), SIZES),
    "vllm-latency-arguments": BenchmarkFormat(
        ("benchmark", "metric", "model"), each(_latency_with_arguments, PREFILL), SIZES
    ),
}
"""The formats of vLLM's benchmarks, by name."""
