"""`assert_lossless` and `assert_step`, for the test suites of people who write verifiers, engines and kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spectheory.certify.certificate import Certificate, StepCertificate, Verdict
from spectheory.certify.exact import certify_verifier
from spectheory.certify.play import Play
from spectheory.certify.step import certify_in_worlds, certify_step
from spectheory.core.checks import checked
from spectheory.core.errors import InputError


@dataclass
class TestSession:
    """A run of a test suite, whose statistical assertions share one level.

    The i-th assertion has the level `level` / (i (i + 1)). These sum to at most `level`, whatever the number of
    assertions. Exact certificates need no level, because they raise no false alarm.

    Attributes:
        level: probability at most of a false alarm in this session.
        options: options of `assert_step` by name of a test, which the marker `certify` gives.
        levels: level of each statistical assertion so far.
        certificates: number of certificates so far.
    """

    __test__ = False

    level: float
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    levels: list[float] = field(default_factory=list)
    certificates: int = 0

    def next_level(self) -> float:
        """The level of the next statistical assertion."""
        self.levels.append(self.level / ((len(self.levels) + 1) * (len(self.levels) + 2)))
        return self.levels[-1]


session: TestSession | None = None
"""The running session, which the pytest plugin sets; None outside of it."""


def assert_lossless(given: Any, **options: Any) -> Certificate:
    """Raise AssertionError with a counterexample unless `given` keeps the target's distribution.

    `options` are passed to `certify_verifier`. Returns the certificate.

    Raises:
        AssertionError: `given` is lossy, or undecided because it raised, hung or could not be enumerated.
    """
    __tracebackhide__ = True
    certificate = certify_verifier(given, **options)
    _count()
    if certificate.verdict.exit_status:
        raise AssertionError("\n".join(certificate.lines()))
    return certificate


@checked
def assert_step(
    step: Callable[..., Any] | Play | Sequence[Play], target: Any = None, **options: Any
) -> StepCertificate:
    """Raise AssertionError with the evidence unless a whole decoding step keeps the target's distribution.

    In a session of pytest the level is the session's, see `TestSession`. Elsewhere it is the option `alpha`.

    Args:
        step: a step, with `target`, for `certify_step`; or a `Play`, or several with names of their own, for
            `certify_in_worlds`.
        target: function context -> (V,) distribution of the next token; None with plays.
        options: passed on. Those of the marker `certify` of the test are used where none are given here.

    Returns:
        The certificate.

    Raises:
        AssertionError: the step is lossy; or undecided, because it raised or needs more runs.
        InputError: an option is out of range, or `alpha` is given in a session.
    """
    __tracebackhide__ = True
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]  # the running test, as pytest writes it
    if session is not None:
        if "alpha" in options:
            raise InputError("alpha must not be given in a session of pytest: set certify_false_alarms_a_day")
        options = {**session.options.get(test, {}), **options, "alpha": session.next_level()}
    if callable(step):
        certificate = certify_step(step, target, **options)
    else:
        certificate = certify_in_worlds([step] if isinstance(step, Play) else step, **options)
    _count()
    if certificate.verdict is not Verdict.WITHIN:
        raise AssertionError("\n".join(certificate.lines()))
    return certificate


def _count() -> None:
    if session is not None:
        session.certificates += 1
