"""The exact certifier: it sums over all drafts in small worlds, and compares the output with the target by equality."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from spectheory.certify.certificate import (
    Case,
    Certificate,
    Counterexample,
    Verdict,
    covered,
    drawn,
    number,
    run_lines,
    shown,
    text,
)
from spectheory.certify.guard import CodeEndedError, ends_are_errors, place
from spectheory.certify.play import max_depth
from spectheory.certify.small_worlds import shapes, tables
from spectheory.certify.subject import (
    ROUNDED,
    Difference,
    Ending,
    NotADistributionError,
    Raised,
    Subject,
    compare,
    floats,
    fractions,
    subject_of,
)
from spectheory.core.chance import BranchError, Pick
from spectheory.core.checks import check_whole
from spectheory.core.coins import Coin, exact
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy

MOST_DRAFTS = 256
"""Maximum number of drafts in one world. A policy with more is covered only with a smaller vocabulary."""
MOST_DRAFTS_ASKED = 20_000
"""Maximum number of drafts that a policy may have with the smallest vocabulary."""
SIZES = 2, 3
"""Vocabulary sizes of the worlds."""
LARGE_SIZE = 6
"""Vocabulary size of further worlds for the smallest policies, for rules that act on many tokens."""
MOST_DRAFTS_LARGE = 36
"""Maximum number of drafts of a policy in a world of `LARGE_SIZE` tokens."""
REPEATS = 5
"""A verifier that draws is compared this often in one world. The results differ if it draws from other than `rng`."""
LEVEL = 1e-9
"""Maximum probability of LOSSY for a right verifier with a random source of its own; see `_Hunt._repeat`."""
MOST_REPEATS = 2_000
"""Maximum number of drafts that are verified again for this. They suffice for a total variation of 0.01 or more."""
UNSTEADY = "it returned different results for the same draws: it has a random source or a state of its own"
NEEDS_FLOATS = TypeError, AttributeError, ZeroDivisionError
"""Errors of code that runs on float64 and not on Fractions; 0/0 is NaN in float64."""
FATAL = BranchError, TimeoutError, CodeEndedError, NotADistributionError
"""Errors after which no more worlds are compared."""
Numbers = Callable[[Any], np.ndarray]
"""Makes the arrays that the subject gets: of fractions, or of floats."""
Score = tuple[Any, int]
"""The total variation of a case, 0 if it counts as rounding; 1 if a random number of 0 shows a fault that counts."""
RIGHT: Score = (0, 0)


@ends_are_errors()
def certify_verifier(
    given: Any,
    *,
    rules: Sequence[DrawRule] | DrawRule | None = None,
    policies: Sequence[DrawPolicy] | None = None,
    sizes: Sequence[int] | None = None,
    cases: int = 300,
    seconds: float = 10.0,
    seed: int = 0,
    zero_coins: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Check by enumeration in exact numbers whether a verifier keeps the target's distribution.

    In each of many random worlds, p and q of a context may have zeros, equal each other, have disjoint supports or be
    one-hot. In each world, the distribution of the output is summed over all drafts of a policy, extended by the
    target to a common length, and compared with the target's distribution. They must be equal, or within 1e-6 if the
    verifier computes in floating point. All worlds are compared. Of those with at least a quarter of the largest total
    variation, the simplest is the counterexample. The same arguments give the same worlds in the same order, and the
    same certificate; no clock decides, except that a call may take too long, and then the verdict is UNDECIDED and says
    so.

    Outcomes that are as good as impossible do not decide, and are notes in the certificate: a token of probability 0
    that is emitted only if a random number is exactly 0, and an error in branches of a probability up to 1e-6. After an
    error of higher probability, the verdict is LOSSY if another world shows it, else UNDECIDED.

    Code that draws from a random source of its own is UNDECIDED. If it is right, and its total variation was 0.01 or
    more by chance, it is called LOSSY with a probability of at most 1e-9: before this verdict, drafts are verified
    again.

    Args:
        given: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`. The function draws from
            `rng`, which has the methods random, uniform, choice, integers, permutation, exponential and gumbel of
            `numpy.random.Generator`, or from `random`, `numpy.random` or a library with a replay, such as PyTorch.
        rules: rules by which drafts are drawn; default: the verifier's own `rules`.
        policies: draft trees to grow; default: all of `spectheory.certify.small_worlds.shapes`.
        sizes: vocabulary sizes of the worlds; default: 2 and 3, and 6 for policies of depth 1 with up to two draws.
        cases: number of worlds to compare.
        seconds: maximum processor time of one call of `given`, and of all calls on one draft. It is checked when a call
            returns, so a call that never returns is not interrupted. `spectheory certify` does interrupt it.
        seed: seed of the worlds.
        zero_coins: whether the verdict is LOSSY if the verifier emits a token of probability 0 when a random number is
            exactly 0. Half of the published samplers do so, because they accept by `<=`.
        progress: called with the number of worlds compared so far.

    Raises:
        InputError: `given` cannot be certified, cases < 1, a size < 2, or a policy has too many drafts.
        CodeEndedError: `given` raised SystemExit where the certificate cannot report it.
    """
    check_whole("cases", cases, 1)
    if sizes is not None and (not sizes or min(sizes) < 2):
        raise InputError(f"sizes must be vocabulary sizes of at least 2, got {list(sizes)}")
    subject = subject_of(given, rules, seconds)
    wanted = list(policies or [policy for rule in subject.rules for policy in shapes(rule)])
    fewest = min(sizes or SIZES)
    for policy in wanted:
        if policy.rule not in subject.rules:
            raise InputError(f"{policy} draws by {policy.rule.name}: add it to rules, or choose another policy")
        if most_drafts(policy, fewest) > MOST_DRAFTS_ASKED:
            raise InputError(
                f"{policy} has up to {most_drafts(policy, fewest):,} drafts of {fewest} tokens; at most "
                f"{MOST_DRAFTS_ASKED:,} can be enumerated: certify a smaller tree"
            )
    hunt = _Hunt(subject, cases, progress, zero_coins)
    refused = hunt.prepare(wanted, fewest)
    settings = [
        (policy, size)
        for policy in wanted
        for size in sizes or _sizes_of(policy)
        if policy not in refused and (size == fewest or most_drafts(policy, size) <= MOST_DRAFTS)
    ]
    found = None if hunt.is_over else hunt.search_all(settings, seed)
    return hunt.certificate(found, refused)


def plain_case(policy: DrawPolicy, size: int) -> Case:
    """A case whose world has no zeros, and a residual on all tokens but one, which most wrong rules get wrong."""
    weights = [range(1, size + 1), [size * size, *[1] * (size - 1)]]
    p, q = (np.array([Fraction(weight, sum(of)) for weight in of], dtype=object) for of in weights)
    depths = range(max_depth(policy) + 1)
    return Case(policy, {c: (p, q) for depth in depths for c in itertools.product(range(size), repeat=depth)})


def most_drafts(policy: DrawPolicy, size: int) -> int:
    """Maximum number of different drafts of a policy: one for each sequence of draws."""
    nodes, draws, depth = 1, 0, 0
    while policy.draws(depth, 1):
        nodes *= policy.draws(depth, 1)
        draws, depth = draws + nodes, depth + 1
    return size**draws


def _sizes_of(policy: DrawPolicy) -> tuple[int, ...]:
    is_small = max_depth(policy) == 1 and most_drafts(policy, LARGE_SIZE) <= MOST_DRAFTS_LARGE
    return (*SIZES, LARGE_SIZE) if is_small else SIZES


@dataclass
class _Hunt:
    """The search for a world in which the output does not have the target's distribution."""

    subject: Subject
    cases: int
    progress: Callable[[int], None] | None
    zero_coins: bool
    arithmetic: Numbers = fractions
    seen: dict[str, Score] = field(default_factory=dict)
    drafts: int = 0
    reached: list[Case] = field(default_factory=list)
    zeros: dict[str, Case] = field(default_factory=dict)
    rounded: dict[str, Any] = field(default_factory=dict)
    is_rounded: bool = False
    failure: str | None = None
    failed: Any = 0
    error: Exception | None = None

    @property
    def is_over(self) -> bool:
        return isinstance(self.error, FATAL)

    def prepare(self, policies: Sequence[DrawPolicy], size: int) -> list[DrawPolicy]:
        """Find out whether the subject computes with fractions, and return the policies that it refuses."""
        refused = []
        for policy in policies:
            case = plain_case(policy, size)
            try:
                difference, self.arithmetic = self._steady(case)
                self._grade(case, difference)
            except Exception as error:
                is_refusal = isinstance(error, InputError) and not isinstance(error, NotADistributionError)
                if not (self.subject.states_distribution and is_refusal):
                    self._fail(case, error)
                    return refused
                refused.append(policy)
        return refused

    def _measure(self, case: Case) -> tuple[Difference, Numbers]:
        """The comparison, and its numbers: float64 if there is an error that Fractions may have caused."""
        with suppress(*NEEDS_FLOATS):
            difference = self._compare(case, self.arithmetic)
            errors = [raised.ending.error for raised in difference.raised]
            if self.arithmetic is floats or not any(isinstance(error, NEEDS_FLOATS) for error in errors):
                return difference, self.arithmetic
        return self._compare(case, floats), floats

    def _steady(self, case: Case) -> tuple[Difference, Numbers]:
        """The comparison, repeated if the subject draws. A hidden random source would make the repetitions differ."""
        difference, numbers = self._measure(case)
        for _ in range(0 if self.subject.states_distribution else REPEATS - 1):
            if self._compare(case, numbers).output != difference.output:
                raise BranchError(UNSTEADY)
        return difference, numbers

    @np.errstate(divide="ignore", invalid="ignore")
    def _repeat(self, difference: Difference) -> None:
        """Verify drawn drafts again, until a random source of its own would have shown.

        Suppose that the output has the target's distribution on average over such a source, and was off by a total
        variation of t by chance. Then a draft that is drawn ends otherwise with a probability of at least t: on each
        draft, the output is off from its mean by at most the probability that the draft ends otherwise. So n drafts end
        as before with a probability of at most (1 - t)^n, which is `LEVEL` unless n is `MOST_REPEATS`.
        """
        off, verified = float(difference.total_variation), difference.verified
        repeats = min(MOST_REPEATS, math.ceil(-math.log(LEVEL) / off)) if off else REPEATS
        chances = [float(one.chance) for one in verified]
        for i in np.random.default_rng(0).choice(len(verified), repeats, p=chances):
            draft, p, _, endings = verified[i]
            if [ending[:3] for ending in self.subject.distribution_of(draft, p)] != [ending[:3] for ending in endings]:
                raise BranchError(UNSTEADY)

    @np.errstate(divide="ignore", invalid="ignore")
    def _compare(self, case: Case, numbers: Numbers) -> Difference:
        return compare(self.subject.distribution_of, case.world, case.policy, case.length, numbers)

    def search_all(self, settings: Sequence[tuple[DrawPolicy, int]], seed: int) -> Case | None:
        """The simplest case with at least a quarter of the largest total variation, or None if there is no fault.

        All settings get equally many worlds.
        """
        shares = max(1, self.cases // max(1, len(settings)))
        for policy, size in sorted(settings, key=lambda setting: (max_depth(setting[0]), setting[1])):
            self.score(plain_case(policy, size))
            for table in tables(size, max_depth(policy), shares, seed):
                self.score(Case(policy, table))
        most, _ = max(map(self.score, self.reached), default=RIGHT)
        far = [case for case in self.reached if self.score(case) > RIGHT and 4 * self.score(case)[0] >= most]
        return None if self.is_over else min(far, key=_size, default=None)

    def score(self, case: Case) -> Score:
        """How far the output is from the target's distribution. A subject that raises is noted, and scores `RIGHT`."""
        key = "\n".join(case.lines())
        if key in self.seen or self.is_over:
            return self.seen.get(key, RIGHT)
        self.seen[key] = RIGHT
        try:
            difference, numbers = self._measure(case)
        except Exception as error:
            self._fail(case, error)
        else:
            self.drafts += len(difference.verified)
            self.reached.append(case)
            self.seen[key] = self._grade(case, difference)
            self.is_rounded |= numbers is floats
        if self.progress:
            self.progress(len(self.reached))
        return self.seen[key]

    def _grade(self, case: Case, difference: Difference) -> Score:
        """The score of a comparison. Errors, and coins of exactly 0 that show something, are recorded.

        A small total variation is rounding if a float took part in it. If not, it is exact, and a fault.
        """
        for raised in difference.raised:
            assert raised.ending.error is not None
            if raised.chance > ROUNDED:
                self._fail(case, raised.ending.error, raised)
                continue
            kind = f"raised {type(raised.ending.error).__name__}{place(raised.ending.error)}"
            if raised.chance == 0 and raised.ending.given_zeros > ROUNDED:
                kind += " when a random number is exactly 0"
            self.rounded[kind] = max(raised.chance, self.rounded.get(kind, 0))
        if difference.impossible:
            self.zeros[f"{text(difference.impossible)}, of probability 0,"] = case
        off = difference.total_variation
        if difference.is_rounded and off != 0 and off <= ROUNDED:
            self.is_rounded, off = True, 0
        return off, int(self.zero_coins and difference.impossible is not None)

    def _fail(self, case: Case, error: Exception, raised: Raised | None = None) -> None:
        """Record an error; the most probable one is reported, or the first after which the search is over."""
        chance = raised.chance if raised else 1
        if self.is_over or not (self.failed < chance or isinstance(error, FATAL)):
            return
        self.failed, self.error = chance, error
        did = f"raised {type(error).__name__}{place(error)}"
        kind = "its draws cannot be enumerated" if isinstance(error, BranchError) else did
        likely = "" if chance == 1 else f", with probability {number(chance)} on one draft"
        run = run_lines(f"{did}; {known_of(raised.ending)}", drawn(raised.draft)) if raised else ()
        self.failure = "\n".join([f"{kind}{likely}: {error}", *case.lines(), *run])

    def certificate(self, found: Case | None, refused: Sequence[DrawPolicy]) -> Certificate:
        """The certificate of the search. `found` is a lossy case."""
        counterexample = self._explained(found) if found else None
        verdict = Verdict.UNDECIDED if self.failure or not self.reached else Verdict.LOSSLESS
        if counterexample or isinstance(self.error, NotADistributionError):
            verdict = Verdict.LOSSY
        is_exact = self.arithmetic is fractions and not self.is_rounded
        numbers = "exact fractions" if is_exact else "floating point, to 1e-6"
        found_by = "its distribution" if self.subject.states_distribution else "its draws, enumerated over every branch"
        return Certificate(
            subject=self.subject.name,
            verdict=verdict,
            method=f"{found_by}, in {numbers}",
            covered=covered(self.reached),
            refused=tuple(f"{policy.name} by {policy.rule.name}" for policy in refused),
            sizes=tuple(sorted({case.size for case in self.reached})),
            cases=len(self.reached),
            drafts=self.drafts,
            counterexample=counterexample,
            failure=None if counterexample else self.failure,
            cannot_replay=isinstance(self.error, BranchError) and not counterexample,
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        """What does not count against the subject."""
        found = [
            f"{kind}, in branches of probability "
            + (f"{number(chance)} at most, which counts as rounding" if chance else "0")
            for kind, chance in self.rounded.items()
        ]
        if self.zeros and not self.zero_coins:
            what, case = min(self.zeros.items(), key=lambda pair: (len("".join(pair[1].lines())), pair[0]))
            found.append(
                f"emits {what} when a random number is exactly 0, which has probability 0; {'; '.join(case.lines())}"
            )
        return tuple(found)

    def _explained(self, case: Case) -> Counterexample | None:
        """The counterexample in a case; None if the subject does not repeat what it did."""
        try:
            difference, _ = self._measure(case)
            if self._grade(case, difference) != self.score(case):
                raise BranchError(UNSTEADY)
            if not self.subject.states_distribution:
                self._repeat(difference)
        except Exception as error:
            self._fail(case, error)
            return None
        draft, ending = difference.shown(self.score(case)[0] > 0)
        run: tuple[str, ...] = ()
        if ending:
            emitted = ending.text(draft)
            target = ", then ".join(shown(case.world.p(emitted[:i])) for i in range(len(emitted)))
            run = run_lines(f"emitted {text(emitted)}; {known_of(ending)}", target=target)
        return Counterexample(case, difference.output, difference.target, difference.total_variation, draft, run)


def known_of(ending: Ending) -> str:
    """What a run has settled of its random numbers, each with its place in the order of the draws."""
    if ending.branch is None:
        return "no random numbers: it computes its distribution"
    known = [_known(one) for one in ending.branch.drawn]
    found = [f"{place}: {what}" for place, what in enumerate(known, 1) if what]
    unread = len(known) - len(found)
    rest = [f"{unread} that nothing depends on"] if unread else []
    return f"random numbers {', '.join([*found, *rest])}" if known else "no random numbers"


def _known(one: Coin | Pick) -> str:
    """What is known of a random number; "" if nothing is."""
    if isinstance(one, Pick):
        return f"index {one.chosen} of weights {shown([exact(weight) for weight in one.weights])}"
    if one.is_zero or one.flipped is not None:
        return "exactly 0" if one.is_zero else "exponential"
    return "" if (one.low, one.high) == (0, 1) else f"uniform in ({number(one.low)}, {number(one.high)})"


def _size(case: Case) -> tuple[int, int, str]:
    lines = case.lines()
    return len(lines), sum(map(len, lines)), "\n".join(lines)
