"""vLLM's draft lengths by batch size, `num_speculative_tokens_per_batch_size`, and its adaptive verification.

Source: vllm/v1/spec_decode/dynamic/utils.py and vllm/v1/core/sched/scheduler.py of vLLM 0.32, and
docs/features/speculative_decoding/dynamic_speculative_decoding.md (stored commits 14b450ca and 015a47e1), read
2026-11-22. vLLM ignores the table if data parallel is above 1. Adaptive verification:
vllm/v1/worker/gpu/spec_decode/adaptive_verification.py, as stored in forks of 2026-08 and later, and
docs/features/speculative_decoding/adaptive_verification.md (05084858), read on the same day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulate.controllers.chains import by_length, chain_tiers, require_table
from simulate.serving import Controller
from simulate.serving.rules import BY_LAST_BATCH, SURVIVAL_BUDGET
from simulate.serving.tiers import Rates
from spectheory import Tree
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError


def vllm(
    table: Sequence[Sequence[int]], rates: Rates, most_sequences: int, *, num_speculative_tokens: int | None = None
) -> Controller:
    """The controller of `num_speculative_tokens_per_batch_size`.

    The scheduler looks up the number of requests of a step, and the worker drafts the number of tokens in the table at
    the end of this step. They are verified in the next one, so a batch size decides with a delay of one step. The rule:

    - An entry `[first, last, length]` holds from the batch size `first` to `last`, both included.
    - A batch size between two entries has the length of the entry before it, and a batch size above all entries
      has the length of the last entry. No length exceeds `num_speculative_tokens`.

    vLLM also counts requests that read their prompts; here a batch is the sequences that decode.

    Args:
        table: the entries; the first one begins at batch size 1, and they do not overlap.
        rates: true rates of acceptance, of all requests or of each class.
        most_sequences: largest batch size, vLLM's `max_num_seqs`.
        num_speculative_tokens: longest chain; None means the longest length in the table.

    Raises:
        InputError: the table is empty, begins above batch size 1, or has an overlap or a number out of range.
    """
    entries = _entries(table)
    longest = max(length for _, _, length in entries)
    if num_speculative_tokens is not None:
        check_whole("num_speculative_tokens", num_speculative_tokens, 1)
    most = longest if num_speculative_tokens is None else num_speculative_tokens
    starts = np.array([first for first, _, _ in entries])
    lengths = np.array([min(length, most) for _, _, length in entries])
    sizes = np.arange(1, most_sequences + 1)
    chosen = lengths[np.searchsorted(starts, sizes, side="right") - 1]
    return by_length(chosen, rates, "vllm", rule=BY_LAST_BATCH, memory=[0.0, 0.0])


def vllm_adaptive(num_speculative_tokens: int, rates: Rates, most_sequences: int) -> Controller:
    """The controller of `enable_adaptive_verification`: how much of each draft is verified, chosen in every step.

    Every request drafts `num_speculative_tokens`. Each drafted token of each request is scored by its survival, the
    product of the estimates that it and the tokens before it are accepted. The number of tokens that are verified is
    the one with the most expected tokens per second, by the seconds of a step. The tokens of highest survival are
    verified; among equals, first the shallower tokens, then the tokens of earlier requests.

    vLLM estimates acceptance from the draft of each request. It chooses the number of verified tokens from estimates
    that are two steps old and from times that it measured at one context. Here the
    estimates are the true rates of the request's class, and the seconds are the time of the step at its context,
    without prompts. So the simulation shows what adaptive verification gains if it knows the class of each request and
    nothing else about it.

    Args:
        num_speculative_tokens: the length of every draft.
        rates: true rates of acceptance, of all requests or of each class.
        most_sequences: largest batch size.

    Raises:
        InputError: a number is out of range.
    """
    check_whole("num_speculative_tokens", num_speculative_tokens, 1)
    whole = Tree.chain(num_speculative_tokens)
    tiers = [replace(tier, drafted=whole) for tier in chain_tiers(range(num_speculative_tokens + 1), rates)]
    table = np.full((len(tiers), most_sequences + 1), num_speculative_tokens)
    return Controller("vllm adaptive", tuple(tiers), table, SURVIVAL_BUDGET)


def _entries(table: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """The entries in the order of their batch sizes, after a check."""
    name, due = "num_speculative_tokens_per_batch_size", 1
    require_table(name, table)
    entries = []
    for entry in table:
        if isinstance(entry, str) or not isinstance(entry, Sequence) or len(entry) != 3:
            raise InputError(f"{name} must hold entries [first batch, last batch, length], got {entry!r:.60}")
        for what, value, least in zip(("first batch", "last batch", "length"), entry, (1, 1, 0), strict=True):
            check_whole(f"the {what} of {list(entry)} in {name}", value, least)
        entries.append((int(entry[0]), int(entry[1]), int(entry[2])))
    for first, last, length in sorted(entries):
        if first < due or first > last or (due == 1 and first > 1):
            raise InputError(
                f"{name} must begin at batch size 1 and have no overlap, but {[first, last, length]} begins at {first} "
                f"after batch size {due - 1}: correct the entry"
            )
        due = last + 1
    return sorted(entries)
