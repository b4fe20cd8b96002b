"""Subject: one interface for all that can be certified: solvers, verifiers, and functions that draw."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from spectheory.certify.guard import CodeEndedError, within
from spectheory.certify.output_distribution import DistributionOf, Ending, check_ending
from spectheory.certify.replays import Replays, imported
from spectheory.core.chance import Branch, BranchError, branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp import Solver
from spectheory.verify import TopDown, Verifier

LEAST_CHANCE = 0.01
"""An error of a smaller probability is not tried again with a generator of NumPy."""
CALLS = 20
"""Mean number of errors of the code itself in the calls with a generator of NumPy: none has probability e^-20."""


@dataclass(frozen=True)
class Subject:
    """A verifier as its distribution of (node, token) given (draft, p).

    Attributes:
        name: name in reports.
        rules: draw rules for which it shall be lossless.
        distribution_of: computes the distribution, see `DistributionOf`.
        states_distribution: True if it computes its distribution itself; False if its draws are enumerated.
    """

    name: str
    rules: tuple[DrawRule, ...]
    distribution_of: DistributionOf
    states_distribution: bool


def subject_of(given: Any, rules: Sequence[DrawRule] | DrawRule | None, seconds: float) -> Subject:
    """The subject for a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`.

    A function can have its draw rules as an attribute `rules`. Without it, its rule is DrawRule.IID.

    Raises:
        InputError: `given` is none of these, or its `rules` are empty.
    """
    if not 0 < seconds < float("inf"):
        raise InputError(f"seconds must be finite and above 0, got {seconds}")
    if isinstance(given, type):
        given = given()
    name = getattr(given, "__name__", None) or repr(given)
    claimed = (rules,) if isinstance(rules, DrawRule) else tuple(rules or getattr(given, "rules", (DrawRule.IID,)))
    if not claimed:
        raise InputError(f"rules of {name} must name at least one draw rule, got none")
    if isinstance(given, Solver):
        given = TopDown(given)
    if isinstance(given, Verifier):
        return Subject(name, claimed, _distribution_of_verifier(given, seconds), states_distribution=True)
    if callable(given):
        return Subject(name, claimed, _distribution_of_sampler(given, seconds), states_distribution=False)
    raise InputError(
        f"certify needs a Solver, a Verifier or a function verify(draft, p, rng) -> (node, token), got {given!r:.80}"
    )


def _distribution_of_verifier(verifier: Verifier, seconds: float) -> DistributionOf:
    def distribution_of(draft: Draft, p: Any) -> Iterable[Ending]:
        outcome = within(seconds, verifier.outcome, draft, p)
        for node, stop in enumerate(outcome.stop):
            for token, share in enumerate(outcome.next_token[node]):
                if (chance := stop * share) != 0:
                    yield Ending(node, token, chance, chance)

    return distribution_of


def _distribution_of_sampler(verify: Callable[..., Any], seconds: float) -> DistributionOf:
    def enumerated(draft: Draft, p: Any, replays: Replays) -> list[Ending]:
        def program(rng: Branch) -> tuple[Branch, int, int, Exception | None]:
            try:
                with replays.replayed(rng):
                    node, token = _ending_of(verify, draft, p, rng, seconds)
            except (BranchError, TimeoutError, CodeEndedError):
                raise
            except Exception as error:
                return rng, 0, 0, error
            return rng, node, token, None

        start, found = time.process_time(), []
        for (branch, node, token, error), chance in branches(program):
            found.append(Ending(node, token, chance, branch.chance_given_zeros, error, branch))
            if error is not None and branch.is_used and _returns_numbers(verify, draft, p, seconds, chance):
                raise BranchError(
                    f"it raised {type(error).__name__} on random numbers whose values are not fixed, and not on those "
                    f"of numpy.random: {error}"
                ) from error
            if time.process_time() - start > seconds:
                raise BranchError(
                    f"its branches did not end within {seconds:g} seconds of processor time, after {len(found):,} calls"
                )
        return found

    def distribution_of(draft: Draft, p: Any) -> Iterable[Ending]:
        before = _shared_generators()
        with Replays() as replays:
            found = enumerated(draft, p, replays)
        if imported() != replays.libraries:
            return distribution_of(draft, p)
        if _shared_generators() != before:
            raise BranchError("it draws from the global generator of random, numpy.random or torch, not from rng")
        return found

    return distribution_of


def _ending_of(verify: Callable[..., Any], draft: Draft, p: Any, rng: Any, seconds: float) -> tuple[int, int]:
    """The node and the token that a call returns, after a check that they exist."""
    node, token = map(index, within(seconds, verify, _copied(draft), p.copy(), rng))
    check_ending(node, token, draft)
    return node, token


def _returns_numbers(verify: Callable[..., Any], draft: Draft, p: Any, seconds: float, chance: Any) -> bool:
    """Whether calls with a generator of NumPy return; they are enough calls to see an error of probability `chance`."""
    if chance < LEAST_CHANCE:
        return False
    rng = np.random.default_rng(0)
    try:
        with _generators_restored():
            for _ in range(math.ceil(CALLS / chance)):
                _ending_of(verify, draft, p, rng, seconds)
    except Exception:
        return False
    return True


@contextmanager
def _generators_restored() -> Iterator[None]:
    """Context manager: the global generators have their states of the beginning at the end."""
    torch = sys.modules.get("torch")
    of_python, of_numpy, of_torch = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
        if torch:
            torch.set_rng_state(of_torch)


def _copied(draft: Draft) -> Draft:
    own = copy(draft)
    object.__setattr__(own, "q", draft.q.copy())
    return own


def _shared_generators() -> tuple[Any, ...]:
    """The states of all global generators. They show whether a function has drawn from one."""
    torch = sys.modules.get("torch")
    state = np.random.get_state()  # noqa: NPY002
    of_torch = torch.random.get_rng_state().numpy().tobytes() if torch else b""
    return random.getstate(), state[1].tobytes(), state[2:], of_torch  # type: ignore[index]


def fractions(distributions: Any) -> np.ndarray:
    """Distributions as rows of an array of exact numbers."""
    return np.array([list(distribution) for distribution in distributions], dtype=object)


def floats(distributions: Any) -> np.ndarray:
    """Distributions as rows of a float64 array."""
    return np.array([[float(x) for x in distribution] for distribution in distributions])
