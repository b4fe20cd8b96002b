"""The run that a load generator has measured: batch, context and seconds of a step, from figures of requests.

A load generator measures requests, not steps. With r requests per second, prompts of i tokens, answers of o tokens and
the mean time per output token t (the first token of an answer excluded), all means over the benchmark:

- Requests that are decoding at a time, by Little's law: r (o - 1) t. This is the batch; it is at least 1, because a
  step has at least one sequence. It is less than the number of open requests, which also wait and are prefilled.
- Tokens in the cache: an answer takes o - 1 steps after the prefill, so i + (o - 2) / 2.
- Seconds: t for a plain step, tau t for a cycle. They contain the time of prefills between the steps or within them, of
  about batch * tau * i / (o - 1) prompt tokens per step, if no prompt is in the prefix cache.

The means contain the begin and the end of the benchmark, with fewer requests.
"""

from __future__ import annotations

from typing import Any

from spectheory.core.errors import InputError
from spectheory.engines.benchmark_file import Entry
from spectheory.engines.report_values import agree
from spectheory.hardware.runs import Conditions, Run, missing_tau

TOGETHER = 1.5
"""If the mean time between two chunks of an answer is this many times the time per token, tokens arrive in groups."""
FIRST_TOKEN = 1.05
"""By this factor a reported tau may exceed depth + 1, because some engines count the token of the prefill too."""
AGREE = 0.01
"""By this share a figure that was given may differ from the figure in the file."""
CONDITIONS = ("tau", "nodes", "depth")
"""The conditions that a benchmark of a server may not say."""
ASSUMED = "the batch is the mean number of requests that are decoding, by Little's law, over the whole benchmark"


def mean_context(prompt: float, steps: float) -> float:
    """Mean tokens in the cache before each of `steps` steps, of one token each, after a prompt."""
    return prompt + max(steps - 1, 0) / 2


def _agreed(where: str, name: str, found: float | None, given: float | None) -> float | None:
    """The figure that the file has or that was given; None if there is neither. Raises InputError if both differ."""
    if found is not None and given is not None and abs(found - given) > AGREE * abs(found):
        raise InputError(f"{where}: {name} is {found:g} in the file, but {given:g} was given: leave it out")
    return given if found is None else found


def served_run(entry: Entry, found: Conditions | None, given: Conditions, **named: Any) -> Run:
    """The run of a result with the fields that the serving benchmarks of vLLM and SGLang have in common.

    `found` is what the file says about speculation, `given` what was given beside it, `named` names the deployment.
    """
    where, completed, duration = entry.where, entry.count("completed", least=1), entry.positive("duration")
    answers, token_seconds = entry.count("total_output_tokens", least=1), entry.positive("mean_tpot_ms") / 1e3
    rate, expected = entry.positive("output_throughput"), answers / duration
    agree(f"{where}: output_throughput", rate, expected, "tokens / duration", AGREE * expected)
    prompt, steps = entry.count("total_input_tokens") / completed, answers / completed - 1
    if steps <= 0:
        raise InputError(f"{where}: answers of {steps + 1:g} tokens have no decoding steps: measure longer answers")
    shape: dict[str, Any] = {}
    if found is None and given == Conditions():
        together = entry.number("mean_itl_ms") / 1e3 / token_seconds if entry.has("mean_itl_ms") else 0.0
        if together > TOGETHER:
            raise InputError(
                f"{where}: the time between two chunks is {together:.2g} times the time per token, as with "
                "speculation, but the file has no tau, and without it the seconds per cycle = batch * tau / throughput "
                "are unknown: give tau and nodes"
            )
    else:
        tau, nodes, depth = (
            _agreed(where, name, getattr(found, name, None), getattr(given, name)) for name in CONDITIONS
        )
        if tau is None:
            raise missing_tau(where)
        if nodes is None:
            raise InputError(
                f"{where}: the file does not say how many nodes are drafted per cycle, or drafts had several sizes: "
                "give nodes, and depth unless the draft is a chain"
            )
        depth = int(nodes if depth is None else depth)
        tau = min(tau, depth + 1) if tau <= FIRST_TOKEN * (depth + 1) else tau
        shape = {"tokens": int(nodes) + 1, "depth": depth, "tau": tau}
    tau, most = shape.get("tau", 1), entry.positive("max_concurrency") if entry.has("max_concurrency") else float("inf")
    batch = max(1.0, min(completed / duration * steps * token_seconds, most))
    return Run(
        "speculative" if shape else "plain",
        batch,
        mean_context(prompt, steps),
        token_seconds * tau,
        **shape,
        prefill_tokens=batch * tau * prompt / steps,
        source=where,
        **named,
    )
