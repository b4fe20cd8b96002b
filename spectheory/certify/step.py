"""Run a decoding step as a black box until it is found wrong, or near enough to the target, or time is up."""

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
    vocab_size: int,
    alpha: float = 1e-6,
    tv: float = 0.01,
    max_samples: int = 1_000_000,
    seconds: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> StepCertificate:
    """Whether a whole decoding step, its drafter's own chance included, emits tokens by the target's distribution.

    The claim tested: the first `length` tokens, those emitted extended by the target, have the target's joint
    distribution in each context, whatever happened before. LOSSY when the wealth won by betting against it reaches 1 /
    alpha, which it does for a right step with probability at most alpha (see `betting`); WITHIN when the total
    variation is bounded below `tv` in every context, which happens for a step that is `tv` or more away with
    probability at most alpha, its runs being independent (see `confidence`); UNDECIDED when `max_samples` do not settle
    it.

    Args:
        step: (context, rng) -> the tokens that one step emits, 1 or more; those beyond `length` are not looked at. It
            may ignore `rng`, a generator for the whole test, and draw by its own means, as long as runs differ.
        target: context -> (V,) distribution of the next token. It is asked for every prefix shorter than `length`.
        subject: how the step is called in the certificate.
        contexts: tuples of tokens to test after, in turn.
        length: number of tokens whose joint distribution is compared: one more than the drafted depth shows every bonus
            token.
        vocab_size: V.
        alpha: level of either error.
        tv: total variation below which the step is passed.
        max_samples: most runs of the step, over all contexts.
        seconds: limit on the processor time of one run, checked when it returns.
        seed: of `rng`.
        progress: called after each batch with (runs, log wealth, bound on the total variation).

    Raises:
        InputError: an argument is out of its range, or the target does not return a distribution on the vocabulary.
            What the step does wrong raises nothing; it is `failure` in the certificate.
        CodeEndedError: the target raised SystemExit.
    """
    contexts = [tuple(context) for context in contexts]
    _check(contexts, length, vocab_size, alpha, tv, max_samples)
    trials = [Trial(step, context, Joint.after(target, context, length, vocab_size), seconds) for context in contexts]
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
    """The test under way.

    Attributes:
        path: (runs, log wealth) at each look.
        bound: on the total variation in every context; the lowest so far, as all hold at once.
        failure: what ended the test early.
    """

    def __init__(self, trials: list[Trial], looks: list[int], alpha: float, tv: float) -> None:
        self.trials, self.looks, self.alpha, self.tv = trials, looks, alpha, tv
        self.path: list[tuple[int, float]] = [(0, 0.0)]
        self.bound, self.failure = 1.0, ""

    def go_on(self, rng: np.random.Generator) -> None:
        """Run the step in all contexts in turn up to the next look, and look."""
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
        """As things stand."""
        if self.path[-1][1] >= -math.log(self.alpha):
            return Verdict.LOSSY
        return Verdict.WITHIN if self.bound < self.tv and not self.failure else Verdict.UNDECIDED

    @property
    def is_over(self) -> bool:
        """Whether it is decided, broken off, or out of runs."""
        return self.verdict is not Verdict.UNDECIDED or bool(self.failure) or len(self.path) > len(self.looks)

    def worst(self) -> Cell | None:
        """The cell that speaks loudest against the step, over all contexts."""
        found = [trial.worst() for trial in self.trials if trial.runs]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def needed(self) -> int | None:
        """Samples at which the bound, falling as 1 / sqrt(samples), meets `tv`; a tenth more, to two digits, upward."""
        if self.verdict is not Verdict.UNDECIDED or self.failure or self.bound >= 1:
            return None
        needed = 1.1 * self.path[-1][0] * (self.bound / self.tv) ** 2
        unit = 10 ** max(0, math.floor(math.log10(needed)) - 1)
        return math.ceil(needed / unit) * unit


def _check(contexts: list[Context], length: int, vocab_size: int, alpha: float, tv: float, max_samples: int) -> None:
    for name, value in (("alpha", alpha), ("tv", tv)):
        if not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, got {value}: 1e-6 and 0.01 are usual for alpha and tv")
    if not contexts or len(set(contexts)) < len(contexts):
        raise InputError(f"contexts must name each context once, at least one, got {contexts}: use [()] for the start")
    if length < 1 or vocab_size < 1:
        raise InputError(f"length and vocab_size must be at least 1, got {length} and {vocab_size}")
    if vocab_size**length > MOST_CELLS:
        raise InputError(
            f"vocab_size**length must be at most {MOST_CELLS:,} cells, got {vocab_size}**{length}: compare fewer "
            "tokens, or a step on a smaller vocabulary"
        )
    if max_samples < len(contexts):
        raise InputError(f"max_samples must give each of {len(contexts)} contexts a run, got {max_samples}")
