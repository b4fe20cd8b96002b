"""The runs of a step that gets a batch of contexts in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np

from spectheory.certify.guard import within
from spectheory.certify.pairs import Pairs
from spectheory.certify.play import Play
from spectheory.certify.rows import PLACEHOLDER, padded
from spectheory.certify.trial import BrokenStepError, Trial, after_a_stop, raised
from spectheory.core.errors import InputError


class BatchRuns:
    """The runs of a play in batches. Each call gets equally many rows of all contexts, in random order.

    In the second cycle of a run, the contexts of a batch have different lengths, and a row whose text is complete is
    left out.

    Attributes:
        pairs: the bets against the claim that rows are independent.
        texts: (n, length) what each row of the last batch emitted, in tokens, -1 for none.
        rows: (n,) index of the context of each row of the last batch.
        refused: the row that emitted what the target never emits; None if none has.
    """

    def __init__(self, play: Play, trials: Sequence[Trial], own: np.random.Generator) -> None:
        self.play, self.trials, self.own = play, trials, own
        self.pairs = Pairs([trial.joint for trial in trials], own)
        self.length, self.vocab_size = play.length, play.vocab_size
        self._impossible = np.array([trial.joint.impossible for trial in trials])
        self._offsets = np.array(trials[0].offsets)
        self._is_stop = np.isin(np.arange(play.vocab_size + 1), list(play.stop_tokens))
        self._starts = _left_padded([play.in_ids(trial.context) for trial in trials])
        self.refused: int | None = None
        self._begin(np.zeros(0, int))

    def run(self, runs: int, rng: np.random.Generator) -> None:
        """Run the step `runs` times in each context.

        Raises:
            BrokenStepError: the step raised, or did not return rows of tokens.
            NeverEmittedError: a row has tokens to which the target gives probability 0.
        """
        order = self.own.permutation(np.repeat(np.arange(len(self.trials)), runs))
        for start in range(0, len(order), self.play.batch or 1):
            self.call(order[start : start + (self.play.batch or 1)], rng)
            nodes = self._nodes()
            for i, trial in enumerate(self.trials):
                trial.drawn += np.bincount(nodes[self.rows == i], minlength=len(trial.drawn))
            self.pairs.add(self.rows, self.texts)

    def call(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Run one batch, with the contexts of these indices, for all its cycles."""
        self._begin(rows)
        going, trial = np.arange(len(rows)), self.trials[0]
        for _ in range(trial.cycles):
            try:
                emitted = within(trial.seconds, self.play.step, self._contexts(going), rng)
            except Exception as error:
                raise BrokenStepError(raised(error)) from error
            self._read(emitted, going)
            lengths = self._lengths[going]
            going = going[(lengths < self.length) & ~self._is_stop[self.texts[going, lengths - 1]]]
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
        self._check_ends(ids, is_there, going)
        if not is_there[:, :1].any(axis=1).all():
            row = int(np.flatnonzero(~is_there.any(axis=1))[0])
            raise BrokenStepError(f"row {row} emitted no token: a step emits at least one in each row")
        tokens = self.play.tokens_by_id[np.where(ids >= 0, np.minimum(ids, len(self.play.tokens_by_id) - 1), -1)]
        before = self._lengths[going]
        fits = is_there & (np.arange(ids.shape[1]) < (self.length - before)[:, None])
        if (wrong := fits & (tokens < 0)).any():
            row, at = np.argwhere(wrong)[0].tolist()
            self._refuse(int(going[row]), ids[row, : at + 1], self.play.unknown(int(ids[row, at])))
        self._check_stops(ids, tokens, is_there, fits, going)
        longest = int(is_there.any(axis=0).sum()) - self.length
        for trial in self.trials:
            trial.unseen = max(trial.unseen, longest)
        for place, (is_new, token) in enumerate(zip(fits.T, tokens.T, strict=True)):
            rows = going[is_new]
            self.texts[rows, before[is_new] + place] = token[is_new]
            self._codes[rows] = self._codes[rows] * self.vocab_size + token[is_new]
            self._lengths[rows] += 1
        self._check_possible(going)

    def _check_ends(self, ids: np.ndarray, is_there: np.ndarray, going: np.ndarray) -> None:
        """Refuse a placeholder before a token."""
        holes = is_there[:, 1:] & ~is_there[:, :-1]
        if holes.any():
            row, at = np.argwhere(holes)[0].tolist()
            what = f"row {row} has the placeholder -1 before the token {ids[row, at + 1]}: {ids[row].tolist()!s:.60}"
            self._refuse(int(going[row]), ids[row, : at + 2], what)

    def _check_stops(
        self, ids: np.ndarray, tokens: np.ndarray, is_there: np.ndarray, fits: np.ndarray, going: np.ndarray
    ) -> None:
        """Refuse a token after a stop token."""
        after = is_there[:, 1:] & (fits & self._is_stop[tokens])[:, :-1]
        if after.any():
            row, at = np.argwhere(after)[0].tolist()
            text = (*self._text(int(going[row])), *tokens[row, : at + 1].tolist())
            self._refuse(int(going[row]), ids[row, : at + 2], after_a_stop(text))

    def _check_possible(self, going: np.ndarray) -> None:
        """Refuse texts of probability 0."""
        never = self._impossible[self.rows[going], self._nodes()[going]]
        if never.any():
            row = int(going[np.flatnonzero(never)[0]])
            self._refuse(row, (), f"row {row} emitted {self._text(row)}, to which the target gives probability 0")

    def _nodes(self) -> np.ndarray:
        """The number of the node of each text."""
        return self._offsets[self._lengths] + self._codes

    def _text(self, row: int) -> tuple[int, ...]:
        return tuple(token for token in self.texts[row].tolist() if token >= 0)

    def _refuse(self, row: int, emitted: Iterable[int], message: str) -> NoReturn:
        """Record what the row has emitted before and emits now, and raise NeverEmittedError."""
        self.refused = row
        self.trials[int(self.rows[row])].refuse((*self._text(row), *map(int, emitted)), message)


def _left_padded(contexts: Sequence[Sequence[int]]) -> np.ndarray:
    """(n, k) contexts, filled up with -1 at the start of each row; k is at least 1."""
    width = max([1, *map(len, contexts)])
    return np.array([[*[PLACEHOLDER] * (width - len(context)), *context] for context in contexts])
