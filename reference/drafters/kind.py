"""`DrafterKind`: a drafter with the settings for the matrix, the clock and the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reference.drafters.drafter import Drafter
from reference.sampling import Sampling
from spectheory import Acceptance, Schedule, Tree

if TYPE_CHECKING:
    from reference.drafters.datastore import SuffixArray

MATRIX_BUDGET = 16
"""Number of drafted nodes of the planned tree and of every search in the matrix."""

TreeFromRates = Callable[[Acceptance], Tree]
"""A function that returns the tree that a drafter drafts at given acceptance rates."""


@dataclass(frozen=True)
class Variant:
    """A drafter with the name under which its results are reported.

    Attributes:
        name: name in tables, file names and records.
        family: group in tables and figures.
        drafter: settings of the drafter.
        shape: its tree at given rates, for the positional prediction; None if the rates alone do not decide the tree.
        plan: plan with its tree, which names the verifier of sampled text and predicts its speed; None without.
    """

    name: str
    family: str
    drafter: Drafter
    shape: TreeFromRates | None = None
    plan: Schedule | None = None


@dataclass(frozen=True)
class DrafterKind:
    """A kind of drafter with the settings under which it is compared, timed and tested.

    Attributes:
        matrix: makes its variants for `spectheory matrix` from the sampling, the tree planned for it and a corpus.
        clock: makes its variants for `spectheory clock` from the plan and a corpus.
        greedy: makes drafters whose greedy text is compared with transformers' in tests, with about 300 tokens.
        small: makes drafters whose sampled text is certified in tests, with a vocabulary of four tokens.
    """

    matrix: Callable[[Sampling, Tree, SuffixArray], Iterable[Variant]]
    clock: Callable[[Schedule, SuffixArray], Iterable[Variant]]
    greedy: Callable[[], Iterable[Drafter]]
    small: Callable[[], Iterable[Drafter]]

    @classmethod
    def of(cls, drafter: Drafter, name: str = "", *small: Drafter) -> DrafterKind:
        """The kind of a drafter that runs with the same settings everywhere, or as `small` in tests of four tokens.

        `name` is its name in the matrix; the default is the name of its class, which it has on the clock.
        """
        own = type(drafter).__name__
        return cls(
            matrix=lambda sampling, planned, corpus: [Variant(name or own, drafter.family, drafter)],
            clock=lambda plan, corpus: [Variant(own, drafter.family, drafter)],
            greedy=lambda: [drafter],
            small=lambda: small or (drafter,),
        )


def best_chain(plan: Schedule) -> int:
    """Number of tokens of the fastest chain in a plan, at least 1."""
    return max(1, plan.chain.tree.budget)
