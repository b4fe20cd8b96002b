"""The search for a world in which a verifier's output does not have the target's distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectheory.certify.as_step import max_depth
from spectheory.certify.certificate import (
    Case,
    Certificate,
    Counterexample,
    by_rule,
    covered,
    drawn,
    met,
    number,
    shown,
    text,
)
from spectheory.certify.guard import CodeEndedError
from spectheory.certify.output_distribution import (
    ROUNDED,
    Difference,
    Ending,
    NotADistributionError,
    Raised,
    compare,
)
from spectheory.certify.place import place
from spectheory.certify.shown_run import ShownRun, known_of
from spectheory.certify.shrinking import smallest
from spectheory.certify.subject import Subject, floats, fractions
from spectheory.certify.verdict import Verdict
from spectheory.certify.world_sizes import plain_case
from spectheory.core.chance import BranchError, branches
from spectheory.core.draft import Draft
from spectheory.core.errors import InputError
from spectheory.core.world import Context, DrawPolicy, World

REPEATS = 5
"""A verifier that draws is compared this often in one world. The results differ if it draws from other than `rng`."""
NEEDS_FLOATS = TypeError, AttributeError, ZeroDivisionError
"""Errors of code that runs on float64 and not on Fractions; 0/0 is NaN in float64."""
FATAL = BranchError, TimeoutError, CodeEndedError, NotADistributionError
"""Errors after which no more worlds are compared."""
Numbers = Callable[[Any], np.ndarray]
"""Makes the arrays that the subject gets: of fractions, or of floats."""
Score = tuple[Any, int]
"""The total variation of a case, 0 if it counts as rounding; 1 if a random number of 0 shows a fault that counts."""
RIGHT: Score = (0, 0)


@dataclass
class Hunt:
    """The search for a world in which the output does not have the target's distribution."""

    subject: Subject
    cases: int
    progress: Callable[[int], None] | None
    zero_coins: bool
    arithmetic: Numbers = fractions
    seen: dict[str, Score] = field(default_factory=dict)
    drafts: int = 0
    reached: list[Case] = field(default_factory=list)
    off: dict[str, Any] = field(default_factory=dict)
    zeros: dict[str, Case] = field(default_factory=dict)
    rounded: dict[str, Any] = field(default_factory=dict)
    is_rounded: bool = False
    failure: str | None = None
    failed: Any = 0
    is_over: bool = False
    is_not_a_distribution: bool = False
    cannot_replay: bool = False

    def prepare(self, policies: Sequence[DrawPolicy], size: int) -> list[DrawPolicy]:
        """Find out whether the subject computes with fractions, and return the policies that it refuses."""
        refused = []
        for policy in policies:
            case = plain_case(policy, size)
            try:
                difference, self.arithmetic = self._steady(case)
                self._grade(case, difference)
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

    def _measure(self, case: Case) -> tuple[Difference, Numbers]:
        """The comparison, and its numbers: float64 if there is an error that Fractions may have caused."""
        with suppress(*NEEDS_FLOATS):
            difference = self._compare(case, self.arithmetic)
            errors = [raised.error for raised in difference.raised]
            if self.arithmetic is floats or not any(isinstance(error, NEEDS_FLOATS) for error in errors):
                return difference, self.arithmetic
        return self._compare(case, floats), floats

    def _steady(self, case: Case) -> tuple[Difference, Numbers]:
        """The comparison, repeated if the subject draws. A hidden random source would make the repetitions differ."""
        difference, numbers = self._measure(case)
        for _ in range(0 if self.subject.states_distribution else REPEATS - 1):
            if self._compare(case, numbers).output != difference.output:
                raise BranchError(
                    "it returned different results for the same draws: it has a random source or a state of its own"
                )
        return difference, numbers

    def search_all(self, settings: Sequence[tuple[DrawPolicy, int]], seed: int) -> Case | None:
        """The smallest case with the largest total variation, or None. All settings get equally many worlds."""
        from spectheory.certify import strategies

        shares = max(1, self.cases // max(1, len(settings)))
        for policy, size in sorted(settings, key=lambda setting: (max_depth(setting[0]), setting[1])):
            self.score(plain_case(policy, size))
            for table in strategies.generated(size, max_depth(policy), shares, seed):
                self.score(Case(policy, table))
        found = max(self.reached, key=self.score, default=None)
        if found is None or self.is_over or self.score(found) == RIGHT:
            return None
        found = smallest(found, self.score)
        return None if self.is_over else found

    def score(self, case: Case) -> Score:
        """How far the output is from the target's distribution. A subject that raises is noted, and scores `RIGHT`."""
        key = "\n".join(case.lines())
        if key in self.seen:
            return self.seen[key]
        if self.is_over:
            return RIGHT
        self.seen[key] = RIGHT
        try:
            difference, numbers = self._measure(case)
        except Exception as error:
            self._fail(case, error)
        else:
            self.drafts += difference.drafts
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
            if raised.chance > ROUNDED:
                self._fail(case, raised.error, raised)
            else:
                self._note(raised)
        if difference.impossible:
            self.zeros[f"{text(difference.impossible)}, of probability 0,"] = case
        off = difference.total_variation
        if difference.is_rounded and off != 0 and off <= ROUNDED:
            self.is_rounded, off = True, 0
        if off:
            setting = f"{case.policy.name} by {case.policy.rule.name}"
            self.off[setting] = max(off, self.off.get(setting, 0))
        return off, int(self.zero_coins and difference.impossible is not None)

    def _note(self, raised: Raised) -> None:
        kind = f"raised {type(raised.error).__name__}{place(raised.error)}"
        if raised.chance == 0 and raised.ending.given_zeros > ROUNDED:
            kind += " when a random number is exactly 0"
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
            found.append(
                f"emits {what} when a random number is exactly 0, which has probability 0; {'; '.join(case.lines())}"
            )
        return tuple(found)

    def certificate(self, found: Case | None, refused: Sequence[DrawPolicy]) -> Certificate:
        """The certificate of the search. `found` is the smallest lossy case."""
        counterexample = self._explained(found) if found else None
        verdict = Verdict.UNDECIDED if self.failure or not self.reached else Verdict.LOSSLESS
        if counterexample or self.is_not_a_distribution:
            verdict = Verdict.LOSSY
        is_exact = self.arithmetic is fractions and not self.is_rounded
        numbers = "exact fractions" if is_exact else "floating point, to 1e-6"
        found_by = "its distribution" if self.subject.states_distribution else "its draws, enumerated over every branch"
        return Certificate(
            subject=self.subject.name,
            verdict=verdict,
            method=f"{found_by}, in {numbers}",
            covered=covered(self.reached),
            met=met(self.reached),
            refused=by_rule(refused),
            sizes=tuple(sorted({len(case.distributions[()][0]) for case in self.reached})),
            cases=len(self.reached),
            drafts=self.drafts,
            counterexample=counterexample,
            failure=None if counterexample else self.failure,
            cannot_replay=self.cannot_replay and not counterexample,
            notes=self._notes(),
            variations=tuple(
                (setting, number(off)) for setting, off in sorted(self.off.items(), key=lambda pair: -pair[1])
            ),
        )

    def _compare(self, case: Case, numbers: Numbers) -> Difference:
        with np.errstate(divide="ignore", invalid="ignore"):
            return compare(self.subject.distribution_of, case.world, case.policy, case.length, numbers)

    def _fail(self, case: Case, error: Exception, raised: Raised | None = None) -> None:
        """Record an error; the most probable one is reported. The search is over if it is fatal."""
        chance = raised.chance if raised else 1
        if not self.is_over and (self.failed < chance or isinstance(error, FATAL)):
            self.failed = chance
            self.cannot_replay = isinstance(error, BranchError)
            did = f"raised {type(error).__name__}{place(error)}"
            kind = "its draws cannot be enumerated" if self.cannot_replay else did
            likely = "" if chance == 1 else f", with probability {number(chance)} on one draft"
            run = self._run(case.world, raised.draft, raised.ending, did) if raised else ()
            self.failure = "\n".join([f"{kind}{likely}: {error}", *case.lines(), *run])
            self.is_not_a_distribution = isinstance(error, NotADistributionError)
            self.is_over = isinstance(error, FATAL)

    def _explained(self, case: Case) -> Counterexample | None:
        """The counterexample in a case; None if the subject does not repeat what it did."""
        try:
            difference, numbers = self._steady(case)
            is_off = self.score(case)[0] > 0
            wanted = difference.most_in_excess if is_off else difference.impossible or ()
            draft, ending = self._shows(case, numbers, wanted, is_off)
        except Exception as error:
            self._fail(case, error)
            return None
        return Counterexample(case, difference, draft, self._run(case.world, draft, ending, "") if ending else ())

    def _shows(self, case: Case, numbers: Numbers, wanted: Context, is_off: bool) -> tuple[Draft, Ending | None]:
        """The draft on which the subject emits `wanted` with the highest probability, and how it ends there.

        A verifier that computes its distribution may emit nothing at all; then there is no ending.
        """

        def weight(ending: Ending) -> Any:
            return ending.chance if is_off else ending.given_zeros

        shown: list[tuple[Any, Draft, list[Ending]]] = []
        for draft, chance in branches(lambda rng: case.policy.grow(case.world, rng)):
            seen = Draft(draft.tree, draft.tokens, numbers(draft.q), draft.draws, draft.rule)
            endings = self.subject.distribution_of(seen, numbers(case.world.target(draft)))
            found = [e for e in endings if _agrees(draft, e, wanted) and (is_off or e.chance == 0)]
            shown.append((chance * sum(map(weight, found)), draft, found))
        _, draft, found = max(shown, key=lambda each: each[0])
        return draft, max(found, key=weight, default=None)

    def _run(self, world: World, draft: Draft, ending: Ending, raised: str) -> tuple[str, ...]:
        """Lines about a run of the subject. `raised` says which error it raised; "" if it emitted tokens."""
        coins = known_of(ending.branch.drawn) if ending.branch else "no random numbers: it computes its distribution"
        if raised:
            return tuple(ShownRun(raised, coins, drawn(draft)).lines())
        emitted = (*draft.context(ending.node), int(ending.token))
        target = ", then ".join(shown(world.p(emitted[:i])) for i in range(len(emitted)))
        return tuple(ShownRun(f"emitted {text(emitted)}", coins, target=target).lines())


def _agrees(draft: Draft, ending: Ending, wanted: Context) -> bool:
    """Whether a run emits a beginning of `wanted`."""
    emitted = (*draft.context(ending.node), ending.token)
    return ending.error is None and emitted == wanted[: len(emitted)]
