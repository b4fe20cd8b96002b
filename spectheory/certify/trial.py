"""The runs of a decoding step, one context or a batch of contexts in each call, and the bets on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import index
from typing import Any, NoReturn

import numpy as np

from spectheory.certify.betting import Pairs, Wager
from spectheory.certify.certificate import Cell
from spectheory.certify.guard import place, within
from spectheory.certify.play import Play
from spectheory.certify.rows import PLACEHOLDER, padded
from spectheory.core.errors import InputError
from spectheory.core.world import Context

MOST_IDS = 2**32
"""Larger ids do not exist."""


class NeverEmittedError(Exception):
    """The step emitted tokens to which the target gives probability 0."""


class BrokenStepError(Exception):
    """The step did not return tokens."""


class Trial:
    """The bets on the runs of a step in one context. They are settled at each look.

    Attributes:
        wager: the bets on the runs settled so far.
        drawn: (nodes,) number of runs since then that emitted each prefix.
        never: tokens that the step emitted although the target gives them probability 0; () if there are none so far.
    """

    def __init__(self, play: Play, context: Context) -> None:
        self.play, self.context, self.joint = play, context, play.joint(context)
        self.wager = Wager(self.joint)
        self.drawn = np.zeros(self.joint.nodes)
        self.never: Context = ()

    @property
    def runs(self) -> int:
        """Number of settled runs, plus 1 if a run emitted impossible tokens."""
        return self.wager.runs + bool(self.never)

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
            return math.inf, Cell(self.context, self.never, 0.0, 1 / self.runs, self.play.world)
        observed = np.concatenate(self.joint.extended(self.wager.ended)[1:]) / self.runs
        expected = np.concatenate(self.joint.levels[1:])
        evidence = _surprise(observed, expected) + _surprise(1 - observed, 1 - expected)
        node = int(evidence.argmax())
        shares = float(expected[node]), float(observed[node])
        return self.runs * float(evidence[node]), Cell(self.context, self.joint.tokens(node), *shares, self.play.world)


def _surprise(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The term observed * log(observed / expected); it is 0 where either is 0."""
    both = (observed > 0) & (expected > 0)
    ratio = np.divide(observed, expected, out=np.ones(len(observed)), where=both)
    return observed * np.log(ratio)


class Runs:
    """The runs of a play, whose rows are texts that the step continues: one row in each call, or a batch of rows.

    One run is `cycles` calls of the step, each after the tokens that the calls before it emitted. It ends early when
    `length` tokens are emitted. A batch has equally many rows of all contexts, in random order.

    Attributes:
        trials: the bets in each context.
        pairs: the bets against the claim that rows of a batch are independent; None without batches of several rows.
        states: (index of the context, emitted tokens) of the rows; many rows of a batch are in one state.
        state_of: (n,) the state of each row of the last call.
        unseen: largest number of tokens that one call emitted after the first `length`. They are not compared.
    """

    def __init__(self, play: Play, seconds: float, cycles: int, own: np.random.Generator) -> None:
        self.play, self.seconds, self.cycles, self.own = play, seconds, cycles, own
        self.trials = [Trial(play, context) for context in play.contexts]
        joints, batch = [trial.joint for trial in self.trials], play.batch or 1
        self.pairs = Pairs(joints, batch, own) if batch > 1 else None
        self.states: list[tuple[int, Context]] = []
        self.state_of = np.zeros(1, int)
        self.unseen = 0

    def run(self, runs: int, rng: np.random.Generator) -> None:
        """Run the step `runs` times in each context; BrokenStepError and NeverEmittedError end the test."""
        for order in self._orders(runs):
            self._call(order, self.cycles, rng)
            counts = np.bincount(self.state_of, minlength=len(self.states)).tolist()
            for (i, emitted), count in zip(self.states, counts, strict=True):
                self.trials[i].drawn[self.trials[i].joint.node(emitted)] += count
            if self.pairs:
                texts = [[*emitted, *[PLACEHOLDER] * (self.play.length - len(emitted))] for _, emitted in self.states]
                self.pairs.add(np.array(order), np.array(texts)[self.state_of])

    def _orders(self, runs: int) -> Iterator[Sequence[int]]:
        if self.play.batch is None:
            yield from ([i] for _ in range(runs) for i in range(len(self.trials)))
            return
        order = self.own.permutation(np.repeat(np.arange(len(self.trials)), runs)).tolist()
        yield from (order[start : start + self.play.batch] for start in range(0, len(order), self.play.batch))

    def _call(self, order: Sequence[int], cycles: int, rng: np.random.Generator) -> None:
        if self.play.batch is None:
            self.states = [(order[0], ())]
            for _ in range(cycles):
                context = self._context(*self.states[0])
                self.states[0] = self._extended(*self.states[0], self._emitted(context, rng), 0)
                if len(self.states[0][1]) == self.play.length:
                    break
            return
        self.states = [(i, ()) for i in range(len(self.trials))]
        self.state_of = np.array(order)
        going = np.arange(len(order))
        for _ in range(cycles):
            self._continue(going, rng)
            is_done = np.array([len(emitted) == self.play.length for _, emitted in self.states])
            going = going[~is_done[self.state_of[going]]]
            if not len(going):
                break

    def _continue(self, going: np.ndarray, rng: np.random.Generator) -> None:
        used, before = np.unique(self.state_of[going], return_inverse=True)
        contexts = [self._context(*self.states[one]) for one in used]
        width = max(1, *map(len, contexts))
        given = np.array([[*[PLACEHOLDER] * (width - len(one)), *one] for one in contexts])[before]
        rows = self._rows(self._emitted(given, rng), going)
        key, columns = before, rows.clip(-2, MOST_IDS - 3).T + 2
        for column in columns:
            if key.max() >= 2**63 // MOST_IDS - 1:
                _, key = np.unique(key, return_inverse=True)
            key = key * (columns.max() + 1) + column
        _, first, state = np.unique(key, return_index=True, return_inverse=True)
        self.state_of[going], news = len(self.states) + state, []
        for row in first.tolist():
            ids = rows[row].tolist()
            emitted = ids[: ids.index(PLACEHOLDER)] if PLACEHOLDER in ids else ids
            i, text = self.states[used[before[row]]]
            news.append(self._extended(i, text, emitted, int(going[row])))
        self.states += news

    def _context(self, i: int, emitted: Context) -> Context:
        return self.play.in_ids(self.trials[i].context + emitted)

    def _emitted(self, given: Any, rng: np.random.Generator) -> Any:
        try:
            return within(self.seconds, self.play.step, given, rng)
        except Exception as error:
            raise BrokenStepError(f"the step raised {type(error).__name__}: {error}{place(error)}") from error

    def _rows(self, emitted: Any, going: np.ndarray) -> np.ndarray:
        """(n, k) the ids of each row, with placeholders only at its end; at most `length` of them."""
        try:
            rows = padded(emitted)
        except (InputError, TypeError, ValueError, RuntimeError) as error:
            raise BrokenStepError(f"the step must return rows of tokens: {error}") from error
        if len(rows) != len(going):
            raise BrokenStepError(f"the step must return one row for each of {len(going)} contexts, got {len(rows)}")
        is_there = rows != PLACEHOLDER
        for row, at in np.argwhere(is_there[:, 1:] & ~is_there[:, :-1])[:1].tolist():
            what = f"row {row} has the placeholder -1 before the token {rows[row, at + 1]}: {rows[row].tolist()!s:.60}"
            i, before = self.states[self.state_of[going[row]]]
            self._refuse(i, (*before, *rows[row, : at + 2].tolist()), what)
        for row in np.flatnonzero(~is_there.any(axis=1))[:1]:
            raise BrokenStepError(f"row {row} emitted no token: a step emits at least one in each row")
        self.unseen = max(self.unseen, int(is_there.any(axis=0).sum()) - self.play.length)
        return rows[:, : self.play.length]

    def _extended(self, i: int, before: Context, ids: Any, row: int) -> tuple[int, Context]:
        """The state after the step has emitted `ids`, cut where the text reaches `length`."""
        found = before
        try:
            self.unseen = max(self.unseen, len(ids) - self.play.length)
            for emission in ids[: self.play.length - len(before)]:
                one = index(emission)
                if (token := self.play.token_of.get(one)) is None:
                    self._refuse(i, (*found, one), self.play.unknown(one))
                found = (*found, token)
        except (TypeError, LookupError):
            raise BrokenStepError(f"the step must return a sequence of whole numbers, got {ids!r:.80}") from None
        if found == before:
            raise BrokenStepError("the step emitted no token: a step emits at least one")
        joint = self.trials[i].joint
        if joint.impossible[joint.node(found)]:
            who = "the step" if self.play.batch is None else f"row {row}"
            self._refuse(i, found, f"{who} emitted {found}, to which the target gives probability 0")
        return i, found

    def _refuse(self, i: int, emitted: Context, message: str) -> NoReturn:
        """Record tokens that the target never emits, and raise NeverEmittedError."""
        self.trials[i].never = emitted
        raise NeverEmittedError(message)
