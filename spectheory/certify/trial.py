"""The test of a decoding step in one context: its runs, the bets on them, and its worst cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from spectheory.certify.betting import Wager
from spectheory.certify.guard import within
from spectheory.certify.joint import Joint
from spectheory.certify.step_certificate import Cell
from spectheory.core.world import Context

Step = Callable[[Context, np.random.Generator], Sequence[int]]


class NeverEmittedError(Exception):
    """The step emitted tokens to which the target gives probability 0."""


class BrokenStepError(Exception):
    """The step did not return tokens."""


class Trial:
    """The runs of a step in one context. They are drawn one by one, and the bets on them are settled in batches.

    One run is `cycles` calls of the step, each after the tokens that the calls before it emitted. It ends early when
    `length` tokens are emitted.

    Attributes:
        wager: the bets on the runs settled so far.
        never: tokens that the step emitted although the target gives them probability 0; () if there are none so far.
        unseen: largest number of tokens that one call emitted after the first `length`. They are not compared.
    """

    def __init__(
        self, step: Step, context: Context, joint: Joint, seconds: float, cycles: int = 1, world: str = ""
    ) -> None:
        self.seconds, self.cycles, self.world = seconds, cycles, world
        self.step, self.context, self.joint = step, context, joint
        self.wager = Wager(joint)
        self.drawn: list[int] = []
        self.never: Context = ()
        self.unseen = 0
        self.offsets, self.length, self.vocab_size = joint.offsets, joint.length, joint.vocab_size
        self.impossible = joint.impossible

    @property
    def runs(self) -> int:
        """Number of settled runs, plus 1 if a run emitted impossible tokens."""
        return self.wager.runs + bool(self.never)

    def run(self, rng: np.random.Generator) -> None:
        """Run the step for its cycles, and record the prefix that it emits."""
        text: Context = ()
        node = 0
        for _ in range(self.cycles):
            try:
                emitted = within(self.seconds, self.step, (*self.context, *text), rng)
            except Exception as error:
                raise BrokenStepError(f"the step raised {type(error).__name__}: {error}") from error
            text += self._tokens(emitted, text)
            node = self._node(text)
            if self.impossible[node]:
                self.never = text
                raise NeverEmittedError(f"the step emitted {self.never}, to which the target gives probability 0")
            if len(text) == self.length:
                break
        self.drawn.append(node)

    def _tokens(self, emitted: Any, before: Context) -> Context:
        """The emitted tokens, cut where they reach `length` after the tokens `before`."""
        found: list[int] = []
        try:
            self.unseen = max(self.unseen, len(emitted) - self.length)
            for emission in emitted[: self.length - len(before)]:
                token = index(emission)
                if not 0 <= token < self.vocab_size:
                    self.never = (*before, *found, token)
                    raise NeverEmittedError(
                        f"the step emitted token {token}, which does not exist: tokens are 0 to "
                        f"{self.vocab_size - 1} (strip padding before you return)"
                    )
                found.append(token)
        except (TypeError, LookupError):
            raise BrokenStepError(f"the step must return a sequence of whole numbers, got {emitted!r:.80}") from None
        if not found:
            raise BrokenStepError("the step emitted no token: a step emits at least one")
        return tuple(found)

    def _node(self, text: Context) -> int:
        """The number of the node for a prefix."""
        code = 0
        for token in text:
            code = code * self.vocab_size + token
        return self.offsets[len(text)] + code

    def settle(self) -> None:
        """Settle the bets on the runs since the last call."""
        self.wager.settle(np.bincount(self.drawn, minlength=self.joint.nodes).astype(float))
        self.drawn.clear()

    def variation(self) -> float:
        """Observed total variation from the target, over runs that the target has extended; 1 without runs."""
        if not self.wager.runs:
            return 1.0
        seen = self.joint.extended(self.wager.ended)[-1] / self.wager.runs
        return float(np.abs(seen - self.joint.levels[-1]).sum() / 2)

    def worst(self) -> tuple[float, Cell]:
        """(log likelihood ratio, cell) of the prefix whose observed share is least likely."""
        if self.never:
            return math.inf, Cell(self.context, self.never, 0.0, 1 / self.runs, self.world)
        observed = np.concatenate(self.joint.extended(self.wager.ended)[1:]) / self.runs
        expected = np.concatenate(self.joint.levels[1:])
        evidence = _surprise(observed, expected) + _surprise(1 - observed, 1 - expected)
        node = int(evidence.argmax())
        cell = Cell(self.context, self.joint.tokens(node), float(expected[node]), float(observed[node]), self.world)
        return self.runs * float(evidence[node]), cell


def _surprise(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The term observed * log(observed / expected); it is 0 where either is 0."""
    both = (observed > 0) & (expected > 0)
    ratio = np.divide(observed, expected, out=np.ones(len(observed)), where=both)
    return observed * np.log(ratio)
