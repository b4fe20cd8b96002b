"""`ClassWorld`, a mixture of easy and hard requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulate.worlds.emitted import EmittedTokens
from simulate.worlds.rates import RateWorld
from simulate.worlds.simulated_world import SimulatedWorld, require_own_verifier
from simulate.worlds.walks import Walks, require_tree
from spectheory import DrawRule, RequestClasses, Tree, Verifier


@dataclass(frozen=True, eq=False)
class ClassWorld(SimulatedWorld):
    """Classes of requests, each with acceptance rates of its own; a request keeps its class.

    A class has a share of the tokens. All requests are simulated for the same number of cycles, so a request is of a
    class with the probability of the share of the cycles, `EmittedTokens.cycle_shares`.

    Attributes:
        classes: the classes.
        verifier: the verifier to which their rates belong; None if it is not known.
    """

    classes: RequestClasses
    verifier: Verifier | None = None

    def _walks(
        self, shape: Tree, verifier: Any, rule: DrawRule | None, requests: int, cycles: int, rng: np.random.Generator
    ) -> Walks:
        shares = self.emitted_tokens(shape, verifier, rule).cycle_shares
        of_class = rng.choice(len(shares), requests, p=shares)
        accepted = np.empty((requests, cycles), np.int64)
        for number, rates in enumerate(self.classes.acceptances):
            members = np.flatnonzero(of_class == number)
            if len(members):
                drawn = RateWorld(rates).walks(shape, requests=len(members), cycles=cycles, rng=rng)
                accepted[members] = drawn.accepted.reshape(-1, cycles)
        return Walks(accepted.ravel(), np.repeat(np.arange(requests), cycles), shape.max_depth)

    def block_efficiency(self, shape: Tree, verifier: Verifier | None = None, rule: DrawRule | None = None) -> float:
        """See SimulatedWorld.block_efficiency."""
        return self.classes.block_efficiency(self._checked(shape, verifier, rule))

    def emitted_tokens(
        self, shape: Tree, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> EmittedTokens:
        """See SimulatedWorld.emitted_tokens."""
        tree = self._checked(shape, verifier, rule)
        return EmittedTokens.of_reach(tree, self.classes.reach_by_class(tree), self.classes.shares)

    def _checked(self, shape: Tree, verifier: Verifier | None, rule: DrawRule | None) -> Tree:
        require_own_verifier(self.verifier, verifier, rule)
        return require_tree(shape, "ClassWorld")
