"""The engines' own controllers with the chains of a planned schedule, by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulate.controllers.sglang import DEFAULTS, sglang
from simulate.controllers.tensorrt_llm import tensorrt_llm
from simulate.controllers.vllm import vllm, vllm_adaptive
from simulate.serving import Controller
from simulate.serving.tiers import Rates, tiers_of
from spectheory import Schedule, Tree
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown

LONGEST_SGLANG = max(step for slot in DEFAULTS.values() for step in slot["candidate_steps"])


def engine_controller(name: str, schedule: Schedule, most_sequences: int) -> Controller:
    """What an engine does with the fastest chains of a schedule.

    - `vllm`: `num_speculative_tokens_per_batch_size` with the chains of the schedule, of the last step's batch size.
    - `vllm-adaptive`: every draft has the longest chain, and the engine chooses in each step how much is verified.
    - `sglang`: the adaptive speculation that SGLang runs without a configuration, from the longest chain on.
    - `trtllm`: `draft_len_schedule` with the chains of the schedule, whose batch sizes are upper bounds.

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


def chain_rates(schedule: Schedule, longest: int) -> list[np.ndarray]:
    """The probabilities that 0, 1, ... tokens of a chain of `longest` are accepted, as the schedule predicts them.

    If the schedule was replayed, they are the probabilities of its longest chain; deeper tokens follow the rates.
    """
    survival = np.append(1.0, schedule.rates.reach(Tree.chain(longest))[1:])
    if schedule.is_replayed:
        replayed = max((tier for tier in tiers_of(schedule) if tier.tree.is_chain), key=lambda tier: tier.tree.budget)
        known = replayed.survival[0]
        if survival[len(known) - 1]:
            survival *= known[-1] / survival[len(known) - 1]
        survival[: len(known)] = known
    survival = np.minimum.accumulate(survival.clip(0, 1))
    return [survival - np.append(survival[1:], 0.0)]


def _vllm(schedule: Schedule, longest: int, rates: Rates, most: int) -> Controller:
    table = [(first, last, tree.budget) for first, last, tree in schedule.chain_ranges()]
    return vllm(table, rates, most, num_speculative_tokens=longest)


def _trtllm(schedule: Schedule, longest: int, rates: Rates, most: int) -> Controller:
    lengths = {last: tree.budget for _, last, tree in schedule.chain_ranges()}
    return tensorrt_llm(longest, rates, most, draft_len_schedule=lengths)


ENGINE_RULES: dict[str, Callable[[Schedule, int, Rates, int], Controller]] = {
    "vllm": _vllm,
    "vllm-adaptive": lambda _, longest, rates, most: vllm_adaptive(longest, rates, most),
    "sglang": lambda _, longest, rates, most: sglang(rates, most, num_steps=longest),
    "trtllm": _trtllm,
}
"""The controllers by name."""
