"""`StepTimes`: the seconds of a step of an engine, by tier, batch size, context and tokens of prompts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulate.serving.controllers import Tier
from spectheory import Deployment, Latency, Schedule
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.hardware.roofline import RooflineInputs

LARGEST_KV = 10**9
"""Most tokens of KV memory; a cache that does not grow with the context holds as many."""
GROWTH = 1.1
"""Ratio of neighbouring batch sizes at which steps are computed, beyond the first `DENSE` ones."""
DENSE = 16
FEW_CONTEXTS = (0, 1024, 8192)
SAME = 1e-6
"""Relative difference of two times that are the same."""
FEWEST_PROMPT_TOKENS = 32
"""The least number of prompt tokens above 0 for which steps are timed; the other ones double up to the budget."""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """The latencies of an engine, by batch size and context.

    A step of `batch` sequences that decode is a cycle of its tier, timed by the latency of this batch size. Tokens of
    prompts that it reads are more tokens in its target forward: with p of them it has batch * (drafted + 1) + p tokens,
    spread evenly over the sequences. If any tier drafts with a model, the draft reads the same tokens in one forward.
    A step that only reads prompts has the times of batch size 1, after the tokens of the prompt that are read already.

    Between the batch sizes, the contexts and a few numbers of prompt tokens, seconds are interpolated linearly.

    Attributes:
        batches: (B,) int64, increasing batch sizes from 1 on.
        contexts: (C,) float64, increasing numbers of tokens in the cache of a sequence. Outside of them the nearest one
            is used.
        latencies: for each batch size the latency for each context.
        kv_tokens: tokens that fit into the memory that the weights leave; None if that is not known.

    Raises:
        InputError: the batch sizes do not start at 1 or do not increase, or a latency is missing.
    """

    batches: np.ndarray
    contexts: np.ndarray
    latencies: tuple[tuple[Latency, ...], ...]
    kv_tokens: int | None = None

    def __post_init__(self) -> None:
        batches, contexts = np.asarray(self.batches), np.asarray(self.contexts, np.float64)
        if not batches.size or batches[0] != 1 or (np.diff(batches) <= 0).any():
            raise InputError(
                f"batches must increase from 1 on, got {batches.tolist()!s:.60}: the times of the smaller batch sizes "
                "are needed too, as in `spectheory schedule --batch 1:64`"
            )
        object.__setattr__(self, "batches", batches.astype(np.int64))
        object.__setattr__(self, "contexts", contexts)

    @classmethod
    def of(cls, source: Schedule | Latency) -> StepTimes:
        """The times in a schedule or a latency.

        A schedule has times at one context. If a roofline computes the same times from the GPU, the models and the
        engine that the schedule names, it computes those at other contexts too. Otherwise, as with measured times or
        calibrated costs, steps take the same time at every context. A latency knows one batch size, which
        must be 1, and then serves one sequence at a time.
        """
        if isinstance(source, Schedule):
            place = _place_of(source)
            if place is not None:
                return cls.computed(place, most_sequences=int(source.batches[-1]))
            return cls.by_batch(source.batches, source.latencies)
        return cls.by_batch([source.batch], [source])

    @classmethod
    def by_batch(cls, batches: Sequence[int] | np.ndarray, latencies: Sequence[Latency]) -> StepTimes:
        """The times of one latency for each batch size, at the contexts that they have."""
        contexts = np.unique(np.concatenate([latency.contexts for latency in latencies]))
        rows = tuple((latency,) * len(contexts) for latency in latencies)
        return cls(np.asarray(batches), contexts, rows)

    @classmethod
    def computed(
        cls, deployment: Deployment, *, most_sequences: int = 256, contexts: Iterable[int] | None = None
    ) -> StepTimes:
        """The times of a deployment at several contexts, by a roofline, and the KV memory that its weights leave.

        Its lengths are not used: the simulation has the lengths of each request, and reads their prompts itself. Batch
        sizes and contexts that do not fit into memory together are timed all the same, because only the mean context
        of a step counts; `kv_tokens` bounds their sum.

        Args:
            deployment: the models on their GPUs.
            most_sequences: largest batch size.
            contexts: contexts at which steps are timed; None is from 0 to the longest one that fits.

        Raises:
            InputError: the models do not fit into memory with one sequence of each context, see `Latency.roofline`, or
                the times are measured.
        """
        check_whole("most_sequences", most_sequences, 1)
        place = replace(deployment, prompt_tokens=None, output_tokens=None)
        empty = _inputs(replace(place, context=0).latency(1))
        kv_tokens, batches = kv_tokens_of(empty), growing(1, most_sequences, GROWTH, dense=DENSE)
        longest = min(kv_tokens, *(one.longest_context or kv_tokens for one in (empty.target, empty.draft) if one))
        grid = sorted({min(context, longest) for context in (*FEW_CONTEXTS, longest)} if contexts is None else contexts)
        single = [replace(place, context=context).latency(1) for context in grid]
        inputs = [_inputs(latency) for latency in single]
        rows = [
            tuple(_at_batch(latency, place, batch) for latency, place in zip(single, inputs, strict=True))
            for batch in batches
        ]
        return cls(np.array(batches), np.array(grid), tuple(rows), kv_tokens)

    @property
    def largest_batch(self) -> int:
        """The largest batch size with times."""
        return int(self.batches[-1])

    def table(
        self, tiers: Sequence[Tier], largest: int, batched_tokens: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The seconds of steps.

        Args:
            tiers: what a step can run.
            largest: largest number of sequences that decode.
            batched_tokens: most tokens of prompts in a step.

        Returns:
            Seconds (tiers, largest + 1, contexts, prompts), where batch size 0 only reads prompts; the contexts; and
            the numbers of prompt tokens.

        Raises:
            InputError: there are no times for `largest` sequences.
        """
        if largest > self.largest_batch:
            raise InputError(
                f"max_sequences must be at most {self.largest_batch}, the largest batch size with times, got "
                f"{largest}: time larger batch sizes, or admit fewer sequences"
            )
        prompts = np.array([0, *growing(FEWEST_PROMPT_TOKENS, batched_tokens, 2.0), batched_tokens])
        prompts = np.unique(prompts[prompts <= batched_tokens])
        used = self.batches[: int(np.searchsorted(self.batches, largest)) + 1]
        drafting = any(tier.tree.budget for tier in tiers)
        cycles = list(zip(used.tolist(), self.latencies, strict=False))
        timed = np.array(
            [
                [_by_context(row, self.contexts, tier, batch, prompts, drafting) for batch, row in cycles]
                for tier in tiers
            ]
        )
        alone = [
            _prompts(latency, int(context), prompts, drafting)
            for latency, context in zip(self.latencies[0], self.contexts, strict=True)
        ]
        seconds = np.empty((len(tiers), largest + 1, len(self.contexts), len(prompts)))
        seconds[:, 0] = np.array(alone)
        sizes = np.arange(1, largest + 1)
        before = (np.searchsorted(used, sizes, side="right") - 1).clip(0, max(len(used) - 2, 0))
        after = np.minimum(before + 1, len(used) - 1)
        share = (sizes - used[before]) / np.maximum(used[after] - used[before], 1)
        weight = share[None, :, None, None]
        seconds[:, 1:] = timed[:, before] * (1 - weight) + timed[:, after] * weight
        return seconds, self.contexts, prompts.astype(np.float64)


def _by_context(
    row: Sequence[Latency], contexts: np.ndarray, tier: Tier, batch: int, prompts: np.ndarray, drafting: bool
) -> np.ndarray:
    """(contexts, prompts) seconds of the cycles of a tier at a batch size."""
    timed = zip(row, contexts, strict=True)
    return np.array([_cycles(latency, tier, batch, int(context), prompts, drafting) for latency, context in timed])


def _cycles(latency: Latency, tier: Tier, batch: int, context: int, prompts: np.ndarray, drafting: bool) -> np.ndarray:
    """Seconds of a cycle of `batch` sequences that reads each number of prompt tokens besides."""
    tokens = tier.tree.budget + 1
    base = latency.cycle(tier.tree, context, tier.verifier) - latency.target(tokens, context)
    more = latency._at(latency.target_seconds, tokens + prompts / batch, context)
    if drafting:
        more += latency._at(latency.draft_seconds, 1 + prompts / batch, context) - latency.draft(1, context)
    return base + more


def _prompts(latency: Latency, context: int, prompts: np.ndarray, drafting: bool) -> np.ndarray:
    """Seconds of a step that only reads prompts."""
    read = np.maximum(prompts, 1)
    seconds = latency._at(latency.target_seconds, read, context) + latency.plain_overhead_seconds
    return seconds + latency._at(latency.draft_seconds, read, context) if drafting else seconds


def growing(first: int, last: int, ratio: float, *, dense: int = 0) -> list[int]:
    """Whole numbers from `first` to `last`, each about `ratio` times the one before, of the first `dense` ones all.

    >>> growing(1, 23, 1.2, dense=4)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19, 22, 23]
    """
    found = [first]
    while found[-1] < last:
        at = found[-1]
        found.append(min(last, at + 1 if len(found) < dense else max(at + 1, int(at * ratio))))
    return found


def kv_tokens_of(inputs: RooflineInputs) -> int:
    """The number of tokens whose KV caches fit into the memory that the weights leave on the GPUs."""
    offered = inputs.place.costs.memory_share * inputs.place.gpu.memory_bytes

    def misses(tokens: int) -> bool:
        place = replace(inputs.place, batch=1, context=tokens)
        return place.memory_needed(inputs.target, inputs.draft) > offered

    return bisect_left(range(1, LARGEST_KV), True, key=misses)


def _place_of(source: Schedule) -> Deployment | None:
    """The deployment that the provenance of a schedule names, if it gives the times that the schedule has."""
    stamp = source.latencies[0].provenance
    engine = stamp.settings.get("engine")
    if stamp.gpu is None or stamp.target is None or stamp.draft is None or not isinstance(engine, str):
        return None
    try:
        place = Deployment(
            stamp.gpu, stamp.target, stamp.draft, gpus=stamp.gpus or 1, context=source.context, engine=engine
        )
        found = [place.latency(int(source.batches[at])) for at in (0, -1)]
    except InputError:
        return None
    same = all(
        one.inputs is not None
        and one.drafting == planned.drafting
        and np.shape(one.target_seconds) == np.shape(planned.target_seconds)
        and np.allclose(one.target_seconds, planned.target_seconds, rtol=SAME, atol=0)
        for one, planned in zip(found, (source.latencies[0], source.latencies[-1]), strict=True)
    )
    return place if same and source.batches[0] == 1 else None


def _inputs(latency: Latency) -> RooflineInputs:
    if latency.inputs is None:
        raise InputError(
            "times at several contexts and the KV memory are computed by a roofline, but these times are measured: use "
            "StepTimes.by_batch with the measured records, or a deployment without measured records"
        )
    return latency.inputs


def _at_batch(latency: Latency, inputs: RooflineInputs, batch: int) -> Latency:
    """The latency of another batch size, whether or not that fits into memory."""
    stamp = latency.provenance.replace(batch=batch)
    return replace(latency, inputs=None, provenance=stamp, **inputs.at(batch).seconds(latency.tokens.tolist()))
