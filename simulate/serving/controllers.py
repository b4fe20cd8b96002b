"""What an engine can run in a step, `Tier`, and how it chooses among tiers, `Controller`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from simulate.serving.rules import BY_TABLE, GAP
from spectheory import Acceptance, Schedule, Tree, reach
from spectheory.core.checks import check_array
from spectheory.core.errors import InputError
from spectheory.yields import RequestClasses

Rates = Acceptance | RequestClasses | Sequence[Acceptance]
"""Rates of acceptance: of all requests, or of each class of requests."""
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Tier:
    """A tree with its verifier. The root alone means no speculation.

    Attributes:
        tree: the tree that every sequence drafts in a cycle.
        survival: (classes, depth + 1) probability that a cycle accepts at least 0, 1, ... drafted tokens, for each
            class of requests. The first column is 1, and rows never rise.
        verifier: the verifier whose own overheads count; None for the usual ones.

    Raises:
        InputError: the shape is wrong, an entry is not a probability (NaN too), or a row rises.
    """

    tree: Tree
    survival: np.ndarray
    verifier: str | None = None

    def __post_init__(self) -> None:
        survival = check_array("survival", self.survival)
        shaped = survival.ndim == 2 and len(survival) and survival.shape[1] == self.tree.max_depth + 1
        inside = shaped and ((survival >= -ROUNDING) & (survival <= 1 + ROUNDING)).all()  # NaN is not
        if not inside or (survival[:, 0] < 1 - ROUNDING).any() or (np.diff(survival) > ROUNDING).any():
            raise InputError(
                f"survival must have a row of {self.tree.max_depth + 1} probabilities for each class, from 1 on, never "
                f"rising, got {survival.tolist()!s:.80}: check the rates"
            )
        survival = survival.astype(np.float64)
        object.__setattr__(self, "survival", np.minimum.accumulate(survival.clip(0, 1), axis=1))

    @classmethod
    def off(cls, classes: int = 1) -> Tier:
        """No speculation."""
        return cls(Tree.chain(0), np.ones((classes, 1)))

    @classmethod
    def of(cls, tree: Tree, rates: Rates, verifier: str | None = None) -> Tier:
        """A tree under rates of acceptance, of all requests or of each class of requests.

        Args:
            tree: the tree.
            rates: an `Acceptance` for all requests; `RequestClasses`, whose classes are those of the requests; or an
                `Acceptance` for each class.
            verifier: the verifier whose own overheads count.
        """
        return cls(tree, np.array([_by_depth(tree, row) for row in _node_rows(tree, rates)]), verifier)

    @property
    def name(self) -> str:
        """Its name in tables, such as `off`, `chain 3` or `tree 12`."""
        if not self.tree.budget:
            return "off"
        return f"{'chain' if self.tree.is_chain else 'tree'} {self.tree.budget}"

    @property
    def classes(self) -> int:
        """Number of classes of requests."""
        return len(self.survival)

    @property
    def tau(self) -> Float[np.ndarray, " classes"]:
        """Tokens of a cycle, on average, far from the end of an answer."""
        return self.survival.sum(1)


def _node_rows(tree: Tree, rates: Rates) -> list[Float[np.ndarray, " nodes"]]:
    """Probability that each node is accepted, for each class."""
    if isinstance(rates, RequestClasses):
        return list(rates.reach_by_class(tree))
    listed = [rates] if isinstance(rates, Acceptance) else rates
    if not isinstance(listed, Sequence) or not listed or not all(isinstance(one, Acceptance) for one in listed):
        raise InputError(
            f"rates must be an Acceptance, RequestClasses, or an Acceptance for each class, got {rates!r:.60}"
        )
    return [reach(tree, one) for one in listed]


def _by_depth(tree: Tree, values: np.ndarray) -> Float[np.ndarray, " lengths"]:
    """Sum of the reach of the nodes of each depth, which is the survival of the tree."""
    survival = np.bincount(tree.depth, values, minlength=tree.max_depth + 1)
    survival[0] = 1.0
    return np.minimum.accumulate(survival.clip(0, 1))


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
            raise InputError(f"tiers must be at least one, all with the same classes, got {self.tiers!s:.80}")
        table = np.asarray(self.table)
        whole = table.ndim == 2 and table.shape[1] > 1 and table.dtype.kind in "iu"
        if not whole or len(table) != len(self.tiers) or table.min() < GAP or table.max() >= len(self.tiers):
            raise InputError(
                f"table must have a row of tier indices from -1 to {len(self.tiers) - 1}, by batch size, for each of "
                f"{len(self.tiers)} tiers, got {table.tolist()!s:.80}"
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


def tiers_of(source: Schedule, rates: Rates | None = None) -> tuple[Tier, ...]:
    """The options of a schedule. What they accept is replayed if it was, otherwise by the rates.

    Args:
        source: the schedule.
        rates: true rates, in place of those that `source` predicts from.
    """
    if rates is not None:
        return tuple(Tier.of(option.tree, rates, option.verifier) for option in source.options)
    return tuple(
        Tier(option.tree, _by_depth(option.tree, option.reach(source.rates))[None], option.verifier)
        for option in source.options
    )
