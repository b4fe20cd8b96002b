"""What a matrix measures, as data: policies, verifiers, and which of them go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from zlib import crc32

from reference.drafters import (
    Datastore,
    Drafter,
    Drawn,
    Goose,
    Lookahead,
    PlannedTree,
    PromptLookup,
    Searched,
    SuffixArray,
    TokenRecycling,
)
from reference.fit import unfit
from reference.predictions import Shape
from reference.sampling import Sampling
from spectheory import Acceptance, DrawRule, Eagle2, OptTree, Salf, SpecExec, Tree, best_tree
from spectheory.core.world import Levels, Paths
from spectheory.otlp import solvers
from spectheory.search import RatesDraft
from spectheory.verify import Greedy, TopDown, Verifier, verifiers

BUDGET = 16
"""Drafted nodes of the planned tree and of every search."""
MODEL_FREE: dict[str, Drafter] = {
    "prompt lookup": PromptLookup(),
    "token recycling": TokenRecycling(),
    "Goose": Goose(),
    "Lookahead": Lookahead(),
}
"""Drafters without a draft model or a corpus."""
SOLVERS = solvers()
VERIFIERS: tuple[Verifier, ...] = (
    *(TopDown(solver) for solver in SOLVERS if not solver.small_vocabulary_only),
    *verifiers(),
)
"""Those of sampled text; `Greedy` is the one at temperature 0."""
LEFT_OUT = {type(solver).__name__: why for solver in SOLVERS if (why := solver.small_vocabulary_only)}
"""Lossless verifiers that no combination has, and why."""


@dataclass(frozen=True)
class Drafted:
    """A drafter with its name and, where ranks say what it drafts, its shape."""

    name: str
    family: str
    drafter: Drafter
    shape: Shape | None = None


@dataclass(frozen=True)
class Combination:
    """A policy, a verifier and a temperature."""

    policy: Drafted
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
        """A number for all that decides what is drafted and kept: names the part, and seeds its streams."""
        drafter = self.policy.drafter
        return crc32(f"{self.name} {drafter} {_unsaid(drafter)} {self.verifier}".encode())


def full(counts: Sequence[int]) -> Tree:
    """The tree in which every node of depth d has counts[d] children."""
    ways = [range(count) for count in counts]
    return Tree.from_paths(path for depth in range(1, len(ways) + 1) for path in product(*ways[:depth]))


def best(rates: Acceptance) -> Tree:
    """The shape of the planned tree."""
    return best_tree(rates, BUDGET)


def policies(sampling: Sampling, planned: Tree, corpus: SuffixArray) -> list[Drafted]:
    """Every policy at one temperature: `planned` is the tree planned for it, `corpus` is the datastore's."""
    model_free = MODEL_FREE | {"datastore": Datastore(corpus)}
    alone = [Drafted(name, "model-free", drafter) for name, drafter in model_free.items()]
    return [*_static(planned), *_drawn(sampling), *_searches(), *alone]


def combinations(sampling: Sampling, planned: Tree, corpus: SuffixArray) -> Iterator[Combination]:
    """Every policy with every verifier that is lossless for it."""
    for policy in policies(sampling, planned, corpus):
        for verifier in (Greedy(),) if sampling.greedy else VERIFIERS:
            if unfit(policy.drafter, verifier, sampling) is None:
                yield Combination(policy, verifier, sampling)


def _static(planned: Tree) -> Iterator[Drafted]:
    for name, family, tree in (
        ("chain of 5", "chain", Tree.chain(5)),
        ("binary tree 2x2x2", "static tree", full((2, 2, 2))),
        (f"planned tree of {planned.budget}", "static tree", planned),
    ):
        yield Drafted(name, family, PlannedTree(tree), lambda rates, tree=tree: tree)


def _drawn(sampling: Sampling) -> Iterator[Drafted]:
    """What is drawn from the draft's laws; greedy decoding draws nothing and has the shapes of the paths as trees."""
    for name, policy in (
        ("3 paths of 4", Paths(3, 4)),
        ("delayed (3, 2, 2)", Paths(3, 2, trunk=2)),
        ("hub 2x2x2", Levels((2, 2, 2), DrawRule.HUB)),
        ("top and one 3x2x1", Levels((3, 2, 1), DrawRule.TOP_K_THEN_ONE)),
    ):
        counts = policy.counts if isinstance(policy, Levels) else _counts(policy)
        family = "drawn tree" if isinstance(policy, Levels) else "paths"
        tree = full(counts)
        if not sampling.greedy:
            yield Drafted(name, family, Drawn(policy), lambda rates, tree=tree: tree)
        elif isinstance(policy, Paths):
            yield Drafted(name, family, PlannedTree(tree), lambda rates, tree=tree: tree)


def _counts(paths: Paths) -> tuple[int, ...]:
    """Children by depth where no two of the paths coincide."""
    return (1,) * paths.trunk + (paths.paths,) + (1,) * (paths.length - 1)


def _searches() -> Iterator[Drafted]:
    for name, search in (
        ("OPT-Tree", OptTree(BUDGET, 0.2)),
        ("EAGLE-2", Eagle2(top_k=4, depth=4, budget=BUDGET)),
        ("SpecExec", SpecExec(BUDGET, batch=4)),
        ("SALF", Salf(BUDGET, 0.4, batch=4)),
    ):
        yield Drafted(
            name, "search", Searched(search), lambda rates, search=search: search.grow(RatesDraft(rates)).tree
        )


def _unsaid(drafter: Drafter) -> list[int]:
    """What is too long for the `repr` of `drafter`."""
    if isinstance(drafter, PlannedTree):
        return drafter.tree.parent.tolist()
    return [crc32(drafter.corpus.tokens.tobytes())] if isinstance(drafter, Datastore) else []
