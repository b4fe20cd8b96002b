"""The distribution of a verifier's output: of one draft, and over all drafts beside the target's distribution."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import Any, NamedTuple

import numpy as np

from spectheory.certify.certificate import Case
from spectheory.certify.guard import CodeEndedError, within
from spectheory.certify.replays import Replays, imported
from spectheory.certify.small_worlds import MANY
from spectheory.core.chance import Branch, BranchError, branches
from spectheory.core.coins import is_float
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import Context
from spectheory.otlp import Solver
from spectheory.verify import TopDown, Verifier

ROUNDED = 1e-6
"""A probability or total variation up to this counts as rounding. A lossy rule on small fractions has a larger one."""
ROUNDING = 1e-9
"""A probability may be this far below 0, because of rounding."""
LEAST_CHANCE = 0.01
"""An error of a smaller probability is not tried again with a generator of NumPy."""
CALLS = 20
"""Mean number of errors of the code itself in the calls with a generator of NumPy: none has probability e^-20."""

MOST_BRANCHES = 1_000
"""In a world of many tokens, a draft with more branches, as of code that draws unused tokens, is left out."""


class OutOfReachError(Exception):
    """A draft has too many branches."""


class NotADistributionError(InputError):
    """A verifier returned a node or a token that does not exist, or a negative probability."""


class Ending(NamedTuple):
    """One way in which a verifier ends on a draft: the last accepted node, and the token after it.

    `chance` is its probability, 0 if a random number must be exactly 0; `given_zeros` is the probability given the
    random numbers that are exactly 0. `error` is an error that the verifier raised in place of a node and a token.
    `branch` has its random numbers; None if the verifier computes its distribution.
    """

    node: int
    token: int
    chance: Any
    given_zeros: Any
    error: Exception | None = None
    branch: Branch | None = None

    @property
    def is_rounded(self) -> bool:
        """Whether a float took part in its probability."""
        return is_float(self.chance) if self.branch is None else self.branch.is_rounded

    def text(self, draft: Draft) -> Context:
        """The emitted tokens."""
        return (*draft.context(self.node), int(self.token))


DistributionOf = Callable[[Draft, Any], Iterable[Ending]]
"""(draft, p) -> all ways in which a verifier ends."""


@dataclass(frozen=True)
class Subject:
    """A verifier as its distribution of (node, token) given (draft, p), and the rules for which it shall be lossless.

    `sample` calls it with a random source; None if it computes its distribution itself.
    """

    name: str
    rules: tuple[DrawRule, ...]
    distribution_of: DistributionOf
    sample: Callable[..., tuple[int, int]] | None = None


def subject_of(given: Any, rules: Sequence[DrawRule] | DrawRule | None, seconds: float) -> Subject:
    """The subject for a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`.

    A function can have its draw rules as an attribute `rules`. Without it, its rule is DrawRule.IID.
    """
    try:
        given = given() if isinstance(given, type) else given
    except TypeError as error:
        raise InputError(f"given must be an instance of {given.__name__}, not the class: {error}") from error
    name = getattr(given, "__name__", None) or repr(given)
    claimed = (rules,) if isinstance(rules, DrawRule) else tuple(rules or getattr(given, "rules", (DrawRule.IID,)))
    if not claimed:
        raise InputError(f"rules of {name} must name at least one draw rule, got none")
    given = TopDown(given) if isinstance(given, Solver) else given
    if isinstance(given, Verifier):
        return Subject(name, claimed, _distribution_of_verifier(given, seconds))
    if callable(given):
        sample = partial(_call, given, seconds)
        return Subject(name, claimed, _distribution_of_sampler(sample, seconds), sample)
    raise InputError(
        f"given must be a Solver, a Verifier or a function verify(draft, p, rng) -> (node, token), got {given!r:.80}: "
        "make a Play of a whole step"
    )


def _distribution_of_verifier(verifier: Verifier, seconds: float) -> DistributionOf:
    def distribution_of(draft: Draft, p: Any) -> Iterable[Ending]:
        outcome = within(seconds, verifier.outcome, draft, p)
        for node, stop in enumerate(outcome.stop):
            for token, share in enumerate(outcome.next_token[node]):
                if (chance := stop * share) != 0:
                    check_ending(node, token, draft)
                    yield Ending(node, token, chance, chance)

    return distribution_of


def _call(verify: Callable[..., Any], seconds: float, draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    found = within(seconds, verify, draft, p, rng)
    try:
        node, token = map(index, found)
    except (TypeError, ValueError):
        raise TypeError(f"verify must return (node, token), two whole numbers, got {found!r:.80}") from None
    return node, token


def _distribution_of_sampler(sample: Callable[..., tuple[int, int]], seconds: float) -> DistributionOf:
    def call(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        """A call with arrays of its own."""
        own = Draft._unchecked(draft.tree, draft.tokens, draft.q.copy(), draft.draws, draft.rule)
        return check_ending(*sample(own, p.copy(), rng), draft)

    def returns_numbers(draft: Draft, p: Any, chance: Any) -> bool:
        """Whether calls with a generator of NumPy return: enough calls to see an error of probability `chance`."""
        if chance < LEAST_CHANCE:
            return False
        rng = np.random.default_rng(0)
        try:
            for _ in range(math.ceil(CALLS / chance)):
                call(draft, p, rng)
        except Exception:
            return False
        return True

    def enumerated(draft: Draft, p: Any, replays: Replays) -> list[Ending]:
        def program(rng: Branch) -> tuple[Branch, int, int, Exception | None]:
            found: tuple[Branch, int, int, Exception | None]
            BranchError.latest = None
            try:
                with replays.replayed(rng):
                    found = rng, *call(draft, p, rng), None
            except (BranchError, TimeoutError, CodeEndedError):
                raise
            except Exception as error:
                found = rng, 0, 0, error
            if BranchError.latest:  # the code has caught it, and went on in a way of its own
                raise BranchError.latest
            return found

        start, found = time.process_time(), []
        for (branch, node, token, error), chance in branches(program):
            found.append(Ending(node, token, chance, branch.chance_given_zeros, error, branch))
            if error is not None and branch.is_used and returns_numbers(draft, p, chance):
                raise BranchError(
                    f"it raised {type(error).__name__} on random numbers whose values are not fixed, and not on those "
                    f"of numpy.random: {error}"
                ) from error
            if len(found) > MOST_BRANCHES and p.shape[1] >= MANY:
                raise OutOfReachError
            if time.process_time() - start > seconds:
                raise BranchError(
                    f"its branches did not end within {seconds:g} seconds of processor time, after {len(found):,} calls"
                )
        return found

    def distribution_of(draft: Draft, p: Any) -> Iterable[Ending]:
        before = _shared_generators()
        found: list[Ending] = []
        with Replays() as replays:
            try:
                found = enumerated(draft, p, replays)
            except BranchError:
                if imported() == replays.libraries:
                    raise
        if imported() != replays.libraries:  # the code has imported one of them in its first call
            return distribution_of(draft, p)
        if _shared_generators() != before:
            raise BranchError("it draws from the global generator of random, numpy.random or torch, not from rng")
        return found

    return distribution_of


def _shared_generators() -> tuple[Any, ...]:
    """The states of all global generators. They show whether a function has drawn from one."""
    torch = sys.modules.get("torch")
    state = np.random.get_state()  # noqa: NPY002
    of_torch = torch.random.get_rng_state().numpy().tobytes() if torch else b""
    return random.getstate(), state[1].tobytes(), state[2:], of_torch  # type: ignore[index]


@contextmanager
def own_generators() -> Iterator[None]:
    """Context manager: the global generators are seeded, and have their old states at the end."""
    torch, states = sys.modules.get("torch"), (random.getstate(), np.random.get_state())  # noqa: NPY002
    state = torch.random.get_rng_state() if torch else None
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    if torch:
        torch.manual_seed(0)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if torch:
            torch.random.set_rng_state(state)


def fractions(distributions: Any) -> np.ndarray:
    """Distributions as rows of an array of exact numbers."""
    return np.array([list(distribution) for distribution in distributions], dtype=object)


def floats(distributions: Any) -> np.ndarray:
    """Distributions as rows of a float64 array."""
    return np.array([[float(x) for x in distribution] for distribution in distributions])


class Verified(NamedTuple):
    """A draft as the verifier got it, the target's distributions at its nodes, its probability, and all endings."""

    draft: Draft
    p: Any
    chance: Any
    endings: list[Ending]


class Raised(NamedTuple):
    """Errors of a verifier on one draft: the most probable ending with an error, their probability, and the draft."""

    ending: Ending
    chance: Any
    draft: Draft


@dataclass(frozen=True)
class Difference:
    """The distribution of the output next to the target's distribution.

    Attributes:
        output: probability of each sequence of the common length in the output.
        target: probability of each sequence of the common length by the target.
        impossible: a sequence of probability 0 that the verifier still emits if random numbers are exactly 0, or None.
            Given these numbers, its probability is above the tolerance `ROUNDED`.
        raised: errors of the verifier, at most one for each draft.
        lost: probability that the verifier raises an error.
        is_rounded: whether a float took part in these probabilities.
        verified: all drafts.
    """

    output: dict[Context, Any]
    target: dict[Context, Any]
    impossible: Context | None
    raised: list[Raised]
    lost: Any
    is_rounded: bool
    verified: list[Verified]

    @property
    def total_variation(self) -> Any:
        """Half the sum of absolute differences; the smallest value that any output instead of errors could give."""
        return (sum(abs(x - self.target.get(s, 0)) for s, x in self.output.items()) - self.lost) / 2

    def shown(self, is_off: bool) -> tuple[Draft, Ending | None]:
        """A draft and an ending that show the fault: the most probable ones of the text that is emitted too often.

        Without `is_off`, they are those of `impossible`. A verifier that emits nothing has no ending.
        """
        wanted = max(self.output, key=lambda s: (self.output[s] > 0, self.output[s] - self.target.get(s, 0)))
        texts = [wanted[:i] for i in range(1, len(wanted) + 1)] if is_off or not self.impossible else [self.impossible]
        found: tuple[Draft, Ending | None] = self.verified[0].draft, None
        largest = (-1, 0)
        for draft, _, chance, endings in self.verified:
            for ending in endings:
                weight = chance * ending.chance, ending.given_zeros
                if ending.error is None and weight > largest and ending.text(draft) in texts:
                    found, largest = (draft, ending), weight
        return found


def compare(distribution_of: DistributionOf, case: Case, arithmetic: Callable[[Any], Any]) -> Difference:
    """Compare a verifier's output with the target, over all drafts of a case.

    Outputs are extended by the target to a common length. `arithmetic` makes the arrays that the verifier gets from the
    distributions of the world. The probabilities of drafts stay exact. NotADistributionError is raised if the verifier
    states what is no distribution; if its draws are enumerated, this is one of its errors, with its probability.
    """
    emitted: dict[Context, Any] = {}
    impossible, lost, is_rounded = None, 0, False
    raised: list[Raised] = []
    verified: list[Verified] = []
    for draft, chance in branches(lambda rng: case.policy.grow(case.world, rng)):
        seen = Draft(draft.tree, draft.tokens, arithmetic(draft.q), draft.draws, draft.rule)
        p = arithmetic(case.world.target(draft))
        verified.append(Verified(seen, p, chance, list(distribution_of(seen, p))))
        failed = []
        for ending in verified[-1].endings:
            is_rounded |= ending.is_rounded
            if ending.error is not None:
                failed.append(ending)
                continue
            if not ending.chance >= 0 and not ending.chance >= -ROUNDING:
                raise NotADistributionError(
                    f"the verifier gives the probability {ending.chance} to node {ending.node}, token {ending.token}"
                )
            text = ending.text(draft)
            emitted[text] = emitted.get(text, 0) + chance * ending.chance
            by_zeros = ending.chance == 0 and ending.given_zeros > ROUNDED
            if by_zeros and any(case.world.p(text[:i])[token] == 0 for i, token in enumerate(text)):
                impossible = text
        if failed:
            here = sum(ending.chance for ending in failed)
            lost += chance * here
            raised.append(Raised(max(failed, key=lambda ending: ending.given_zeros), here, draft))
    target = _extended({(): 1}, case)
    output = dict.fromkeys(target, 0) | _extended(emitted, case)
    return Difference(output, target, impossible, raised, lost, is_rounded, verified)


def _extended(emitted: dict[Context, Any], case: Case) -> dict[Context, Any]:
    """Probability of each text of the common length, after the target has extended the emitted ones."""
    found: dict[Context, Any] = {}
    for text, chance in emitted.items():
        found[text[: case.length]] = found.get(text[: case.length], 0) + chance
    for length in range(case.length):
        for text in [text for text in found if len(text) == length]:
            chance, p = found.pop(text), case.world.p(text)
            for token in np.flatnonzero(p).tolist():
                found[(*text, token)] = found.get((*text, token), 0) + chance * p[token]
    return found


def check_ending(node: int, token: int, draft: Draft) -> tuple[int, int]:
    """The node and the token. NotADistributionError is raised if one does not exist."""
    for name, given, size in (("token", token, len(draft.q[0])), ("node", node, draft.tree.budget + 1)):
        if not 0 <= given < size:
            raise NotADistributionError(f"the verifier returned {name} {given}, but it must be from 0 to {size - 1}")
    return node, token
