"""The exact certifier: it sums over all drafts in small worlds, and compares the output with the target by equality."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
    shown,
    text,
)
from spectheory.certify.guard import CodeEndedError, ends_are_errors, place
from spectheory.certify.play import max_depth, wide_play
from spectheory.certify.small_worlds import (
    SIZES,
    cases_of,
    cases_of_many,
    draws_by_depth,
    max_draws,
    plain_case,
    shapes,
)
from spectheory.certify.step import certify_in_worlds
from spectheory.certify.subject import (
    ROUNDED,
    Difference,
    Ending,
    NotADistributionError,
    OutOfReachError,
    Raised,
    Subject,
    compare,
    floats,
    fractions,
    own_generators,
    subject_of,
)
from spectheory.core.chance import BranchError, Pick, draw
from spectheory.core.checks import check_number, check_whole, checked
from spectheory.core.coins import Coin, exact
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy, Levels

MOST_DRAFTS_ASKED = 20_000
"""Maximum number of drafts that a policy may have with the smallest vocabulary."""
MOST_CASES = 1_000_000
"""Maximum number of worlds that can be asked for."""
FEW_DRAFTS = 90
"""A tree and vocabulary size of fewer drafts has so many worlds that those of all rules have about this many in all."""
CASES = 40
"""Number of random worlds by default."""
REPEATS = 5
"""A verifier that draws is compared this often in one world. The results differ if it draws from other than `rng`."""
LEVEL = 1e-9
"""Probability at most with which runs contradict a right enumeration; see `_Hunt._contradict`."""
MOST_RUNS = 5_000
"""Maximum number of these runs. They suffice for a total variation of 0.05 or more."""
UNSTEADY = "it returned different results for the same draws: it has a random source or a state of its own"
CONTRADICTED = "with random numbers of numpy.random it emits the target's distribution, and not what was enumerated"
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
@checked
def certify_verifier(
    given: Any,
    *,
    rules: Sequence[DrawRule] | DrawRule | None = None,
    policies: Sequence[DrawPolicy] | None = None,
    sizes: Sequence[int] | None = None,
    cases: int = CASES,
    seconds: float = 10.0,
    seed: int = 0,
    zero_coins: bool = False,
    tolerance: float = 0.0,
    alpha: float = 1e-6,
) -> Certificate:
    """Check by enumeration in exact numbers whether a verifier keeps the target's distribution.

    In each of many random worlds, the distribution of the output is summed over all drafts of a policy, extended by the
    target to a common length, and compared with the target's distribution. They must be equal, or within 1e-6 if the
    verifier computes in floating point. The counterexample is the simplest world with at least a quarter of the largest
    total variation. The same arguments give the same certificate; no clock decides, except that a call may take too
    long, and then the verdict is UNDECIDED and says so.

    Errors in branches of probability up to 1e-6 are notes; after a more probable one the verdict is LOSSY if another
    world shows it, else UNDECIDED. UNDECIDED is also code that draws from a random source of its own, or whose runs
    with real random numbers contradict the enumeration. Without `policies` and `sizes`, code that draws is also run,
    with random numbers, on ids of a large vocabulary (`spectheory.certify.play.wide_play`).

    Args:
        given: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`. The function draws from
            `rng`, which has the methods random, uniform, choice, integers, permutation, exponential and gumbel of
            `numpy.random.Generator`, or from `random`, `numpy.random` or a library with a replay, such as PyTorch.
        rules: rules by which drafts are drawn; default: the verifier's own `rules`.
        policies: draft trees to grow; default: all of `spectheory.certify.small_worlds.shapes`.
        sizes: vocabulary sizes of the worlds; default: 2 and 3, and for policies of depth 1 with up to two draws also
            worlds of 64 tokens.
        cases: number of random worlds to compare. Each policy and vocabulary size has at least one, and more if it has
            few drafts.
        seconds: maximum processor time of one call of `given`, and of all calls on one draft, checked when it returns;
            `spectheory certify` interrupts a call that never returns.
        seed: seed of the worlds.
        zero_coins: whether the verdict is LOSSY if the verifier emits a token of probability 0 when a random number is
            exactly 0. Half of the published samplers do so, because they accept by `<=`.
        tolerance: the verdict is WITHIN if no total variation is above this, for code that computes in low precision.
        alpha: maximum probability of LOSSY for a right verifier.

    Raises:
        InputError: `given` cannot be certified, an argument is out of range, or a policy has too many drafts.
        CodeEndedError: `given` raised SystemExit where the certificate cannot report it.
    """
    check_whole("cases", cases, 1, most=MOST_CASES)
    check_number("seconds", seconds, 1e-9)
    check_number("alpha", alpha, 1e-300, 1 - 1e-12)
    check_number("tolerance", tolerance, 0, 1 - 1e-12)
    if sizes is not None and min(sizes) < 2:
        raise InputError(f"sizes must be vocabulary sizes of at least 2, got {list(sizes)}")
    subject = subject_of(given, rules, seconds)
    wanted = list(policies or [policy for rule in subject.rules for policy in shapes(rule)])
    fewest = min(sizes or SIZES)
    for policy in wanted:
        if policy.rule not in subject.rules:
            raise InputError(f"{policy} draws by {policy.rule.name}: add it to rules, or choose another policy")
        if (drafts := fewest ** sum(draws_by_depth(policy))) > MOST_DRAFTS_ASKED:
            raise InputError(
                f"{policy} has up to {drafts:,} drafts of {fewest} tokens; at most {MOST_DRAFTS_ASKED:,} can be "
                "enumerated: certify a smaller tree"
            )
    hunt = _Hunt(subject, zero_coins, tolerance)
    refused = hunt.prepare(wanted, sizes or SIZES)
    accepted = [policy for policy in wanted if policy not in refused]
    found = None if hunt.is_over else hunt.search(_all_cases(accepted, sizes, cases, seed))
    certificate = hunt.certificate(found, refused)
    is_default = policies is None and sizes is None and subject.sample is not None
    if certificate.verdict.exit_status or not is_default:
        return certificate
    with own_generators():
        plays = [wide_play(subject.sample, max(accepted, key=lambda policy: policy == Levels((2, 1), policy.rule)))]
        sampled = certify_in_worlds(plays, subject=subject.name, cycles=1, alpha=alpha, seconds=seconds, seed=seed)
    verdict = certificate.verdict if sampled.verdict is Verdict.WITHIN else sampled.verdict
    return replace(certificate, verdict=verdict, sampled=sampled)


def _all_cases(policies: Sequence[DrawPolicy], sizes: Sequence[int] | None, count: int, seed: int) -> Iterator[Case]:
    """The worlds of all policies but the plain ones, those of flat trees first; more for policies of few drafts."""
    used, few = sizes or SIZES, FEW_DRAFTS // max(1, len({policy.rule for policy in policies}))
    share = max(1, count // max(1, len(policies) * len(used)))
    for policy in sorted(policies, key=max_depth):
        for size in used:
            drafts, plain = size ** sum(draws_by_depth(policy)), plain_case(policy, used).size == size
            yield from cases_of(policy, size, max(share, few // drafts) - plain, seed)
        if sizes is None and max_depth(policy) * max_draws(policy) <= 2:
            yield from cases_of_many(policy, seed)


@dataclass
class _Hunt:
    """The search for a world in which the output does not have the target's distribution."""

    subject: Subject
    zero_coins: bool
    tolerance: float
    arithmetic: Numbers = fractions
    drafts: int = 0
    reached: list[tuple[Case, Score]] = field(default_factory=list)
    zeros: dict[str, Case] = field(default_factory=dict)
    rounded: dict[str, Any] = field(default_factory=dict)
    is_rounded: bool = False
    farthest: Any = 0
    failure: str | None = None
    failed: Any = 0
    error: Exception | None = None

    @property
    def is_over(self) -> bool:
        return isinstance(self.error, FATAL)

    def prepare(self, policies: Sequence[DrawPolicy], sizes: Sequence[int]) -> list[DrawPolicy]:
        """Find out whether the subject computes with fractions, and return the policies that it refuses."""
        refused = []
        for policy in policies:
            case = plain_case(policy, sizes)
            error = self._tried(case, 1 if self.reached else REPEATS)
            is_refusal = isinstance(error, InputError) and not isinstance(error, NotADistributionError)
            if is_refusal and self.subject.sample is None:
                refused.append(policy)
            elif error:
                self._fail(case, error)
                break
            elif self.is_rounded:
                self.arithmetic = floats
        return refused

    def _tried(self, case: Case, times: int = 1) -> Exception | None:
        """Compare a case and record its score; a hidden random source would make repetitions differ.

        Returns the error of a subject that could not be compared.
        """
        try:
            difference, numbers = self._measure(case)
            for _ in range(times - 1 if self.subject.sample else 0):
                if self._compare(case, numbers).output != difference.output:
                    raise BranchError(UNSTEADY)
        except Exception as error:
            return error
        self.drafts += len(difference.verified)
        self.is_rounded |= numbers is floats
        self.reached.append((case, self._grade(case, difference)))
        return None

    def _measure(self, case: Case) -> tuple[Difference, Numbers]:
        """The comparison, and its numbers: float64 if there is an error that Fractions may have caused."""
        with suppress(*NEEDS_FLOATS):
            difference = self._compare(case, self.arithmetic)
            errors = [raised.ending.error for raised in difference.raised]
            if self.arithmetic is floats or not any(isinstance(error, NEEDS_FLOATS) for error in errors):
                return difference, self.arithmetic
        return self._compare(case, floats), floats

    @np.errstate(divide="ignore", invalid="ignore")
    def _contradict(self, case: Case, difference: Difference) -> None:
        """Raise BranchError if runs with random numbers of numpy.random speak for the target, against the enumeration.

        The likelihood ratio of the two distributions is a martingale if the enumerated one is true: it then ever
        reaches 1 / `LEVEL` with a probability of at most `LEVEL`.
        """
        assert self.subject.sample
        rng, ratio = np.random.default_rng(0), 0.0
        chances = [float(one.chance) for one in difference.verified]
        with own_generators(), suppress(Exception):
            for i in rng.choice(len(chances), MOST_RUNS, p=chances):
                draft, p, _, _ = difference.verified[i]
                node, token = self.subject.sample(replace(draft, q=floats(draft.q)), floats(p), rng)
                text = (*draft.context(node), token)
                while len(text) < case.length:
                    text = (*text, draw(case.world.p(text).astype(float), rng))
                enumerated, target = float(difference.output.get(text, 0)), float(difference.target.get(text, 0))
                ratio += math.log(target / enumerated) if target and enumerated else math.inf if target else -math.inf
                if abs(ratio) > -math.log(LEVEL):
                    break
        if ratio > -math.log(LEVEL):
            raise BranchError(CONTRADICTED)

    @np.errstate(divide="ignore", invalid="ignore")
    def _compare(self, case: Case, numbers: Numbers) -> Difference:
        return compare(self.subject.distribution_of, case, numbers)

    def search(self, cases: Iterable[Case]) -> Case | None:
        """The simplest case with at least a quarter of the largest total variation, or None if there is no fault."""
        for case in cases:
            if (error := self._tried(case)) and not isinstance(error, OutOfReachError):
                self._fail(case, error)
            if self.is_over:
                return None
        most, _ = max((score for _, score in self.reached), default=RIGHT)
        far = [case for case, score in self.reached if score > RIGHT and 4 * score[0] >= most]
        return min(far, key=_size, default=None)

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
        self.farthest = max(self.farthest, off)
        if off <= self.tolerance:
            off = 0
        return off, int(self.zero_coins and difference.impossible is not None)

    def _fail(self, case: Case, error: Exception, raised: Raised | None = None) -> None:
        """Record an error; the most probable one is reported, or the first after which the search is over."""
        chance = raised.chance if raised else 1
        if self.is_over or not (self.failed < chance or isinstance(error, FATAL)):
            return
        did = f"raised {type(error).__name__}{place(error)}"
        kind = "its draws cannot be enumerated" if isinstance(error, BranchError) else did
        likely = "" if chance == 1 else f", with probability {number(chance)} on one draft"
        lines = [f"{kind}{likely}: {error}", *case.lines()]
        if raised:
            lines += [f"a run that shows it {did}; {known_of(raised.ending)}", f"before it, {drawn(raised.draft)}"]
        self.failure = "\n".join(lines)
        self.failed, self.error = chance, error

    def certificate(self, found: Case | None, refused: Sequence[DrawPolicy]) -> Certificate:
        """The certificate of the search. `found` is a lossy case."""
        counterexample = self._explained(found) if found else None
        verdict = Verdict.WITHIN if self.farthest else Verdict.LOSSLESS
        if self.error or not self.reached:
            verdict = Verdict.UNDECIDED
        if counterexample or isinstance(self.error, NotADistributionError):
            verdict = Verdict.LOSSY
        is_exact = self.arithmetic is fractions and not self.is_rounded
        numbers = "exact fractions" if is_exact else "floating point, to 1e-6"
        found_by = "its draws, enumerated over every branch" if self.subject.sample else "its distribution"
        return Certificate(
            subject=self.subject.name,
            verdict=verdict,
            method=f"{found_by}, in {numbers}",
            covered=covered([case for case, _ in self.reached]),
            tolerance=self.tolerance,
            farthest=self.farthest,
            refused=tuple(f"{policy.name} by {policy.rule.name}" for policy in refused),
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
            score = self._grade(case, difference)
            if score != next(known for one, known in self.reached if one is case):
                raise BranchError(UNSTEADY)
            if self.subject.sample:
                self._contradict(case, difference)
        except Exception as error:
            self._fail(case, error)
            return None
        draft, ending = difference.shown(score[0] > 0)
        run: tuple[str, ...] = ()
        if ending:
            emitted = ending.text(draft)
            target = ", then ".join(shown(case.world.p(emitted[:i])) for i in range(len(emitted)))
            did = f"a run that shows it emitted {text(emitted)}; {known_of(ending)}"
            run = did, f"there the target's distribution is {target}"
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
