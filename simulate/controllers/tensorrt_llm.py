"""TensorRT-LLM's draft lengths by batch size, `draft_len_schedule`; its `max_concurrency`; and its acceptance gate.

Source: tensorrt_llm/_torch/speculative/drafter.py (stored commit 1ff19bbc and later versions), utils.py
(`get_draft_len_for_batch_size`), speculation_gate.py (41080dc5), and tensorrt_llm/llmapi/llm_args.py, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulate.controllers.chains import by_length
from simulate.serving import Controller
from simulate.serving.controllers import BY_TABLE
from simulate.serving.rules import ACCEPTANCE_GATE
from simulate.serving.tiers import Rates
from spectheory.core.checks import check_not_negative, check_whole
from spectheory.core.errors import InputError
from spectheory.engines.engine import release
from spectheory.engines.tensorrt_llm import VERSIONS


def tensorrt_llm(
    max_draft_len: int,
    rates: Rates,
    most_sequences: int,
    *,
    version: str = "1.4",
    draft_len_schedule: Mapping[int, int] | None = None,
    max_concurrency: int | None = None,
    max_num_tokens: int | None = None,
    acceptance_window: int = 0,
    acceptance_length_threshold: float = 0.0,
) -> Controller:
    """The controller of a `speculative_config`.

    The rules:

    - `draft_len_schedule` in 1.2: a key is the smallest batch size of its length. In 1.3 and later: a key is the
      largest batch size of its length, and no tokens are drafted above the last key.
    - `max_concurrency`: nothing is drafted if min(requests, max batch size, max_num_tokens // (1 + max_draft_len)) is
      above it. 1.3 and later refuse it together with a schedule.
    - The gate: each completed request counts with tokens / iterations - 1, where its prompt is an iteration of one
      token. When the mean over the last `acceptance_window` requests falls below `acceptance_length_threshold`,
      speculation ends until the server is started again. Requests that were decoded without drafts count too, with 0,
      so that a burst above `max_concurrency` can end speculation for good.

    TensorRT-LLM also counts requests that read their prompts; here a batch is the sequences that decode.

    Args:
        max_draft_len: the longest chain, and the only one without a schedule.
        rates: true rates of acceptance, of all requests or of each class.
        most_sequences: largest batch size, `max_batch_size`.
        version: version of TensorRT-LLM.
        draft_len_schedule: lengths by batch size, or None.
        max_concurrency: largest number of requests with speculation, or None.
        max_num_tokens: token budget of a step; None means no limit.
        acceptance_window: requests in the window of the gate; 0 means no gate.
        acceptance_length_threshold: mean number of accepted tokens below which speculation ends.

    Raises:
        InputError: the schedule is empty, has no entry `1: max_draft_len` in 1.2, or a number is out of range.
    """
    check_whole("max_draft_len", max_draft_len, 1)
    check_whole("acceptance_window", acceptance_window, 0, most=100_000)
    check_not_negative("acceptance_length_threshold", acceptance_length_threshold, "")
    _, features = release("TensorRT-LLM", version, VERSIONS)
    sizes = np.arange(1, most_sequences + 1)
    if draft_len_schedule is None:
        chosen = np.full(most_sequences, max_draft_len)
    else:
        chosen = _by_schedule(draft_len_schedule, sizes, max_draft_len, upper_bounds=features.upper_bounds)
    if max_concurrency is not None:
        check_whole("max_concurrency", max_concurrency, 0)
        if draft_len_schedule is not None and features.upper_bounds:
            raise InputError(
                f"max_concurrency must be None if draft_len_schedule is given in {version}: end the schedule there"
            )
        most = most_sequences if max_num_tokens is None else max_num_tokens // (1 + max_draft_len)
        effective = np.minimum(sizes, most)
        chosen = np.where((effective <= max_concurrency) & (most > 0), chosen, 0)
    if not acceptance_window:
        return by_length(chosen, rates, "tensorrt_llm", rule=BY_TABLE)
    return by_length(
        chosen,
        rates,
        "tensorrt_llm",
        rule=ACCEPTANCE_GATE,
        numbers=[acceptance_window, acceptance_length_threshold],
        memory=[0.0] * (3 + acceptance_window),
        also=(0,),
    )


def _by_schedule(schedule: Mapping[int, int], sizes: np.ndarray, longest: int, *, upper_bounds: bool) -> np.ndarray:
    """(B,) length for each batch size."""
    if not isinstance(schedule, Mapping) or not schedule:
        raise InputError(f"draft_len_schedule must be a dictionary with at least one entry, got {schedule!r:.60}")
    for batch, length in schedule.items():
        check_whole("a batch size of draft_len_schedule", batch, 1)
        check_whole(f"draft_len_schedule[{batch}]", length, 0, most=longest, repair=": raise max_draft_len")
    keys = np.array(sorted(schedule))
    lengths = np.array([schedule[key] for key in keys.tolist()])
    if upper_bounds:
        return np.append(lengths, 0)[np.searchsorted(keys, sizes, side="left")]
    if keys[0] != 1 or lengths[0] != longest:
        raise InputError(
            f"draft_len_schedule must have the entry 1: {longest} in TensorRT-LLM 1.2, where batch sizes are lower "
            f"bounds, got {dict(schedule)!r:.60}"
        )
    return lengths[np.searchsorted(keys, sizes, side="right") - 1]
