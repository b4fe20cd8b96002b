"""`assert_lossless`, for the test suites of people who write verifiers."""

from __future__ import annotations

from typing import Any

from spectheory.certify import Verdict, certify_verifier


def assert_lossless(given: Any, **options: Any) -> None:
    """Raise AssertionError with the smallest counterexample unless `given` keeps the target's distribution.

    `options` are passed to `certify_verifier`.

    Raises:
        AssertionError: `given` is lossy, or undecided because it raised, hung or could not be enumerated.
    """
    certificate = certify_verifier(given, **options)
    if certificate.verdict is not Verdict.LOSSLESS:
        raise AssertionError("\n".join(certificate.lines()))
