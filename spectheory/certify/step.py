"""The sequential test of a decoding step. It stops as soon as there is a verdict, or after a maximum number of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from spectheory.certify.betting import pooled
from spectheory.certify.confidence import look_times, variation_bound
from spectheory.certify.guard import ends_are_errors
from spectheory.certify.joint import Joint
from spectheory.certify.step_certificate import Cell, StepCertificate
from spectheory.certify.trial import BrokenStepError, NeverEmittedError, Step, Trial
from spectheory.certify.verdict import Verdict
from spectheory.core.arrays import Vector
from spectheory.core.errors import InputError
from spectheory.core.world import Context

MOST_CELLS = 100_000

Progress = Callable[[int, float, float], None]


@ends_are_errors()
def certify_step(
    step: Step,
    target: Callable[[Context], Vector],
    *,
    subject: str = "step",
    contexts: Sequence[Context] = ((),),
    length: int = 2,
    cycles: int = 1,
    vocab_size: int,
    alpha: float = 1e-6,
    tv: float = 0.01,
    max_samples: int = 1_000_000,
    seconds: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> StepCertificate:
    """Test by sampling whether a whole decoding step, drafter included, keeps the target's distribution.

    The tested claim: in each context, the first `length` tokens have the target's joint distribution. If a step emits
    fewer tokens, the target extends them.

    - LOSSY: the wealth won by betting against the claim reached 1 / alpha. The probability of this verdict for a
      correct step is at most alpha (see `betting`).
    - WITHIN: the total variation is below `tv` in every context. If the runs are independent, the probability of this
      verdict for a step with a total variation of `tv` or more is at most alpha (see `confidence`).
    - UNDECIDED: `max_samples` runs gave neither verdict, or the step could not be run.

    Args:
        step: function (context, rng) -> tokens that one step emits, at least 1. Tokens after the first `length` are
            ignored. The step may ignore `rng` and use another random source, as long as its runs differ.
        target: function context -> (V,) distribution of the next token. It is called for all prefixes shorter than
            `length`.
        subject: name of the step in the certificate.
        contexts: contexts in which the step is tested, each a tuple of tokens.
        length: number of tokens whose joint distribution is compared. With one more than the depth of the drafts, every
            bonus token is compared; with two more, so is a token of the second cycle after it.
        cycles: number of calls of the step in one run, each after the tokens that the calls before it emitted. With 2,
            random numbers that are reused from one call to the next are detected.
        vocab_size: number of tokens V in the vocabulary.
        alpha: maximum probability of either wrong verdict.
        tv: the step passes if its total variation from the target is below this.
        max_samples: maximum number of runs of the step, over all contexts.
        seconds: maximum processor time of one run, checked when the run returns.
        seed: seed of `rng`.
        progress: called after each batch with (runs, log wealth, bound on the total variation).

    Raises:
        InputError: an argument is out of range, or the target does not return a distribution on the vocabulary. An
            error of the step is not raised; it is `failure` in the certificate.
        CodeEndedError: the target raised SystemExit.
    """
    contexts = [tuple(context) for context in contexts]
    _check(contexts, length, cycles, vocab_size, alpha, tv, max_samples)
    joints = [Joint.after(target, context, length, vocab_size) for context in contexts]
    trials = [Trial(step, c, joint, seconds, cycles) for c, joint in zip(contexts, joints, strict=True)]
    course = _Course(trials, look_times(max_samples // len(trials)), alpha, tv)
    rng = np.random.default_rng(seed).spawn(1)[0]
    while not course.is_over:
        course.go_on(rng)
        if progress:
            progress(*course.path[-1], course.bound)
    samples, log_wealth = course.path[-1]
    return StepCertificate(
        subject=subject,
        verdict=course.verdict,
        alpha=alpha,
        tv=tv,
        length=length,
        cycles=cycles,
        unseen=max(trial.unseen for trial in trials),
        samples=samples,
        log_wealth=log_wealth,
        tv_bound=course.bound,
        tv_seen=max(trial.variation() for trial in trials),
        worst=course.worst(),
        path=tuple(course.path),
        counts={trial.context: trial.runs for trial in trials},
        seed=seed,
        needed=course.needed(),
        failure=course.failure,
    )


class _Course:
    """The test in progress.

    Attributes:
        path: (runs, log wealth) at each look.
        bound: upper bound on the total variation in every context: the lowest so far, because all hold at once.
        failure: error of the step that ended the test; empty if there is none.
    """

    def __init__(self, trials: list[Trial], looks: list[int], alpha: float, tv: float) -> None:
        self.trials, self.looks, self.alpha, self.tv = trials, looks, alpha, tv
        self.path: list[tuple[int, float]] = [(0, 0.0)]
        self.bound, self.failure = 1.0, ""

    def go_on(self, rng: np.random.Generator) -> None:
        """Run the step in all contexts in turn up to the next look, then update the wealth and the bound."""
        runs = self.looks[len(self.path) - 1]
        try:
            for _ in range(runs - self.trials[0].wager.runs):
                for trial in self.trials:
                    trial.run(rng)
        except (NeverEmittedError, BrokenStepError) as found:
            self.failure = str(found)
        for trial in self.trials:
            trial.settle()
        never = any(trial.never for trial in self.trials)
        log_wealth = math.inf if never else pooled([trial.wager.log_wealth() for trial in self.trials])
        self.path.append((sum(trial.runs for trial in self.trials), log_wealth))
        if not self.failure:
            bounds = (variation_bound(t.variation(), runs, len(self.looks), self.alpha) for t in self.trials)
            self.bound = min(self.bound, max(bounds))

    @property
    def verdict(self) -> Verdict:
        """The verdict on the runs so far."""
        if self.path[-1][1] >= -math.log(self.alpha):
            return Verdict.LOSSY
        return Verdict.WITHIN if self.bound < self.tv and not self.failure else Verdict.UNDECIDED

    @property
    def is_over(self) -> bool:
        """Whether the test has a verdict, failed, or has used all runs."""
        return self.verdict is not Verdict.UNDECIDED or bool(self.failure) or len(self.path) > len(self.looks)

    def worst(self) -> Cell | None:
        """The cell with the strongest evidence against the step, over all contexts; None before the first run."""
        found = [trial.worst() for trial in self.trials if trial.runs]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def needed(self) -> int | None:
        """Estimated number of runs that bring the bound, which falls as 1 / sqrt(runs), below `tv`; plus a tenth.

        None if the test has a verdict or failed, or if the bound is not below 1 yet.
        """
        if self.verdict is not Verdict.UNDECIDED or self.failure or self.bound >= 1:
            return None
        needed = 1.1 * self.path[-1][0] * (self.bound / self.tv) ** 2
        unit = 10 ** max(0, math.floor(math.log10(needed)) - 1)
        return math.ceil(needed / unit) * unit


def _check(
    contexts: list[Context], length: int, cycles: int, vocab_size: int, alpha: float, tv: float, max_samples: int
) -> None:
    for name, value in (("alpha", alpha), ("tv", tv)):
        if not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, got {value}: 1e-6 and 0.01 are usual for alpha and tv")
    if not contexts or len(set(contexts)) < len(contexts):
        raise InputError(
            f"contexts must be one or more different contexts, got {contexts}: use [()] for the start of a text"
        )
    if length < 1 or vocab_size < 1:
        raise InputError(f"length and vocab_size must be at least 1, got {length} and {vocab_size}")
    if cycles < 1:
        raise InputError(f"cycles must be at least 1, got {cycles}: 2 also detect noise that is reused")
    if vocab_size**length > MOST_CELLS:
        raise InputError(
            f"vocab_size**length must be at most {MOST_CELLS:,} cells, got {vocab_size}**{length}: compare fewer "
            "tokens, or a step on a smaller vocabulary"
        )
    if max_samples < len(contexts):
        raise InputError(f"max_samples must be at least {len(contexts)}, one for each context, got {max_samples}")
