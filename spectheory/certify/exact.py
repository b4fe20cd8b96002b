"""The exact certifier: it sums over all drafts in small worlds, and compares the output with the target by equality."""

from __future__ import annotations

import itertools
import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from spectheory.certify.certificate import Case, Certificate, Counterexample, number, text
from spectheory.certify.guard import CodeEndedError, ends_are_errors
from spectheory.certify.output_distribution import ROUNDED, Difference, NotADistributionError, Raised, compare
from spectheory.certify.replays import replaying_modules
from spectheory.certify.subject import Subject, floats, fractions, subject_of
from spectheory.certify.verdict import Verdict
from spectheory.core.chance import BranchError, branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy

MOST_DRAFTS = 256
"""Maximum number of drafts in one world. A policy with more is covered only with a smaller vocabulary."""
REPEATS = 5
"""A verifier that draws is compared this often in one world. The results differ if it draws from other than `rng`."""
MOST_DRAFTS_ASKED = 20_000
"""Maximum number of drafts that a policy may have with the smallest vocabulary."""
SIZES = 2, 3
"""Vocabulary sizes of the worlds."""
LARGE_SIZE = 6
"""Vocabulary size of further worlds for the smallest policies, for rules that act on many tokens."""
MOST_DRAFTS_LARGE = 36
"""Maximum number of drafts of a policy in a world of `LARGE_SIZE` tokens."""
MOST_SHRINKS = 100
"""Maximum number of cases that are compared to make a counterexample smaller."""
MOST_LOOKS = 300
"""Maximum number of cases that are looked at to make a counterexample smaller; most were compared before."""
NEEDS_FLOATS = TypeError, AttributeError, ZeroDivisionError
"""Errors of code that runs on float64 and not on Fractions; 0/0 is NaN in float64."""
FATAL = BranchError, TimeoutError, CodeEndedError, NotADistributionError
"""Errors after which no more worlds are compared."""
Score = tuple[Any, int]
"""The total variation of a case, 0 up to the tolerance; and 1 if a coin of exactly 0 counts and shows a fault."""
RIGHT: Score = (0, 0)


class _EnoughError(BaseException):
    """The counterexample is small enough. Hypothesis does not catch this exception."""


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

    Hypothesis draws worlds, in which p and q of a context may have zeros, equal each other, have disjoint supports or
    be one-hot. In each world, the distribution of the output is summed over all drafts of a policy, extended by the
    target to a common length, and compared with the target's distribution. They must be equal, or within 1e-6 if the
    verifier computes in floating point. All worlds are compared. The one
    with the largest total variation is shrunk to the smallest world with at least this total variation.

    Outcomes that are as good as impossible do not decide, and are notes in the certificate: a token of probability 0
    that is emitted only if a random number is exactly 0, and an error in branches of a probability up to 1e-6. After an
    error of higher probability, the verdict is LOSSY if another world shows it, else UNDECIDED.

    Args:
        given: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`. The function draws from
            `rng`, which has the methods random, uniform, choice, integers, permutation, exponential and gumbel of
            `numpy.random.Generator`, or from `random`, `numpy.random` or a library with a replay, such as PyTorch.
        rules: rules by which drafts are drawn; default: the verifier's own `rules`.
        policies: draft trees to grow; default: all of `spectheory.certify.strategies.shapes`.
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
        ImportError: Hypothesis is not installed.
        CodeEndedError: `given` raised SystemExit where the certificate cannot report it.
    """
    if cases < 1:
        raise InputError(f"cases must be at least 1, got {cases}")
    if sizes is not None and (not sizes or min(sizes) < 2):
        raise InputError(f"sizes must be vocabulary sizes of at least 2, got {list(sizes)}")
    try:
        from spectheory.certify import strategies
    except ImportError as error:
        raise ImportError(
            "certify_verifier draws its worlds with Hypothesis: pip install 'spectheory[certify]'"
        ) from error
    subject = subject_of(given, rules, seconds)
    wanted = list(policies or [policy for rule in subject.rules for policy in strategies.shapes(rule)])
    fewest = min(sizes or SIZES)
    for policy in wanted:
        if policy.rule not in subject.rules:
            raise InputError(
                f"{policy} draws by {policy.rule.name}, but {subject.name} is certified for "
                f"{list(subject.rules)}: add the rule to rules, or choose another policy"
            )
        if _most_drafts(policy, fewest) > MOST_DRAFTS_ASKED:
            raise InputError(
                f"{policy} has up to {_most_drafts(policy, fewest):,} drafts with a vocabulary of {fewest} "
                f"tokens; at most {MOST_DRAFTS_ASKED:,} can be enumerated for each world: certify a smaller tree"
            )
    hunt = _Hunt(subject, fractions, cases, progress, zero_coins)
    refused = hunt.prepare(wanted, fewest)
    settings = [
        (policy, size)
        for policy in wanted
        for size in sizes or _sizes(policy)
        if policy not in refused and (size == fewest or _most_drafts(policy, size) <= MOST_DRAFTS)
    ]
    found = None if hunt.is_over else hunt.search_all(settings, seed)
    return hunt.certificate(found, refused)


@dataclass(repr=False)
class _Hunt:
    """The search for a world in which the output does not have the target's distribution.

    It has no `repr` of its fields, because Hypothesis prints the object whose method it searches with at every search.
    """

    subject: Subject
    arithmetic: Callable[[Any], np.ndarray]
    cases: int
    progress: Callable[[int], None] | None
    zero_coins: bool
    seen: dict[str, Score] = field(default_factory=dict)
    drafts: int = 0
    reached: list[Case] = field(default_factory=list)
    off: dict[str, Any] = field(default_factory=dict)
    zeros: dict[str, Case] = field(default_factory=dict)
    rounded: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    failed: Any = 0
    is_over: bool = False
    is_not_a_distribution: bool = False
    cannot_replay: bool = False

    @property
    def tolerance(self) -> float:
        """The largest total variation that counts as equal."""
        return 0 if self.arithmetic is fractions else ROUNDED

    def prepare(self, policies: Sequence[DrawPolicy], size: int) -> list[DrawPolicy]:
        """Find out whether the subject computes with fractions, and return the policies that it refuses."""
        refused = []
        for policy in policies:
            case = _plain_case(policy, size)
            try:
                self._settle_numbers(case)
            except Exception as error:
                if (
                    self.subject.states_distribution
                    and isinstance(error, InputError)
                    and not isinstance(error, NotADistributionError)
                ):
                    refused.append(policy)
                else:
                    self._fail(case, error)
                    return refused
        return refused

    def _settle_numbers(self, case: Case) -> None:
        """Compare in exact numbers, or in float64 if the subject does not run on Fractions."""
        self._grade(case, self._steady(case))

    def _measure(self, case: Case) -> Difference:
        """The comparison, in float64 from the first error on that Fractions may have caused."""
        if self.arithmetic is floats:
            return self._compare(case, floats)
        try:
            difference = self._compare(case, fractions)
            if not any(isinstance(raised.error, NEEDS_FLOATS) for raised in difference.raised):
                return difference
        except NEEDS_FLOATS:
            pass
        self.arithmetic = floats
        return self._compare(case, floats)

    def _steady(self, case: Case) -> Difference:
        """The comparison, repeated if the subject draws. A hidden random source would make the repetitions differ."""
        difference = self._measure(case)
        for _ in range(0 if self.subject.states_distribution else REPEATS - 1):
            if self._compare(case, self.arithmetic).output != difference.output:
                raise BranchError(
                    "it returned different results for the same draws: it has a random source or a state of its own"
                )
        return difference

    def search_all(self, settings: Sequence[tuple[DrawPolicy, int]], seed: int) -> Case | None:
        """The smallest case with the largest total variation, or None. All settings get equally many worlds."""
        from spectheory.certify import strategies

        shares = max(1, self.cases // max(1, len(settings)))
        largest: tuple[Score, Case | None] = (RIGHT, None)
        for policy, size in sorted(settings, key=lambda setting: (strategies.max_depth(setting[0]), setting[1])):
            plain, before = _plain_case(policy, size), len(self.reached)
            self.score(plain)
            self._find(plain, shares, seed, lambda case: self.score(case) < RIGHT)
            for case in [plain, *self.reached[before:]]:
                largest = max(largest, (self.score(case), case), key=lambda pair: pair[0])
        score, case = largest
        return None if case is None or self.is_over else self.smallest(case, score, shares, seed)

    def smallest(self, found: Case, score: Score, cases: int, seed: int) -> Case:
        """The smallest case that Hypothesis makes of `found` and whose score is at least `score`."""
        size, looks, compared = len(found.distributions[()][0]), 0, 0
        shown: list[Case] = []

        def shows(case: Case) -> bool:
            nonlocal looks, compared
            before = len(self.reached)
            enough = self.score(case) >= score
            if shown:
                looks, compared = looks + 1, compared + len(self.reached) - before
            if enough:
                shown.append(case)
            if looks >= MOST_LOOKS or compared >= MOST_SHRINKS:
                raise _EnoughError
            return enough

        with suppress(_EnoughError):
            self._find(_plain_case(found.policy, size), cases, seed, shows)
        return min([*reversed(shown), found], key=lambda case: (len(case.lines()), len("".join(case.lines()))))

    def _find(self, plain: Case, cases: int, seed: int, condition: Callable[[Case], bool]) -> None:
        """Let Hypothesis look for a case that meets the condition, in `cases` worlds of the shape of `plain`."""
        from hypothesis import HealthCheck, Phase, find
        from hypothesis import settings as options
        from hypothesis.errors import NoSuchExample

        from spectheory.certify import strategies

        policy, size = plain.policy, len(plain.distributions[()][0])
        quiet = [
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.nested_given,
        ]
        with suppress(NoSuchExample):
            find(
                strategies.tables(size, strategies.max_depth(policy)).map(lambda table: Case(policy, table)),
                condition,
                settings=options(
                    max_examples=cases,
                    database=None,
                    deadline=None,
                    phases=(Phase.generate, Phase.shrink),
                    suppress_health_check=quiet,
                ),
                random=random.Random(seed),
            )

    def score(self, case: Case) -> Score:
        """How far the output is from the target's distribution. A subject that raises is noted, and scores `RIGHT`."""
        key = "\n".join(case.lines())
        if key in self.seen:
            return self.seen[key]
        if self.is_over:
            return RIGHT
        self.seen[key] = RIGHT
        try:
            difference = self._measure(case)
        except Exception as error:
            self._fail(case, error)
        else:
            self.drafts += difference.drafts
            self.reached.append(case)
            self.seen[key] = self._grade(case, difference)
        if self.progress:
            self.progress(len(self.reached))
        return self.seen[key]

    def _grade(self, case: Case, difference: Difference) -> Score:
        """The score of a comparison. Errors, and coins of exactly 0 that show something, are recorded."""
        for raised in difference.raised:
            if raised.chance > ROUNDED:
                self._fail(case, raised.error, raised.chance)
            else:
                self._note(raised)
        if difference.impossible:
            self.zeros[f"{text(difference.impossible)}, of probability 0,"] = case
        off = difference.total_variation
        if self.arithmetic is fractions and 0 < off < ROUNDED:
            self.arithmetic = floats
        off = off if off > self.tolerance else 0
        if off:
            setting = f"{case.policy.name} by {case.policy.rule.name}"
            self.off[setting] = max(off, self.off.get(setting, 0))
        return off, int(self.zero_coins and difference.impossible is not None)

    def _note(self, raised: Raised) -> None:
        kind = f"raised {type(raised.error).__name__}{_place(raised.error)}"
        if raised.chance == 0 and raised.given_zeros > ROUNDED:
            kind += " when a coin is exactly 0"
        self.rounded[kind] = max(raised.chance, self.rounded.get(kind, 0))

    def _notes(self) -> tuple[str, ...]:
        """What does not count against the subject."""
        found = [
            f"{kind}, in branches of probability {number(chance)} at most, which counts as rounding"
            if chance
            else f"{kind}, in branches of probability 0"
            for kind, chance in self.rounded.items()
        ]
        if self.zeros and not self.zero_coins:
            what, case = min(self.zeros.items(), key=lambda pair: (len("".join(pair[1].lines())), pair[0]))
            found.append(f"emits {what} when a coin is exactly 0, which has probability 0; {'; '.join(case.lines())}")
        return tuple(found)

    def certificate(self, found: Case | None, refused: Sequence[DrawPolicy]) -> Certificate:
        """The certificate of the search. `found` is the smallest lossy case."""
        verdict = Verdict.UNDECIDED if self.failure or not self.reached else Verdict.LOSSLESS
        if found:
            try:
                self._steady(found)
            except BranchError as error:
                self._fail(found, error)
                found, verdict = None, Verdict.UNDECIDED
        if found or self.is_not_a_distribution:
            verdict = Verdict.LOSSY
        numbers = "exact fractions" if self.arithmetic is fractions else "floating point, to 1e-6"
        found_by = "its distribution" if self.subject.states_distribution else "its draws, enumerated over every branch"
        return Certificate(
            subject=self.subject.name,
            verdict=verdict,
            method=f"{found_by}, in {numbers}",
            covered=_worlds(self.reached),
            met=_met(self.reached),
            refused=_by_rule(refused),
            sizes=tuple(sorted({len(case.distributions[()][0]) for case in self.reached})),
            cases=len(self.reached),
            drafts=self.drafts,
            counterexample=self._explain(found) if found else None,
            failure=None if found else self.failure,
            cannot_replay=self.cannot_replay and not found,
            notes=self._notes(),
            variations=tuple(
                (setting, number(off)) for setting, off in sorted(self.off.items(), key=lambda pair: -pair[1])
            ),
        )

    def _compare(self, case: Case, numbers: Callable[[Any], np.ndarray]) -> Difference:
        with np.errstate(divide="ignore", invalid="ignore"):
            return compare(self.subject.distribution_of, case.world, case.policy, case.length, numbers)

    def _fail(self, case: Case, error: Exception, chance: Any = 1) -> None:
        """Record an error; the most probable one is reported. The search is over if it is fatal."""
        if not self.is_over and (self.failed < chance or isinstance(error, FATAL)):
            self.failed = chance
            self.cannot_replay = isinstance(error, BranchError)
            kind = (
                "its draws cannot be enumerated"
                if self.cannot_replay
                else f"raised {type(error).__name__}{_place(error)}"
            )
            likely = "" if chance == 1 else f", with probability {number(chance)} on one draft"
            self.failure = "\n".join([f"{kind}{likely}: {error}", *case.lines()])
            self.is_not_a_distribution = isinstance(error, NotADistributionError)
            self.is_over = isinstance(error, FATAL)

    def _explain(self, case: Case) -> Counterexample:
        difference, world = self._compare(case, self.arithmetic), case.world
        wanted = difference.worst if difference.total_variation > self.tolerance else difference.impossible or ()

        def weight(draft: Draft, chance: Any) -> Any:
            seen = Draft(draft.tree, draft.tokens, self.arithmetic(draft.q), draft.draws, draft.rule)
            emitted = self.subject.distribution_of(seen, self.arithmetic(world.target(draft)))
            agree = (
                e.chance
                for e in emitted
                if (*draft.context(e.node), e.token) == wanted[: len(draft.context(e.node)) + 1]
            )
            return chance * sum(agree)

        drafts = list(branches(lambda rng: case.policy.grow(world, rng)))
        return Counterexample(case, difference, max(drafts, key=lambda pair: weight(*pair))[0])


def _plain_case(policy: DrawPolicy, size: int) -> Case:
    """A case whose world has no zeros and different p and q."""
    from spectheory.certify import strategies

    weights = np.array([Fraction(i + 1) for i in range(size)], dtype=object)
    p = weights / weights.sum()
    depths = range(strategies.max_depth(policy) + 1)
    return Case(policy, {c: (p, p[::-1]) for depth in depths for c in itertools.product(range(size), repeat=depth)})


def _most_drafts(policy: DrawPolicy, size: int) -> int:
    """Maximum number of different drafts of a policy: one for each sequence of draws."""
    nodes, draws, depth = 1, 0, 0
    while policy.draws(depth, 1):
        nodes *= policy.draws(depth, 1)
        draws, depth = draws + nodes, depth + 1
    return size**draws


def _sizes(policy: DrawPolicy) -> tuple[int, ...]:
    """The vocabulary sizes of the worlds for a policy."""
    from spectheory.certify import strategies

    is_small = strategies.max_depth(policy) == 1 and _most_drafts(policy, LARGE_SIZE) <= MOST_DRAFTS_LARGE
    return (*SIZES, LARGE_SIZE) if is_small else SIZES


def _met(cases: Sequence[Case]) -> tuple[str, ...]:
    """How many worlds have a zero, equal or disjoint p and q, or small probabilities."""
    kinds: Counter[str] = Counter()
    for case in cases:
        kinds.update({kind for p, q in case.distributions.values() for kind in _kinds(p, q)})
    smallest = [f"< {10.0**-n:g}" for n in range(1, 7)]
    found = [f"{name}: {', '.join(f'{low} {kinds[name + low]}' for low in smallest)}" for name in ("p", "q")]
    others = ", ".join(f"{kind} {kinds[kind]}" for kind in ("zeros", "p = q", "disjoint", "one-hot") if kinds[kind])
    return (f"worlds with probabilities of {found[0]}; {found[1]}", *([f"worlds with {others}"] if others else []))


def _kinds(p: Any, q: Any) -> Iterator[str]:
    """What `_met` counts, in one pair of distributions."""
    for name, distribution in (("p", p), ("q", q)):
        low = min(x for x in distribution if x > 0)
        yield from (f"{name}< {10.0**-n:g}" for n in range(1, 7) if low < Fraction(1, 10**n))
        if max(distribution) == 1:
            yield "one-hot"
        if min(distribution) == 0:
            yield "zeros"
    if all(p == q):
        yield "p = q"
    if not any(p * q):
        yield "disjoint"


def _place(error: Exception) -> str:
    """The place in the code under test that raised `error`, as text; empty if spectheory raised it."""
    hidden = replaying_modules()
    frames = list(traceback.walk_tb(error.__traceback__))
    while frames and f"{frames[-1][0].f_globals.get('__name__')}.".startswith(hidden):
        frames.pop()
    code, line = (frames[-1][0].f_code, frames[-1][1]) if frames else (None, 0)
    if code is None or Path(code.co_filename).is_relative_to(Path(__file__).parent.parent):
        return ""
    return f" in {code.co_name}, {Path(code.co_filename).name} line {line}"


def _worlds(cases: Sequence[Case]) -> tuple[str, ...]:
    """Policies, each with its number of worlds per vocabulary size; one line per draw rule."""
    counts: dict[str, dict[str, Counter[int]]] = {}
    for case in cases:
        by_size = counts.setdefault(case.policy.rule.name, {}).setdefault(case.policy.name, Counter())
        by_size[len(case.distributions[()][0])] += 1
    sizes = sorted({len(case.distributions[()][0]) for case in cases})
    return tuple(
        f"{rule}: "
        + ", ".join(f"{name} {' + '.join(str(by[size]) for size in sizes)}" for name, by in policies.items())
        for rule, policies in counts.items()
    )


def _by_rule(policies: Sequence[DrawPolicy]) -> tuple[str, ...]:
    """Names of policies; one line per draw rule."""
    rules: dict[str, dict[str, None]] = {}
    for policy in policies:
        rules.setdefault(policy.rule.name, {})[policy.name] = None
    return tuple(f"{rule}: {', '.join(names)}" for rule, names in rules.items())
