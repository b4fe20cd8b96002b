"""The runs of a decoding step, one by one in one context or in batches of contexts, and the bets on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from operator import index
from typing import Any, NoReturn

import numpy as np

from spectheory.certify.betting import Pairs, Wager
from spectheory.certify.certificate import Cell, rounded, run_lines, text
from spectheory.certify.guard import place, within
from spectheory.certify.play import Play
from spectheory.certify.rows import PLACEHOLDER, padded
from spectheory.core.errors import InputError
from spectheory.core.world import Context

EXAMPLES = 500
"""Number of runs, or of batches, in which a run with the fault is looked for, at most."""
LONGEST = 150
"""Characters of a line about it."""


class NeverEmittedError(Exception):
    """The step emitted tokens to which the target gives probability 0."""


class BrokenStepError(Exception):
    """The step did not return tokens."""


def _called(play: Play, seconds: float, contexts: Any, rng: Any) -> Any:
    try:
        return within(seconds, play.step, contexts, rng)
    except Exception as error:
        raise BrokenStepError(f"the step raised {type(error).__name__}: {error}{place(error)}") from error


class Trial:
    """The runs of a step in one context, and the bets on them, which are settled in batches.

    One run is `cycles` calls of the step, each after the tokens that the calls before it emitted. It ends early when
    `length` tokens are emitted.

    Attributes:
        wager: the bets on the runs settled so far.
        drawn: (nodes,) number of runs since then that emitted each prefix.
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
        self.impossible = self.joint.impossible
        self.token_of = None if play.ids is None else play.token_of

    @property
    def runs(self) -> int:
        """Number of settled runs, plus 1 if a run emitted impossible tokens."""
        return self.wager.runs + bool(self.never)

    def run(self, rng: np.random.Generator) -> None:
        """Run the step for its cycles, and record the prefix that it emits."""
        self.drawn[self._node(self.emitted(rng))] += 1

    def emitted(self, rng: np.random.Generator) -> Context:
        """The tokens that one run emits.

        Raises:
            BrokenStepError: the step raised, or did not return tokens.
            NeverEmittedError: the step emitted tokens to which the target gives probability 0.
        """
        found: Context = ()
        for _ in range(self.cycles):
            found += self._tokens(
                _called(self.play, self.seconds, self.play.in_ids((*self.context, *found)), rng), found
            )
            if self.impossible[self._node(found)]:
                self.refuse(found, f"the step emitted {found}, to which the target gives probability 0")
            if len(found) == self.length:
                break
        return found

    def refuse(self, found: Context, message: str) -> NoReturn:
        """Record tokens that the target never emits, and raise NeverEmittedError."""
        self.never = found
        raise NeverEmittedError(message)

    def _tokens(self, emitted: Any, before: Context) -> Context:
        """The emitted tokens, cut where they reach `length` after the tokens `before`."""
        found: list[int] = []
        try:
            self.unseen = max(self.unseen, len(emitted) - self.length)
            for emission in emitted[: self.length - len(before)]:
                one = index(emission)
                token = one if self.token_of is None else self.token_of.get(one, -1)
                if not 0 <= token < self.vocab_size:
                    self.refuse((*before, *found, one), self.play.unknown(one))
                found.append(token)
        except (TypeError, LookupError):
            raise BrokenStepError(f"the step must return a sequence of whole numbers, got {emitted!r:.80}") from None
        if not found:
            raise BrokenStepError("the step emitted no token: a step emits at least one")
        return tuple(found)

    def _node(self, prefix: Context) -> int:
        code = 0
        for token in prefix:
            code = code * self.vocab_size + token
        return self.offsets[len(prefix)] + code

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
        observed, expected = self._shares()
        evidence = _surprise(observed, expected) + _surprise(1 - observed, 1 - expected)
        node = int(evidence.argmax())
        cell = Cell(self.context, self.joint.tokens(node), float(expected[node]), float(observed[node]), self.world)
        return self.runs * float(evidence[node]), cell

    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        """(nodes,) observed and expected shares of the prefixes."""
        observed = np.concatenate(self.joint.extended(self.wager.ended)[1:]) / self.runs
        return observed, np.concatenate(self.joint.levels[1:])

    def example(self, batches: BatchRuns | None, seed: int) -> tuple[str, ...]:
        """Lines about a run whose tokens begin with what is most clearly emitted too often; () if there is none.

        It is one cycle.
        """
        wanted = self.never or self.joint.tokens(int(_surprise(*self._shares()).argmax()))
        rng, again = np.random.default_rng(seed), copy(self)
        again.cycles = 1
        for _ in range(EXAMPLES):
            row, emitted = 0, ()
            with suppress(BrokenStepError):
                try:
                    if batches is None:
                        emitted = again.emitted(rng)
                    else:
                        row, emitted = batches.beginning(self, wanted, rng)
                except NeverEmittedError:
                    row, emitted = (0, again.never) if batches is None else batches.refused
            if emitted and emitted[: len(wanted)] == wanted[: len(emitted)]:
                break
        else:
            return ()
        drafts = getattr(self.play.step, "drafts", lambda row: "")(row)
        target, code = [], 0
        for distributions, token in zip(self.joint.given, emitted, strict=False):
            target.append(rounded(distributions[code]) if 0 <= code < len(distributions) else "none")
            code = code * self.vocab_size + token if 0 <= token < self.vocab_size else -1
        where = "" if batches is None else f"in row {row} of {self.play.batch} "
        lines = run_lines(f"{where}emitted {text(emitted)}", drafts, ", then ".join(target))
        return tuple(line if len(line) <= LONGEST else f"{line[: LONGEST - 4]} ..." for line in lines)


def _surprise(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The term observed * log(observed / expected); it is 0 where either is 0."""
    both = (observed > 0) & (expected > 0)
    ratio = np.divide(observed, expected, out=np.ones(len(observed)), where=both)
    return observed * np.log(ratio)


class BatchRuns:
    """The runs of a play in batches. Each call gets equally many rows of all contexts, in random order.

    In the second cycle of a run, the contexts of a batch have different lengths, and a row whose text is complete is
    left out.

    Attributes:
        pairs: the bets against the claim that rows are independent.
        texts: (n, length) what each row of the last batch emitted, in tokens, -1 for none.
        rows: (n,) index of the context of each row of the last batch.
        refused: the last row that emitted what the target never emits, and its tokens.
    """

    def __init__(self, play: Play, trials: Sequence[Trial], own: np.random.Generator) -> None:
        self.play, self.trials, self.own = play, trials, own
        self.pairs = Pairs([trial.joint for trial in trials], own)
        self.length, self.vocab_size = play.length, play.vocab_size
        self._impossible = np.array([trial.joint.impossible for trial in trials])
        self._offsets = np.array(trials[0].offsets)
        contexts = [play.in_ids(trial.context) for trial in trials]
        width = max([1, *map(len, contexts)])
        self._starts = np.array([[*[PLACEHOLDER] * (width - len(context)), *context] for context in contexts])
        self.refused: tuple[int, Context] = 0, ()
        self._begin(np.zeros(0, int))

    def run(self, runs: int, rng: np.random.Generator) -> None:
        """Run the step `runs` times in each context.

        Raises:
            BrokenStepError: the step raised, or did not return rows of tokens.
            NeverEmittedError: a row has tokens to which the target gives probability 0.
        """
        order = self.own.permutation(np.repeat(np.arange(len(self.trials)), runs))
        for start in range(0, len(order), self.play.batch or 1):
            self._call(order[start : start + (self.play.batch or 1)], self.trials[0].cycles, rng)
            nodes = self._nodes()
            for i, trial in enumerate(self.trials):
                trial.drawn += np.bincount(nodes[self.rows == i], minlength=len(trial.drawn))
            self.pairs.add(self.rows, self.texts)

    def beginning(self, trial: Trial, wanted: Context, rng: np.random.Generator) -> tuple[int, Context]:
        """A row of a new batch in the context of `trial`, and its tokens: one that begins as `wanted` if there is one.

        Raises:
            NeverEmittedError: see `refused`.
        """
        order = np.arange(self.play.batch or 1) % len(self.trials)
        self._call(order, 1, rng)
        rows = np.flatnonzero(order == self.trials.index(trial)).tolist()
        return next(((r, t) for r in rows if (t := self._text(r)) == wanted[: len(t)]), (rows[0], self._text(rows[0])))

    def _call(self, rows: np.ndarray, cycles: int, rng: np.random.Generator) -> None:
        """Run one batch, with the contexts of these indices."""
        self._begin(rows)
        going = np.arange(len(rows))
        for _ in range(cycles):
            self._read(_called(self.play, self.trials[0].seconds, self._contexts(going), rng), going)
            going = going[self._lengths[going] < self.length]
            if not len(going):
                break

    def _begin(self, rows: np.ndarray) -> None:
        self.rows, self.texts = rows, np.full((len(rows), self.length), PLACEHOLDER)
        self._lengths, self._codes = np.zeros(len(rows), int), np.zeros(len(rows), int)

    def _contexts(self, going: np.ndarray) -> np.ndarray:
        """(n, k) the ids after which the rows `going` continue, filled up with -1 at the start."""
        starts, lengths = self._starts[self.rows[going]], self._lengths[going]
        longest = int(lengths.max())
        if not longest:
            return starts
        texts = self.texts[going]
        width = starts.shape[1] + longest
        found = np.full((len(going), width), PLACEHOLDER)
        ids = np.where(texts >= 0, self.play.given_ids[texts], PLACEHOLDER)
        for length in np.unique(lengths):
            rows = lengths == length
            found[rows, width - length :] = ids[rows, :length]
            found[rows, longest - length : width - length] = starts[rows]
        return found

    def _read(self, emitted: object, going: np.ndarray) -> None:
        """Add what the step emitted to the texts of the rows `going`."""
        try:
            ids = padded(emitted)  # pyrefly: ignore[bad-argument-type]
        except (InputError, TypeError, ValueError, RuntimeError) as error:
            raise BrokenStepError(f"the step must return rows of tokens: {error}") from error
        if len(ids) != len(going):
            raise BrokenStepError(f"the step must return one row for each of {len(going)} contexts, got {len(ids)}")
        is_there = ids != PLACEHOLDER
        if (holes := is_there[:, 1:] & ~is_there[:, :-1]).any():
            row, at = np.argwhere(holes)[0].tolist()
            what = f"row {row} has the placeholder -1 before the token {ids[row, at + 1]}: {ids[row].tolist()!s:.60}"
            self._refuse(int(going[row]), ids[row, : at + 2], what)
        if not is_there[:, :1].any(axis=1).all():
            row = int(np.flatnonzero(~is_there.any(axis=1))[0])
            raise BrokenStepError(f"row {row} emitted no token: a step emits at least one in each row")
        tokens = self.play.tokens_by_id[np.where(ids >= 0, np.minimum(ids, len(self.play.tokens_by_id) - 1), -1)]
        before = self._lengths[going]
        fits = is_there & (np.arange(ids.shape[1]) < (self.length - before)[:, None])
        if (wrong := fits & (tokens < 0)).any():
            row, at = np.argwhere(wrong)[0].tolist()
            self._refuse(int(going[row]), ids[row, : at + 1], self.play.unknown(int(ids[row, at])))
        longest = int(is_there.any(axis=0).sum()) - self.length
        for trial in self.trials:
            trial.unseen = max(trial.unseen, longest)
        for at, (is_new, token) in enumerate(zip(fits.T, tokens.T, strict=True)):
            rows = going[is_new]
            self.texts[rows, before[is_new] + at] = token[is_new]
            self._codes[rows] = self._codes[rows] * self.vocab_size + token[is_new]
            self._lengths[rows] += 1
        never = self._impossible[self.rows[going], self._nodes()[going]]
        if never.any():
            row = int(going[np.flatnonzero(never)[0]])
            self._refuse(row, (), f"row {row} emitted {self._text(row)}, to which the target gives probability 0")

    def _nodes(self) -> np.ndarray:
        """The number of the node of each text."""
        return self._offsets[self._lengths] + self._codes

    def _text(self, row: int) -> Context:
        return tuple(token for token in self.texts[row].tolist() if token >= 0)

    def _refuse(self, row: int, emitted: Iterable[int], message: str) -> NoReturn:
        """Record what the row has emitted before and emits now, and raise NeverEmittedError."""
        self.refused = row, (*self._text(row), *map(int, emitted))
        self.trials[int(self.rows[row])].refuse(self.refused[1], message)
