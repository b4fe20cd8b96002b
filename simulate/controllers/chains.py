"""Controllers of chains: one tier for each length, and a table of lengths by batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from simulate.serving import Controller, Tier
from simulate.serving.controllers import BY_TABLE
from simulate.serving.tiers import Rates
from spectheory import Tree
from spectheory.core.errors import InputError


def chain_tiers(lengths: Iterable[int], rates: Rates) -> tuple[Tier, ...]:
    """A tier for each length, 0 for no speculation."""
    return tuple(Tier.of(Tree.chain(length), rates) for length in lengths)


def by_length(
    chosen: np.ndarray,
    rates: Rates,
    name: str,
    *,
    rule: int = BY_TABLE,
    numbers: Sequence[float] = (0.0,),
    memory: Sequence[float] = (0.0,),
    also: Sequence[int] = (),
) -> Controller:
    """The controller that drafts chains of `chosen[i]` tokens at batch size i + 1.

    Args:
        chosen: (B,) length for each batch size.
        rates: true rates of acceptance.
        name: name of the controller in tables.
        rule: number of the rule.
        numbers: parameters of the rule.
        memory: what the rule remembers at the start.
        also: lengths whose tiers come last, whether or not a batch size has them.
    """
    lengths = [*sorted(set(chosen.tolist()) - set(also)), *also]
    places = {length: place for place, length in enumerate(lengths)}
    row = [-1, *(places[length] for length in chosen.tolist())]
    table = np.tile(np.array(row, np.int64), (len(lengths), 1))
    return Controller(name, chain_tiers(lengths, rates), table, rule, np.array(numbers), np.array(memory))


def require_table(name: str, table: Any) -> None:
    """Check that a table has an entry."""
    if isinstance(table, str) or not isinstance(table, Sequence) or not len(table):
        raise InputError(f"{name} must be a list with at least one entry, got {table!r:.60}")
