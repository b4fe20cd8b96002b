"""The run that a load generator has measured: batch, context and seconds of a step, from figures of requests.

A load generator measures requests, not steps. With r requests per second, prompts of i tokens, answers of o tokens and
the mean time per output token t (the first token of an answer excluded), all means over the benchmark:

- Requests that are decoding at a time, by Little's law: r (o - 1) t. This is the batch; it is at least 1, because a
  step has at least one sequence. It is less than the number of open requests, which also wait and are prefilled.
- Tokens in the cache: an answer takes o - 1 steps after the prefill, so i + (o - 2) / 2.
- Seconds: t for a plain step, tau t for a cycle. They contain the time of prefills between the steps or within them, of
  about batch * tau * i / (o - 1) prompt tokens per step, if no prompt is in the prefix cache.

The means are over the whole benchmark, so they contain its begin and its end, with fewer requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from spectheory.core.errors import InputError
from spectheory.engines.benchmark_file import Entry
from spectheory.engines.report_values import within
from spectheory.hardware.runs import Conditions, Run, missing_tau

EXCESS = 1.1
"""By this factor the batch may exceed the largest concurrency, because a mean of quotients is not exact."""
TOGETHER = 1.5
"""If the mean time between two chunks of an answer is this many times the time per token, tokens arrive in groups."""
FIRST_TOKEN = 1.05
"""By this factor a reported tau may exceed depth + 1, because some engines count the token of the prefill too."""
WHOLE = 0.1
"""The mean number of drafted tokens per cycle may differ by this from a whole number; ends of answers cut drafts."""
AGREE = 0.01
"""By this share a figure that was given may differ from the figure in the file."""
CONDITIONS = ("batch", "speculative", "tau", "nodes", "depth")
"""The conditions that a benchmark of a server may not say."""
ASSUMED = "the batch is the mean number of requests that are decoding, by Little's law, over the whole benchmark"


def mean_context(prompt: float, steps: float) -> float:
    """Mean tokens in the cache before each of `steps` steps, of one token each, after a prompt."""
    return prompt + max(steps - 1, 0) / 2


def draft_length(mean: float) -> int | None:
    """The length of drafts with this mean; None if drafts had several lengths."""
    return round(mean) if round(mean) and abs(mean - round(mean)) <= WHOLE else None


@dataclass(frozen=True)
class Speculation:
    """What a file says about speculation.

    Attributes:
        tau: mean tokens per cycle, or None.
        nodes: drafted nodes per cycle, the root excluded, or None.
        depth: levels of the tree, or None.
    """

    tau: float | None = None
    nodes: int | None = None
    depth: int | None = None

    def shape(self, where: str, conditions: Conditions) -> tuple[int, int, float]:
        """Tokens of a sequence in the forward, depth and tau.

        Raises:
            InputError: a figure is neither in the file nor given, or both differ.
        """
        tau = agreed(where, "tau", self.tau, conditions.tau)
        nodes = agreed(where, "nodes", self.nodes, conditions.nodes)
        depth = agreed(where, "depth", self.depth, conditions.depth)
        if tau is None:
            raise missing_tau(where)
        if nodes is None:
            raise InputError(
                f"{where}: the file does not say how many nodes are drafted per cycle, or drafts had several sizes: "
                "give nodes, and depth unless the draft is a chain"
            )
        nodes = int(nodes)
        depth = nodes if depth is None else int(depth)
        return nodes + 1, depth, min(tau, depth + 1) if tau <= FIRST_TOKEN * (depth + 1) else tau


def speculation(where: str, found: Speculation | None, conditions: Conditions) -> Speculation | None:
    """What is known about speculation; None for plain decoding.

    Raises:
        InputError: the file says that the engine speculated, and the conditions say that it did not.
    """
    if conditions.speculative is False:
        if found is not None:
            raise InputError(
                f"{where}: the file has figures of speculation, but speculative=False was given: leave it out"
            )
        return None
    given = (conditions.speculative, conditions.tau, conditions.nodes, conditions.depth)
    return found or (Speculation() if any(value is not None for value in given) else None)


def agreed(where: str, name: str, found: float | None, given: float | None) -> float | None:
    """The figure that the file has or that was given; None if there is neither.

    Raises:
        InputError: both are there and differ.
    """
    if found is not None and given is not None and abs(found - given) > AGREE * abs(found):
        raise InputError(f"{where}: {name} is {found:g} in the file, but {given:g} was given: leave it out")
    return given if found is None else found


@dataclass(frozen=True)
class Served:
    """The mean figures of one benchmark of a server.

    Attributes:
        where: the file and the entry.
        token_seconds: mean time per output token, the first token of an answer excluded.
        requests_per_second: completed requests per second.
        input_tokens: mean tokens of a prompt.
        output_tokens: mean tokens of an answer.
        context: mean tokens in the cache over all decoding steps; None to take that of a request of the mean lengths.
        concurrency: largest number of open requests, or None.
        chunk_seconds: mean time between two chunks of an answer, or None if it cannot be told from `token_seconds`.
    """

    where: str
    token_seconds: float
    requests_per_second: float
    input_tokens: float
    output_tokens: float
    context: float | None = None
    concurrency: float | None = None
    chunk_seconds: float | None = None

    @classmethod
    def of_totals(cls, entry: Entry, *, context: float | None = None, chunk_seconds: float | None = None) -> Self:
        """The figures of a result with the fields that the serving benchmarks of vLLM and SGLang have in common.

        Raises:
            InputError: a field is missing or impossible, or the throughput contradicts tokens and duration.
        """
        completed, seconds = entry.count("completed", least=1), entry.positive("duration")
        prompts, answers = entry.count("total_input_tokens"), entry.count("total_output_tokens", least=1)
        rate, expected = entry.positive("output_throughput"), answers / seconds
        within(f"{entry.where}: output_throughput", rate, expected, expected, "tokens / duration", AGREE * expected)
        return cls(
            entry.where,
            token_seconds=entry.positive("mean_tpot_ms") / 1e3,
            requests_per_second=completed / seconds,
            input_tokens=prompts / completed,
            output_tokens=answers / completed,
            context=context,
            concurrency=entry.positive("max_concurrency") if entry.has("max_concurrency") else None,
            chunk_seconds=chunk_seconds,
        )

    def run(self, found: Speculation | None, conditions: Conditions, **named: Any) -> Run:
        """The run that was measured; `named` are the names of the deployment.

        Raises:
            InputError: nothing was decoded, the figures contradict each other, or the file does not have all figures of
                a speculative run.
        """
        steps = self.output_tokens - 1
        if steps <= 0:
            raise InputError(
                f"{self.where}: answers of {self.output_tokens:g} tokens have no decoding steps: repeat the benchmark "
                "with longer answers"
            )
        known = speculation(self.where, found, conditions)
        if known is None:
            self._require_single_tokens(conditions)
            kind, tokens, depth, tau = "plain", 1, 0, None
        else:
            kind, (tokens, depth, tau) = "speculative", known.shape(self.where, conditions)
        batch = self._batch(steps) if conditions.batch is None else conditions.batch
        return Run(
            kind,
            batch,
            mean_context(self.input_tokens, steps) if self.context is None else self.context,
            self.token_seconds * (tau or 1),
            tokens=tokens,
            depth=depth,
            tau=tau,
            prefill_tokens=batch * (tau or 1) * self.input_tokens / steps,
            source=self.where,
            **named,
        )

    def _batch(self, steps: float) -> float:
        """Mean number of requests that are decoding, at least 1."""
        batch = self.requests_per_second * steps * self.token_seconds
        if self.concurrency is None:
            return max(1.0, batch)
        if batch > EXCESS * self.concurrency:
            raise InputError(
                f"{self.where}: by throughput and time per token {batch:.3g} requests are decoding at a time, but the "
                f"concurrency is {self.concurrency:g}: these contradict each other, pass figures of one benchmark"
            )
        return max(1.0, min(batch, self.concurrency))

    def _require_single_tokens(self, conditions: Conditions) -> None:
        """Check that tokens arrive one by one, as without speculation."""
        together = (self.chunk_seconds or 0) / self.token_seconds
        if together > TOGETHER and conditions.speculative is None:
            raise InputError(
                f"{self.where}: the time between two chunks is {together:.2g} times the time per token, as with "
                "speculation, but the file has no tau, and without it the seconds per cycle = batch * tau / throughput "
                "are unknown: give tau and nodes, or speculative=False if the engine decoded plainly"
            )
