"""`Controller`: how an engine chooses what each step runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simulate.serving.tiers import Rates, Tier, tiers_of
from spectheory import Schedule, Tree
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

BY_TABLE = 0
"""The number of the rule that reads the tier from the table, by the last tier and the batch size; see `rules`."""
GAP = -1
"""An entry of a table without a tier."""


@dataclass(frozen=True, eq=False)
class Controller:
    """The tiers of an engine and the rule that chooses among them, by the number of sequences that decode.

    Attributes:
        name: its name in tables.
        tiers: what a step can run. All have the same classes of requests.
        table: (tiers, batch sizes + 1) index of the next tier after each last tier, by batch size; -1 where there is
            none. Column 0 is not used. A larger batch size than the table has is a gap too.
        rule: the number of the rule, see `simulate.serving.rules`.
        numbers: parameters of the rule.
        memory: what the rule remembers at the start; the first entry is the last tier.

    Raises:
        InputError: there is no tier, tiers have different classes, or the table has another shape or index.
    """

    name: str
    tiers: tuple[Tier, ...]
    table: np.ndarray
    rule: int = BY_TABLE
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(1))
    memory: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def __post_init__(self) -> None:
        if not self.tiers or len({tier.classes for tier in self.tiers}) != 1:
            raise InputError(
                "tiers must be at least one, all with the same number of classes, got "
                f"{[tier.classes for tier in self.tiers]}"
            )
        table = np.asarray(self.table)
        if table.ndim != 2 or len(table) != len(self.tiers) or table.shape[1] < 2 or table.dtype.kind not in "iu":
            raise InputError(
                f"table must have a row of tier indices, by batch size, for each of the {len(self.tiers)} tiers, got "
                f"shape {table.shape} of {table.dtype}"
            )
        if (table < GAP).any() or (table >= len(self.tiers)).any():
            raise InputError(
                f"table must hold indices of the {len(self.tiers)} tiers, or -1, got {table.tolist()!s:.80}"
            )
        object.__setattr__(self, "table", table.astype(np.int64))
        for name in ("numbers", "memory"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))

    @classmethod
    def always(cls, tier: Tier, most_sequences: int, name: str | None = None) -> Controller:
        """The same tier in each step."""
        return cls(name or tier.name, (tier,), np.zeros((1, most_sequences + 1), np.int64))

    @classmethod
    def by_batch(cls, tiers: Sequence[Tier], choice: np.ndarray, batches: np.ndarray, name: str) -> Controller:
        """The tier `choice[i]` at the batch size `batches[i]`, whatever ran before."""
        row = np.full(int(batches[-1]) + 1, GAP)
        row[batches] = choice
        return cls(name, tuple(tiers), np.tile(row, (len(tiers), 1)))

    @classmethod
    def up_to(cls, tier: Tier, last: int, most_sequences: int) -> Controller:
        """A tier up to the batch size `last`, and no speculation above it."""
        check_whole("last", last, 0, most=most_sequences)
        sizes = np.arange(1, most_sequences + 1)
        tiers = (tier, Tier.off(tier.classes))
        return cls.by_batch(tiers, (sizes > last).astype(np.int64), sizes, f"{tier.name} up to {last}")

    @classmethod
    def of(cls, source: Unruled, most_sequences: int, rates: Rates | None = None) -> Controller:
        """The controller of a schedule, of one tree or tier at every batch size, or of no speculation for None.

        Args:
            source: what to run.
            most_sequences: largest batch size.
            rates: true rates of acceptance, of all requests or of each class; None is those that `source` predicts
                from. A tree needs them.
        """
        if source is None:
            classes = 1 if rates is None else Tier.of(Tree.chain(0), rates).classes
            return cls.always(Tier.off(classes), most_sequences)
        if isinstance(source, Schedule):
            tiers = tiers_of(source, rates)
            used, choice = np.unique(source.choice, return_inverse=True)
            if len(source.batches) == 1:
                return cls.always(tiers[used[0]], most_sequences)
            return cls.by_batch([tiers[number] for number in used], choice, source.batches, "schedule")
        if isinstance(source, Tier):
            return cls.always(source, most_sequences)
        if rates is None:
            raise InputError("rates must be given with a tree: how many of its tokens a cycle accepts depends on them")
        return cls.always(Tier.of(source, rates), most_sequences)

    @property
    def has_memory(self) -> bool:
        """Whether what a step runs depends on what ran before, not on the batch size alone."""
        return self.rule != BY_TABLE or bool((self.table != self.table[0]).any())

    def covers(self, sequences: int) -> bool:
        """Whether there is a tier for every batch size up to `sequences`."""
        return self.table.shape[1] > sequences and bool((self.table[:, 1 : sequences + 1] >= 0).all())

    @property
    def classes(self) -> int:
        """Number of classes of requests."""
        return self.tiers[0].classes


Unruled = Schedule | Tree | Tier | None
"""What a controller can be made from: a schedule, a tree or a tier. None means no speculation."""
Served = Unruled | Controller
"""What can be served."""
