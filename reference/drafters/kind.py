"""Kinds of drafters, with the settings under which the matrix, the clock and the tests run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reference.drafters.drafter import Drafter
from reference.sampling import Sampling
from spectheory import Acceptance, Plan, Tree

if TYPE_CHECKING:
    from reference.drafters.datastore import SuffixArray

MATRIX_BUDGET = 16
"""Drafted nodes of the planned tree and of every search in the matrix."""

TreeFromRates = Callable[[Acceptance], Tree]
"""The tree of ranks that a drafter drafts where the rates are these."""


@dataclass(frozen=True)
class Variant:
    """A drafter with the name under which its results are reported.

    Attributes:
        name: in tables, file names and records.
        family: what it is grouped with in tables and figures.
        drafter: its settings.
        shape: the tree that it drafts, where the rates alone decide it; the positional prediction is made from it.
        predicted: the speedup that the plan predicts.
    """

    name: str
    family: str
    drafter: Drafter
    shape: TreeFromRates | None = None
    predicted: float | None = None


@dataclass(frozen=True)
class DrafterKind:
    """A kind of drafter, with the settings under which it is compared, clocked and tested.

    Attributes:
        matrix: its variants in the matrix, given the sampling, the tree planned for it and a corpus.
        clock: its variants on the wall clock, given the plan and a corpus.
        greedy: settings for which tests compare greedy text with transformers', for vocabularies of hundreds of tokens.
        small: settings with which tests certify whole texts, for a vocabulary of four tokens.
    """

    matrix: Callable[[Sampling, Tree, SuffixArray], Iterable[Variant]]
    clock: Callable[[Plan, SuffixArray], Iterable[Variant]]
    greedy: Callable[[], Iterable[Drafter]]
    small: Callable[[], Iterable[Drafter]]

    @classmethod
    def of(cls, drafter: Drafter, name: str = "", *small: Drafter) -> DrafterKind:
        """A drafter that runs everywhere with the same settings, or with those of `small` on few tokens.

        `name` is its name in the matrix; the name of its class where not given, as on the clock.
        """
        own = type(drafter).__name__
        return cls(
            matrix=lambda sampling, planned, corpus: [Variant(name or own, drafter.family, drafter)],
            clock=lambda plan, corpus: [Variant(own, drafter.family, drafter)],
            greedy=lambda: [drafter],
            small=lambda: small or (drafter,),
        )


def best_chain(plan: Plan) -> int:
    """Length of the fastest chain by a plan, at least 1."""
    return max(1, int(np.argmax(plan.by_budget.chain_speedup)))
