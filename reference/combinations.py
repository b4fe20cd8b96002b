"""The combinations of a matrix: drafters and the verifiers that are lossless for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from reference.compatibility import incompatibility
from reference.drafters import Datastore, Drafter, PlannedTree, SuffixArray, Variant, drafters
from reference.drafters.kind import MATRIX_BUDGET
from reference.sampling import Sampling
from spectheory import Acceptance, Tree, best_tree
from spectheory.otlp import solvers
from spectheory.verify import Greedy, TopDown, Verifier, verifiers

SOLVERS = solvers()
VERIFIERS: tuple[Verifier, ...] = (
    *(TopDown(solver) for solver in SOLVERS if not solver.small_vocabulary_only),
    *verifiers(),
)
"""Verifiers of sampled text; temperature 0 has `Greedy` alone."""
LEFT_OUT = {type(solver).__name__: why for solver in SOLVERS if (why := solver.small_vocabulary_only)}
"""Lossless verifiers that the matrix leaves out, and why."""


@dataclass(frozen=True)
class Combination:
    """A drafter, a verifier and a temperature."""

    policy: Variant
    verifier: Verifier
    sampling: Sampling

    @property
    def verifying(self) -> str:
        """The verifier's name."""
        return type(self.verifier.solver if type(self.verifier) is TopDown else self.verifier).__name__

    @property
    def name(self) -> str:
        """All three in words."""
        return f"{self.policy.name}, {self.verifying}, temperature {self.sampling.temperature:g}"

    @property
    def key(self) -> int:
        """A hash of everything that decides what is drafted and kept: it names the part and seeds its streams."""
        drafter = self.policy.drafter
        return crc32(f"{self.name} {drafter} {_unsaid(drafter)} {self.verifier}".encode())


def best(rates: Acceptance) -> Tree:
    """The shape of the planned tree."""
    return best_tree(rates, MATRIX_BUDGET)


def policies(sampling: Sampling, planned: Tree, corpus: SuffixArray) -> list[Variant]:
    """Every drafter at one temperature: `planned` is the tree planned for it, `corpus` is the datastore's."""
    return [variant for kind in drafters() for variant in kind.matrix(sampling, planned, corpus)]


def lossless_combinations(sampling: Sampling, planned: Tree, corpus: SuffixArray) -> Iterator[Combination]:
    """Every drafter with every verifier that is lossless for it."""
    for policy in policies(sampling, planned, corpus):
        for verifier in (Greedy(),) if sampling.greedy else VERIFIERS:
            if incompatibility(policy.drafter, verifier, sampling) is None:
                yield Combination(policy, verifier, sampling)


def _unsaid(drafter: Drafter) -> list[int]:
    """Settings that the `repr` of a drafter leaves out: the nodes of a tree, a hash of a corpus."""
    if isinstance(drafter, PlannedTree):
        return drafter.tree.parent.tolist()
    return [crc32(drafter.corpus.tokens.tobytes())] if isinstance(drafter, Datastore) else []
