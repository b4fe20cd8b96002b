"""SGLang's adaptive speculation, `--speculative-adaptive` with `--speculative-adaptive-config`.

Source: python/sglang/srt/speculative/adaptive_spec_params.py and adaptive_step_router.py (stored commits 015c8726 and
a12239f6), and docs/advanced_features/adaptive_speculative_decoding.md (369fa46b), read 2026-11-22. The strategy
`throughput_aware`, which scores measured costs, is not simulated: `spectheory tune` does the same from a latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simulate.controllers.chains import chain_tiers
from simulate.serving import Controller
from simulate.serving.moving_average import HEADER
from simulate.serving.rules import MOVING_AVERAGE
from simulate.serving.tiers import Rates
from spectheory.core.checks import check_probabilities, check_whole, is_digits
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown

DEFAULTS = {
    "1": {"candidate_steps": [1, 3, 5, 7], "down_hysteresis": -0.25},
    "8": {"candidate_steps": [0, 1, 3], "down_hysteresis": 0.0},
    "32": {"candidate_steps": [0, 1], "down_hysteresis": 0.0},
    "64": {"candidate_steps": [0], "down_hysteresis": 0.0},
}
"""What SGLang uses without a configuration."""
FIELDS = {
    "candidate_steps": None,
    "ema_alpha": 0.2,
    "warmup_batches": 10,
    "update_interval": 5,
    "down_hysteresis": -0.25,
    "up_hysteresis": 0.0,
    "ceiling_coeff": 0.0,
}
"""The fields of a slot with their defaults."""


def sglang(
    rates: Rates,
    most_sequences: int,
    *,
    num_steps: int = 3,
    config: Mapping[str, Any] | None = None,
    graph_batches: Sequence[int] = (),
) -> Controller:
    """The controller of adaptive speculation.

    The rule:

    - A batch size is rounded up to the next one with a CUDA graph, if there is any, and belongs to the slot of the
      largest key that is not above it. A configuration without keys of batch sizes has one slot.
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
        config: the contents of the configuration file; None is SGLang's own.
        graph_batches: batch sizes with CUDA graphs; batches above them are not rounded.

    Raises:
        InputError: the configuration has no candidates, an unknown field, or a number out of range.
    """
    slots = _slots(DEFAULTS if config is None else config)
    steps = sorted({step for slot in slots.values() for step in slot["candidate_steps"]})
    width = max(len(slot["candidate_steps"]) for slot in slots.values())
    keys, graphs = np.array(sorted(slots)), np.array(sorted(graph_batches))
    sizes = np.arange(most_sequences + 1)
    if graphs.size:
        after = np.searchsorted(graphs, sizes)
        sizes = np.where(after < len(graphs), graphs[after.clip(0, len(graphs) - 1)], sizes)
    by_batch = (np.searchsorted(keys, sizes, side="right") - 1).clip(0)
    numbers: list[float] = [len(slots), width, len(by_batch), *by_batch]
    memory: list[float] = [0.0]
    for key in sorted(slots):
        slot = slots[key]
        candidates = slot["candidate_steps"]
        padding = [0] * (width - len(candidates))
        numbers += [len(candidates), *(slot[name] for name in list(FIELDS)[1:])]
        numbers += [*candidates, *padding, *(steps.index(step) for step in candidates), *padding]
        place = candidates.index(num_steps) if num_steps in candidates else len(candidates) // 2
        memory += [place, candidates[place] - 1, 0]
    assert len(numbers) == HEADER + len(by_batch) + len(slots) * (len(FIELDS) + 2 * width)
    table = np.zeros((len(steps), most_sequences + 1), np.int64)
    return Controller("sglang", chain_tiers(steps, rates), table, MOVING_AVERAGE, np.array(numbers), np.array(memory))


def _slots(config: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The slots by their smallest batch size, each with all fields."""
    if not isinstance(config, Mapping):
        raise InputError(f"config must be a dictionary, as in the configuration file, got {config!r:.60}")
    if config.get("strategy", "ema") != "ema":
        raise InputError(f"strategy must be 'ema', got {config['strategy']!r:.60}: only 'ema' is simulated")
    keys = [key for key in config if is_digits(key)]
    common = {name: value for name, value in config.items() if name not in keys and name != "strategy"}
    entries = {int(key): config[key] for key in keys} or {1: {}}
    return {key: _slot(key, {**common, **entry}) for key, entry in entries.items()}


def _slot(key: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a slot, after a check."""
    check_whole("a batch size of config", key, 1)
    for name in entry:
        if name not in FIELDS:
            raise InputError(f"config: {unknown('field', str(name), FIELDS)}")
    slot = {**FIELDS, **entry}
    candidates = slot["candidate_steps"]
    if not isinstance(candidates, list | tuple) or not candidates:
        raise InputError(f"candidate_steps of batch size {key} must be a list of lengths, got {candidates!r:.60}")
    for step in candidates:
        check_whole(f"candidate_steps of batch size {key}", step, 0)
    check_probabilities(ema_alpha=slot["ema_alpha"])
    check_whole("warmup_batches", slot["warmup_batches"], 0)
    check_whole("update_interval", slot["update_interval"], 1)
    return slot | {"candidate_steps": sorted(set(candidates))}
