"""The sequential test of a decoding step. It stops as soon as there is a verdict, or after a maximum number of runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spectheory.certify.betting import log_mean, pooled
from spectheory.certify.certificate import StepCertificate, Verdict, power_of_ten
from spectheory.certify.guard import ends_are_errors, within
from spectheory.certify.play import Play, length_of_two_cycles
from spectheory.certify.rows import padded
from spectheory.certify.trial import BrokenStepError, NeverEmittedError, Runs
from spectheory.core.arrays import Vector
from spectheory.core.checks import check_number, check_whole, checked
from spectheory.core.errors import InputError
from spectheory.core.world import Context

MOST_TRIED = 500
"""Maximum number of cells of the joint distribution if the length is not given."""
SECONDS = 60.0
"""Maximum processor time of one call."""
TRIALS = 20
"""Number of trial calls that show how many tokens a step emits."""
CLEAR = 0.01
"""Rows of a batch whose dependence has a wealth of 1 / CLEAR do not pass, and are described if the verdict is LOSSY."""


@ends_are_errors()
@checked
def certify_step(
    step: Callable[[Any, Any], Any],
    target: Callable[[Context], Vector],
    *,
    vocab_size: int,
    contexts: Sequence[Context] = ((),),
    length: int | None = None,
    cycles: int = 2,
    batch: int | None = None,
    ids: Sequence[int] | None = None,
    **options: Any,
) -> StepCertificate:
    """Test by sampling whether a whole decoding step, drafter included, keeps the target's distribution.

    The claim: in each context, the first `length` tokens have the target's joint distribution, after the target has
    extended shorter outputs. LOSSY and WITHIN are wrong with probability at most alpha each (see `betting` and
    `variation_bound`; the latter assumes independent runs). UNDECIDED: `max_samples` runs gave no verdict, or the step
    could not be run.

    With `batch`, the claim is also that the rows of a call are independent of each other, and WITHIN that any position
    of one row and any of another, in thirds (see `betting.Pairs`), are within `tv` of independent: with `batch` times
    the runs; 16 rows are enough where more are treated alike. A fault in one row is seen in one of `batch` runs.

    Args:
        step: function (context, rng) -> tokens that one step emits, at least 1. It may use another random source, as
            long as its runs differ. With `batch`, it is a function (contexts, rng) -> rows, see `Play`.
        target: function context -> (V,) distribution of the next token.
        vocab_size: number of tokens V in the vocabulary.
        contexts: contexts in which the step is tested, each a tuple of tokens.
        length: number of tokens whose joint distribution is compared; None for one more than the step emits in some
            trial calls, or fewer, but at least 2, in a large vocabulary.
        cycles: number of calls of the step in one run, each after the tokens that the calls before it emitted. With 2,
            random numbers that are reused from one call to the next are detected.
        batch: number of contexts in one call of the step, which may share a budget; None for one context a call.
        ids: (V,) token ids that the step uses instead of 0 to V - 1, such as `spread_ids(V, 9001)`.
        options: `subject`, `alpha`, `tv`, `max_samples`, `seconds` and `seed` of `certify_in_worlds`.

    Raises:
        InputError: an argument is out of range, or the target does not return a distribution on the vocabulary.
        CodeEndedError: the target raised SystemExit.
    """
    play = Play("", step, target, contexts, 2 if length is None else length, vocab_size, batch, ids)
    if length is None:
        play = replace(play, length=_enough(play, options.get("seed", 0)))
    return certify_in_worlds([play], cycles=cycles, **options)


def _enough(play: Play, seed: int) -> int:
    """The number of tokens to compare for two cycles, by the longest of some trial runs."""
    rng, longest = np.random.default_rng(seed), 1
    for number in range(TRIALS):
        context = play.in_ids(play.contexts[number % len(play.contexts)])
        try:
            given = context if play.batch is None else np.array([context] * play.batch).reshape(play.batch, -1)
            emitted = within(SECONDS, play.step, given, rng)
            longest = max(longest, len(emitted) if play.batch is None else padded(emitted).shape[1])
        except Exception:  # the test reports it
            break
    return max(2, length_of_two_cycles(longest, play.vocab_size, MOST_TRIED))


@ends_are_errors()
@checked
def certify_in_worlds(
    plays: Sequence[Play],
    *,
    subject: str = "step",
    cycles: int = 2,
    alpha: float = 1e-6,
    tv: float = 0.01,
    max_samples: int = 1_000_000,
    seconds: float = SECONDS,
    seed: int = 0,
) -> StepCertificate:
    """Test a step in several worlds at once, as `certify_step` does in one.

    All worlds share one level (see `betting.pooled`). WITHIN is wrong only if the bound of a world that is off is.

    Args:
        plays: the step in each world, with a name of its own. A world with more evidence gets more runs, and one that
            has passed gets no more.
        subject: name of the step in the certificate.
        cycles: see `certify_step`.
        alpha: maximum probability of either wrong verdict, over all worlds.
        tv: the step passes if its total variation from the target, and that of two rows of a batch from independent
            ones as `betting.Pairs` sees them, are below this in every world.
        max_samples: maximum number of runs of the step, over all worlds and contexts.
        seconds: maximum processor time of one call, checked when it returns.
        seed: seed of the random source that the steps get.

    Raises:
        InputError: an argument is out of range.
    """
    plays = list(plays)
    _check(plays, cycles, alpha, tv, max_samples)
    check_number("seconds", seconds, 1e-9)
    rng, own = np.random.default_rng(seed).spawn(2)
    course = _Course([Runs(play, seconds, cycles, own) for play in plays], max_samples, alpha, tv)
    while not course.is_over:
        course.go_on(rng)
    (samples, log_wealth), (seen, bound, pair_bound) = course.path[-1], course.variation
    worst = max((t for t in course.trials if t.runs), key=lambda trial: trial.worst()[0], default=None)
    counts: Counter[Context] = Counter()
    for trial in course.trials:
        counts[trial.context] += trial.runs
    return StepCertificate(
        subject=subject,
        verdict=course.verdict,
        alpha=alpha,
        tv=tv,
        length=max(play.length for play in plays),
        cycles=cycles,
        unseen=max(runs.unseen for runs in course.plays),
        samples=samples,
        log_wealth=log_wealth,
        tv_bound=bound,
        tv_seen=seen,
        tv_pairs=pair_bound,
        worst=None if worst is None else worst.worst()[1],
        path=tuple(course.path),
        counts=dict(counts),
        seed=seed,
        failure=course.failure,
        dependence=course.dependence(),
        batch=max(play.batch or 0 for play in plays) or None,
        worlds=tuple(play.world for play in plays if play.world),
    )


class _Course:
    """The test in progress: `path` as in the certificate, and for each play its number of looks and lowest bound."""

    def __init__(self, plays: list[Runs], max_samples: int, alpha: float, tv: float) -> None:
        self.plays, self.alpha = plays, alpha
        self.trials = [trial for runs in plays for trial in runs.trials]
        self.pairs = [runs.pairs for runs in plays if runs.pairs]
        self.limits = [max(tv, runs.play.tv or 0) for runs in plays]
        first = max([1, *(math.ceil((runs.play.batch or 1) / len(runs.trials)) for runs in plays)])
        self.looks = look_times(max_samples // min(len(runs.trials) for runs in plays), first)
        self.most = max_samples
        self.path: list[tuple[int, float]] = [(0, 0.0)]
        self.bounds, self.turns, self.failure = [1.0] * len(plays), [0] * len(plays), ""
        self.pair_bounds = [float(runs.pairs is not None) for runs in plays]

    def going(self) -> list[int]:
        """The plays that have not passed, and whose next looks fit into the runs that are left."""
        found, left = [], self.most - self.path[-1][0]
        for i, (runs, turn) in enumerate(zip(self.plays, self.turns, strict=True)):
            if turn < len(self.looks) and not self.has_passed(i):
                needed = (self.looks[turn] - runs.trials[0].wager.runs) * len(runs.trials)
                if needed <= left:
                    found.append(i)
                    left -= needed
        return found

    def go_on(self, rng: np.random.Generator) -> None:
        """Run plays up to their next look, then update the wealth and the bounds.

        Three of four times, this is only the play with the most evidence so far.
        """
        going = self.going()
        if len(self.path) % 4:
            going = [max(going, key=lambda i: self._log_wealth_of(self.plays[i]))]
        try:
            for i in going:
                self.plays[i].run(self.looks[self.turns[i]] - self.plays[i].trials[0].wager.runs, rng)
        except (NeverEmittedError, BrokenStepError) as found:
            self.failure = str(found)
        for settled in (*self.trials, *self.pairs):
            settled.settle()
        never = any(trial.never for trial in self.trials)
        self.path.append((sum(trial.runs for trial in self.trials), math.inf if never else self._log_wealth()))
        if self.failure and not never:
            self.failure += f" (in 1 of {self.path[-1][0] + 1:,} runs)"
        for i in going if not self.failure else ():
            runs, looks = self.plays[i], len(self.looks)
            bounds = [variation_bound(trial.variation(), trial.runs, looks, self.alpha) for trial in runs.trials]
            self.bounds[i] = min(self.bounds[i], max(bounds))
            if pairs := runs.pairs:
                self.pair_bounds[i] = min(self.pair_bounds[i], variation_bound(*pairs.variation(), looks, self.alpha))
            self.turns[i] += 1

    def has_passed(self, i: int) -> bool:
        """Whether a play is within its limit, and nothing says that rows of a batch depend on each other."""
        is_within = max(self.bounds[i], self.pair_bounds[i]) < self.limits[i]
        pairs = self.plays[i].pairs
        return is_within and not (pairs and pairs.is_suspicious) and self.log_pairs() < -math.log(CLEAR)

    @property
    def variation(self) -> list[float]:
        """The largest total variation seen, and bounds on that and on that of `betting.Pairs`.

        They are over all plays that have no limit of their own, or over all plays.
        """
        seen = [max(trial.variation() for trial in runs.trials) for runs in self.plays]
        found = np.array([seen, self.bounds, self.pair_bounds])
        common = [runs.play.tv is None for runs in self.plays]
        return found[:, common if any(common) else slice(None)].max(axis=1).tolist()

    def _log_wealth(self) -> float:
        """Log of the wealth over all contexts. The bets on pairs of rows have half of the capital if there are any.

        They bet on the same runs as the others, so that their product would not be a fair bet.
        """
        found = pooled([trial.wager.log_wealth() for trial in self.trials])
        return log_mean(np.array([found, self.log_pairs()])) if self.pairs else found

    def _log_wealth_of(self, runs: Runs) -> float:
        """Log of the larger wealth in a play: of the bets on its contexts, or on pairs of its rows."""
        found = sum(trial.wager.log_wealth() for trial in runs.trials)
        return max(found, runs.pairs.log_wealth()) if runs.pairs else found

    def log_pairs(self) -> float:
        """Log of the wealth of the bets on pairs of rows."""
        return pooled([pairs.log_wealth() for pairs in self.pairs]) if self.pairs else 0.0

    def dependence(self) -> str:
        """How rows of a batch depend on each other, if there is evidence for it; else empty."""
        clear = self.verdict is Verdict.LOSSY and self.log_pairs() >= -math.log(CLEAR)
        return f"rows of a batch depend on each other (evidence {power_of_ten(self.log_pairs())})" if clear else ""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the runs so far."""
        if self.path[-1][1] >= -math.log(self.alpha):
            return Verdict.LOSSY
        has_passed = all(map(self.has_passed, range(len(self.plays))))
        return Verdict.WITHIN if has_passed and not self.failure else Verdict.UNDECIDED

    @property
    def is_over(self) -> bool:
        """Whether the test has a verdict, failed, or has used all runs."""
        return self.verdict is not Verdict.UNDECIDED or bool(self.failure) or not self.going()


def _check(plays: Sequence[Play], cycles: int, alpha: float, tv: float, max_samples: int) -> None:
    for name, value in (("alpha", alpha), ("tv", tv)):
        check_number(name, value, 1e-300, 1 - 1e-12)
    check_whole("cycles", cycles, 1, ": 2 also detect noise that is reused")
    if len({play.world for play in plays}) < max(1, len(plays)):
        raise InputError(f"plays must be one or more worlds with different names, got {[play.world for play in plays]}")
    trials = sum(len(play.contexts) for play in plays)
    if max_samples < trials:
        raise InputError(f"max_samples must be at least {trials}, one for each context, got {max_samples}")


FIRST_LOOK = 32
GROWTH = 1.1


def look_times(most: int, first: int = FIRST_LOOK) -> list[int]:
    """The numbers of runs after which the test looks at the data: each is about a tenth larger, the last is `most`.

    They are at least `FIRST_LOOK` runs apart, and at least `first`.
    """
    apart = max(first, FIRST_LOOK)
    times = [min(apart, most)]
    while times[-1] < most:
        times.append(min(most, max(times[-1] + apart, math.ceil(GROWTH * times[-1]))))
    return times


def variation_bound(seen: float, runs: int, looks: int, alpha: float) -> float:
    """Upper bound on a step's total variation from the target's joint distribution J.

    The probability that the bound is wrong at any look is at most alpha.

    Theorem. Let Y_1, ..., Y_n be independent random distributions on the joint cells with E Y_i = P, where Y_i is the
    distribution of run i after the target has extended its output. Let T = TV(mean of the Y_i, J), the argument `seen`.
    T is convex in this mean, so TV(P, J) <= E T by Jensen's inequality. Replacing one run changes T by at most 1 / n,
    so E T < T + e except with probability exp(-2 n e^2), by McDiarmid's inequality. For e = sqrt(log(looks / alpha) /
    2 n), the bound T + e holds at all `looks` looks at once, except with probability alpha, by the union bound.

    The number of cells enters only through T. For the largest bound over contexts, or over pairs of rows, no union over
    them is needed: it is below the largest total variation only if the bound of that one context or pair fails.
    Source: McDiarmid 1989, Lemma 1.2.
    """
    return min(1.0, seen + math.sqrt(math.log(looks / alpha) / (2 * runs)))
