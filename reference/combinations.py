"""The combinations of a matrix: each drafter with each verifier that is lossless for it, for one sampling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from zlib import crc32

from reference.compatibility import incompatibility
from reference.drafters import Datastore, Drafter, Drawn, PlannedTree, SuffixArray, Variant, drafters
from reference.drafters.kind import MATRIX_BUDGET
from reference.sampling import Sampling
from spectheory import Acceptance, DrawPolicy, Tree, best_tree
from spectheory.otlp import solvers
from spectheory.verify import Greedy, TopDown, Verifier, verifiers

SOLVERS = solvers()
VERIFIERS: tuple[Verifier, ...] = (
    *(TopDown(solver) for solver in SOLVERS if not solver.small_vocabulary_only),
    *verifiers(),
)
"""The verifiers above temperature 0; at temperature 0 there is only `Greedy`."""
LEFT_OUT = {type(solver).__name__: why for solver in SOLVERS if (why := solver.small_vocabulary_only)}
"""Lossless verifiers that the matrix leaves out, and why."""


@dataclass(frozen=True)
class Combination:
    """A drafter, a verifier and a sampling."""

    policy: Variant
    verifier: Verifier
    sampling: Sampling

    @property
    def verifying(self) -> str:
        """The verifier's name."""
        return type(self.verifier.solver if type(self.verifier) is TopDown else self.verifier).__name__

    @property
    def name(self) -> str:
        """Drafter, verifier and sampling in words."""
        return f"{self.policy.name}, {self.verifying}, {self.sampling}"

    @property
    def key(self) -> int:
        """Hash of all settings that decide the text. It is in the name of the Parquet file and seeds its streams."""
        drafter = self.policy.drafter
        return crc32(f"{self.name} {drafter} {_unsaid(drafter)} {self.verifier}".encode())


def best(rates: Acceptance) -> Tree:
    """The best tree of `MATRIX_BUDGET` nodes for these rates."""
    return best_tree(rates, MATRIX_BUDGET)


def lossless_combinations(sampling: Sampling, planned: Tree, corpus: SuffixArray) -> Iterator[Combination]:
    """Every drafter with every verifier that is lossless for it.

    `planned` is the tree of the planned drafter, `corpus` the corpus of the datastore drafter.
    """
    for policy in (variant for kind in drafters() for variant in kind.matrix(sampling, planned, corpus)):
        for verifier in (Greedy(),) if sampling.greedy else VERIFIERS:
            if incompatibility(policy.drafter, verifier, sampling) is None:
                yield Combination(policy, verifier, sampling)


def shape_of(drafter: Drafter) -> Tree | DrawPolicy | None:
    """The shape that a drafter drafts in every cycle; None if it depends on the text."""
    if isinstance(drafter, PlannedTree):
        return drafter.tree
    return drafter.policy if isinstance(drafter, Drawn) else None


def depth_of(shape: Tree | DrawPolicy) -> int:
    """Depth of the deepest node that a shape can have."""
    if isinstance(shape, Tree):
        return shape.max_depth
    return next(depth for depth in count() if not shape.draws(depth, 1))


def possible_names(sampling: Sampling) -> list[str]:
    """The names that combinations can have, before a tree is planned: some verifiers fit only a chain, or no chain."""
    corpus = SuffixArray.build([[0]])
    trees = Tree.chain(1), Tree.k_ary(2, 2)
    return [one.name for tree in trees for one in lossless_combinations(sampling, tree, corpus)]


def _unsaid(drafter: Drafter) -> list[int]:
    """What the `repr` of a drafter does not show: the parents of a tree's nodes, or a hash of a corpus."""
    if isinstance(drafter, PlannedTree):
        return drafter.tree.parent.tolist()
    return [crc32(drafter.corpus.tokens.tobytes())] if isinstance(drafter, Datastore) else []
