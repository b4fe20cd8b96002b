"""The test of a decoding step in one context: its runs one by one, the bets on them, and its worst cell."""

from __future__ import annotations

import math
from operator import index
from typing import Any, NoReturn

import numpy as np

from spectheory.certify.betting import Wager
from spectheory.certify.guard import within
from spectheory.certify.place import place
from spectheory.certify.play import Play
from spectheory.certify.step_certificate import Cell
from spectheory.core.world import Context


class NeverEmittedError(Exception):
    """The step emitted tokens to which the target gives probability 0."""


class BrokenStepError(Exception):
    """The step did not return tokens."""


def raised(error: Exception) -> str:
    """An error of the step in words, with the place that raised it."""
    return f"the step raised {type(error).__name__}: {error}{place(error)}"


def after_a_stop(text: Context) -> str:
    """What is wrong with a step that emitted more after `text`, which ends with a stop token."""
    return f"the step emitted a token after the stop token {text[-1]}, which ended {text}"


class Trial:
    """The runs of a step in one context, and the bets on them, which are settled in batches.

    One run is `cycles` calls of the step, each after the tokens that the calls before it emitted. It ends early when
    `length` tokens are emitted, or a stop token.

    Attributes:
        wager: the bets on the runs settled so far.
        never: tokens that the step emitted although the target gives them probability 0; () if there are none so far.
        unseen: largest number of tokens that one call emitted after the first `length`. They are not compared.
    """

    def __init__(self, play: Play, context: Context, seconds: float, cycles: int = 1) -> None:
        self.play, self.context, self.world = play, context, play.world
        self.seconds, self.cycles = seconds, cycles
        self.joint = play.joint(context)
        self.wager = Wager(self.joint)
        self.drawn = np.zeros(self.joint.nodes)
        self.never: Context = ()
        self.unseen = 0
        self.offsets, self.length, self.vocab_size = self.joint.offsets, play.length, play.vocab_size
        self.impossible, self.stop_tokens = self.joint.impossible, frozenset(play.stop_tokens)
        self.token_of = None if play.ids is None else play.token_of

    @property
    def runs(self) -> int:
        """Number of settled runs, plus 1 if a run emitted impossible tokens."""
        return self.wager.runs + bool(self.never)

    def run(self, rng: np.random.Generator) -> None:
        """Run the step for its cycles, and record the prefix that it emits."""
        self.drawn[self.node(self.text(rng))] += 1

    def text(self, rng: np.random.Generator) -> Context:
        """The tokens that one run emits.

        Raises:
            BrokenStepError: the step raised, or did not return tokens.
            NeverEmittedError: the step emitted tokens to which the target gives probability 0.
        """
        text: Context = ()
        for _ in range(self.cycles):
            try:
                emitted = within(self.seconds, self.play.step, self.play.in_ids((*self.context, *text)), rng)
            except Exception as error:
                raise BrokenStepError(raised(error)) from error
            text += self._tokens(emitted, text)
            if self.impossible[self.node(text)]:
                self.refuse(text, f"the step emitted {text}, to which the target gives probability 0")
            if len(text) == self.length or text[-1] in self.stop_tokens:
                break
        return text

    def refuse(self, text: Context, message: str) -> NoReturn:
        """Record tokens that the target never emits, and raise NeverEmittedError."""
        self.never = text
        raise NeverEmittedError(message)

    def _tokens(self, emitted: Any, before: Context) -> Context:
        """The emitted tokens, cut where they reach `length` after the tokens `before`."""
        found: list[int] = []
        try:
            self.unseen = max(self.unseen, len(emitted) - self.length)
            for at, emission in enumerate(emitted[: self.length - len(before)], start=1):
                one = index(emission)
                token = one if self.token_of is None else self.token_of.get(one, -1)
                if not 0 <= token < self.vocab_size:
                    self.refuse((*before, *found, one), self.play.unknown(one))
                found.append(token)
                if token in self.stop_tokens and at < len(emitted):
                    self.refuse((*before, *found, index(emitted[at])), after_a_stop((*before, *found)))
        except (TypeError, LookupError):
            raise BrokenStepError(f"the step must return a sequence of whole numbers, got {emitted!r:.80}") from None
        if not found:
            raise BrokenStepError("the step emitted no token: a step emits at least one")
        return tuple(found)

    def node(self, text: Context) -> int:
        """The number of the node for a prefix."""
        code = 0
        for token in text:
            code = code * self.vocab_size + token
        return self.offsets[len(text)] + code

    def settle(self) -> None:
        """Settle the bets on the runs since the last call."""
        self.wager.settle(self.drawn)
        self.drawn = np.zeros(self.joint.nodes)

    def variation(self) -> float:
        """Observed total variation from the target; 1 without runs.

        A run that emitted fewer than `length` tokens counts with the target's distribution of the tokens that it lacks.
        """
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

    def excess(self) -> Context:
        """The prefix that is most clearly emitted too often; () without runs."""
        if not self.wager.runs:
            return ()
        observed = np.concatenate(self.joint.extended(self.wager.ended)[1:]) / self.wager.runs
        return self.joint.tokens(int(_surprise(observed, np.concatenate(self.joint.levels[1:])).argmax()))


def _surprise(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The term observed * log(observed / expected); it is 0 where either is 0."""
    both = (observed > 0) & (expected > 0)
    ratio = np.divide(observed, expected, out=np.ones(len(observed)), where=both)
    return observed * np.log(ratio)
