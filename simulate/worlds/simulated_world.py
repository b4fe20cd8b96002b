"""`SimulatedWorld`, the base class of worlds, and the verifiers that worlds of rates refuse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from simulate.worlds.emitted import EmittedTokens
from simulate.worlds.walks import Walks, check_sizes
from spectheory import DrawRule, InputError, Verifier
from spectheory.verify import name_of


class SimulatedWorld(ABC):
    """How many drafted tokens a cycle keeps. It is drawn by `walks`, and computed by the other methods.

    The two are independent of each other: `walks` simulates each cycle, and the other methods compute exact values
    with `spectheory`. So each is a test of the other.

    All methods take the same three arguments:

    - `shape`: what is drafted in every cycle, a static `Tree`, or where the world has tokens, a policy.
    - `verifier`: the verifier. Worlds of rates take None, because the rates belong to one verifier already.
    - `rule`: how the children of a static tree are drawn; policies have a rule of their own.
    """

    def walks(
        self,
        shape: Any,
        verifier: Verifier | None = None,
        rule: DrawRule | None = None,
        *,
        requests: int,
        cycles: int,
        rng: np.random.Generator,
    ) -> Walks:
        """Draw `cycles` cycles of each of `requests` requests; fewer where a recorded text ends before.

        Raises:
            InputError: the world does not know such a shape or verifier, or a number is below 1.
        """
        check_sizes(requests, cycles)
        return self._walks(shape, verifier, rule, requests, cycles, rng)

    @abstractmethod
    def _walks(
        self, shape: Any, verifier: Any, rule: DrawRule | None, requests: int, cycles: int, rng: np.random.Generator
    ) -> Walks:
        """`walks`, after a check of the two numbers."""

    @abstractmethod
    def block_efficiency(self, shape: Any, verifier: Verifier | None = None, rule: DrawRule | None = None) -> Any:
        """E[tau], the expected tokens per target call of a long run. Raises InputError as `walks` does."""

    @abstractmethod
    def emitted_tokens(
        self, shape: Any, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> EmittedTokens:
        """The distribution of the tokens that a cycle of a long run emits. Raises InputError as `walks` does."""


def require_own_verifier(own: Verifier | None, asked: Verifier | None, rule: DrawRule | None) -> None:
    """Check that a world of rates is asked for the verifier to which its rates belong, or for none.

    Raises:
        InputError: another verifier is asked for, which the rates cannot tell apart, or a draw rule is given.
    """
    if asked is not None and asked != own:
        holds = "their verifier is not known" if own is None else f"they belong to {name_of(own)}"
        raise InputError(
            f"verifier must be left out in a world of rates, which cannot tell {name_of(asked)} from other verifiers "
            f"({holds}), got {asked}: give the world the rates of {name_of(asked)} and verifier={asked}, or use "
            "MarkovWorld or RecordedWorld"
        )
    if rule is not None:
        raise InputError(
            f"rule must be left out in a world of rates, which has no tokens that could be drawn, got {rule.name}: use "
            "MarkovWorld or RecordedWorld"
        )
