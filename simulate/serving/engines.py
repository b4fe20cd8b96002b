"""The engines' own controllers: how vLLM and SGLang choose the draft length of a step.

vLLM's draft lengths by batch size, `num_speculative_tokens_per_batch_size`: vllm/v1/spec_decode/dynamic/utils.py and
vllm/v1/core/sched/scheduler.py of vLLM 0.32, and docs/features/speculative_decoding/dynamic_speculative_decoding.md
(stored commits 14b450ca and 015a47e1), read 2026-11-22. vLLM ignores the table if data parallel is above 1.

SGLang's adaptive speculation, `--speculative-adaptive` with `--speculative-adaptive-config`:
python/sglang/srt/speculative/adaptive_spec_params.py and adaptive_step_router.py (stored commits 015c8726 and
a12239f6), and docs/advanced_features/adaptive_speculative_decoding.md (369fa46b), read 2026-11-22. The strategy
`throughput_aware`, which scores measured costs, is not simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from simulate.serving.controllers import Controller, Rates, Tier, tiers_of
from simulate.serving.rules import BY_LAST_BATCH, GAP, MOVING_AVERAGE
from spectheory import Acceptance, Schedule, Tree
from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError, unknown

DEFAULTS = {
    "1": {"candidate_steps": [1, 3, 5, 7], "down_hysteresis": -0.25},
    "8": {"candidate_steps": [0, 1, 3], "down_hysteresis": 0.0},
    "32": {"candidate_steps": [0, 1], "down_hysteresis": 0.0},
    "64": {"candidate_steps": [0], "down_hysteresis": 0.0},
}
"""What SGLang uses without a configuration."""
FIELDS: dict[str, Any] = {
    "candidate_steps": (),
    "ema_alpha": 0.2,
    "warmup_batches": 10,
    "update_interval": 5,
    "down_hysteresis": -0.25,
    "up_hysteresis": 0.0,
    "ceiling_coeff": 0.0,
}
"""The fields of a slot with their defaults."""


LONGEST_SGLANG = max(step for slot in DEFAULTS.values() for step in slot["candidate_steps"])


def engine_controller(name: str, schedule: Schedule, most_sequences: int) -> Controller:
    """What an engine does with the fastest chains of a schedule.

    - `vllm`: `num_speculative_tokens_per_batch_size` with the chains of the schedule, of the last step's batch size.
    - `sglang`: the adaptive speculation that SGLang runs without a configuration, from the longest chain on.

    Args:
        name: one of `ENGINE_RULES`.
        schedule: the schedule, whose chains and rates of acceptance are used.
        most_sequences: largest batch size.

    Raises:
        InputError: the name is unknown, or the schedule has no batch size 1.
    """
    if name not in ENGINE_RULES:
        raise InputError(f"controller: {unknown('controller', name, ENGINE_RULES)}")
    longest = max(tree.budget for _, _, tree in schedule.chain_ranges())
    if not longest:
        raise InputError(f"controller {name} needs a schedule with a chain, but this one has none: leave it out")
    return ENGINE_RULES[name](schedule, longest, chain_rates(schedule, max(longest, LONGEST_SGLANG)), most_sequences)


def chain_rates(schedule: Schedule, longest: int) -> Acceptance:
    """The rates of a chain of `longest`, as the schedule predicts them.

    If the schedule was replayed, they are the rates of its longest chain; deeper tokens follow the schedule's rates.
    """
    survival = np.append(1.0, schedule.rates.reach(Tree.chain(longest))[1:])
    if schedule.is_replayed:
        replayed = max((tier for tier in tiers_of(schedule) if tier.tree.is_chain), key=lambda tier: tier.tree.budget)
        known = replayed.survival[0]
        if survival[len(known) - 1]:
            survival *= known[-1] / survival[len(known) - 1]
        survival[: len(known)] = known
    survival = np.minimum.accumulate(survival.clip(0, 1))
    ratios = survival[1:] / np.maximum(survival[:-1], np.finfo(float).tiny)
    return Acceptance.by_depth_and_rank([[ratio] for ratio in ratios.clip(0, 1)])


def vllm(table: Sequence[Sequence[int]], rates: Rates, most_sequences: int) -> Controller:
    """The controller of `num_speculative_tokens_per_batch_size`.

    The scheduler looks up the number of requests of a step, and the worker drafts the number of tokens in the table at
    the end of this step. They are verified in the next one, so a batch size decides with a delay of one step. The rule:

    - An entry `[first, last, length]` holds from the batch size `first` to `last`, both included.
    - A batch size between two entries has the length of the entry before it, and a batch size above all entries
      has the length of the last entry.

    vLLM also counts requests that read their prompts; here a batch is the sequences that decode.

    Args:
        table: the entries; the first one begins at batch size 1, and they do not overlap.
        rates: true rates of acceptance, of all requests or of each class.
        most_sequences: largest batch size, vLLM's `max_num_seqs`.

    Raises:
        InputError: the table is empty, begins above batch size 1, or has an overlap or a number out of range.
    """
    entries = _entries(table)
    starts, lengths = (np.array([entry[place] for entry in entries]) for place in (0, 2))
    sizes = np.arange(1, most_sequences + 1)
    chosen = lengths[np.searchsorted(starts, sizes, side="right") - 1]
    drafted, choice = np.unique(chosen, return_inverse=True)
    table_of_tiers = np.tile(np.append(GAP, choice), (len(drafted), 1))
    return Controller("vllm", chain_tiers(drafted.tolist(), rates), table_of_tiers, BY_LAST_BATCH, memory=np.zeros(2))


def sglang(
    rates: Rates, most_sequences: int, *, num_steps: int = 3, config: Mapping[str, Any] = DEFAULTS
) -> Controller:
    """The controller of adaptive speculation.

    The rule:

    - A batch size belongs to the slot of the largest key that is not above it.
    - A slot drafts one of its `candidate_steps`: `num_steps` at the start if that is one of them, otherwise the middle
      one. Its average starts at one less.
    - After each batch the slot takes the mean number of accepted tokens per request into its moving average, with
      weight `ema_alpha`; not if it drafts nothing. After `warmup_batches` it decides at every `update_interval`.
    - A decision goes down to the next candidate c while the average is at most max(0.5, c - 0.5) + `down_hysteresis`.
      If it did not go down, it goes up from a candidate c while the average is above c - 0.5 + `up_hysteresis`. From 0
      it always goes up by one candidate, to try again.
    - With a `ceiling_coeff` above 0, a decision that does not go up is at most max(1, ceil(average * coefficient)).

    Args:
        rates: true rates of acceptance, of all requests or of each class.
        most_sequences: largest batch size.
        num_steps: `--speculative-num-steps`.
        config: the contents of the configuration file: fields of each smallest batch size, or of all; see `FIELDS`.

    Raises:
        InputError: a slot has no candidates or an unknown field.
    """
    common = {name: value for name, value in config.items() if not is_digits(name)}
    slots: dict[int, dict[str, Any]] = {}
    for key, fields in {name: config[name] for name in config if is_digits(name)}.items() or [("1", {})]:
        slot = {**FIELDS, **common, **fields}
        if wrong := set(slot) - set(FIELDS):
            raise InputError(f"config: {unknown('field', min(wrong), FIELDS)}")
        if not slot["candidate_steps"]:
            raise InputError(f"config must have candidate_steps for each smallest batch size, {key} has none")
        slots[int(key)] = slot | {"candidate_steps": sorted(set(slot["candidate_steps"]))}
    steps = sorted({step for slot in slots.values() for step in slot["candidate_steps"]})
    width = max(len(slot["candidate_steps"]) for slot in slots.values())
    sizes = np.arange(most_sequences + 1)
    by_batch = (np.searchsorted(sorted(slots), sizes, side="right") - 1).clip(0)
    numbers: list[float] = [len(slots), width, len(by_batch), *by_batch]
    memory: list[float] = [0.0]
    for _, slot in sorted(slots.items()):
        candidates = slot["candidate_steps"]
        padding = [0] * (width - len(candidates))
        numbers += [len(candidates), *(slot[name] for name in list(FIELDS)[1:])]
        numbers += [*candidates, *padding, *(steps.index(step) for step in candidates), *padding]
        place = candidates.index(num_steps) if num_steps in candidates else len(candidates) // 2
        memory += [place, candidates[place] - 1, 0]
    table = np.zeros((len(steps), most_sequences + 1), np.int64)
    return Controller("sglang", chain_tiers(steps, rates), table, MOVING_AVERAGE, np.array(numbers), np.array(memory))


def chain_tiers(lengths: Iterable[int], rates: Rates) -> tuple[Tier, ...]:
    """A tier for each length, 0 for no speculation."""
    return tuple(Tier.of(Tree.chain(length), rates) for length in lengths)


def _entries(table: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """The entries in the order of their batch sizes, after a check."""
    found, due = [], 1
    for entry in sorted(map(list, table)):
        if len(entry) != 3 or min(entry) < 0 or entry[0] > entry[1] or entry[0] < due or (due == 1 < entry[0]):
            raise InputError(
                "num_speculative_tokens_per_batch_size must hold entries [first batch, last batch, length] that begin "
                f"at batch size 1 and have no overlap, got {list(entry)!s:.60} after batch size {due - 1}"
            )
        found.append((entry[0], entry[1], entry[2]))
        due = entry[1] + 1
    if not found:
        raise InputError("num_speculative_tokens_per_batch_size must have an entry, got none")
    return found


def _vllm(schedule: Schedule, _: int, rates: Rates, most: int) -> Controller:
    table = [(first, last, tree.budget) for first, last, tree in schedule.chain_ranges()]
    return vllm(table, rates, most)


ENGINE_RULES: dict[str, Callable[[Schedule, int, Rates, int], Controller]] = {
    "vllm": _vllm,
    "sglang": lambda _, longest, rates, most: sglang(rates, most, num_steps=longest),
}
"""The controllers by name."""
