"""The sequential certificate: known bugs found, right steps passed, bounds that cover.

Statistical tests name their error level; every seed is fixed.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from spectheory.certify import Verdict, certify_step
from spectheory.certify.step import look_times, variation_bound
from spectheory.core.world import Context
from tests.helpers import refuses

Step = Callable[[Context, np.random.Generator], tuple[int, ...]]

V = 10
DISTRIBUTIONS = np.random.default_rng(11)
P = DISTRIBUTIONS.dirichlet(np.ones(V), size=V + 1)
Q = 0.5 * P + 0.5 * DISTRIBUTIONS.dirichlet(np.ones(V), size=V + 1)
"""Row t is the distribution after token t, row V the distribution at the start."""


def target(context: Context) -> np.ndarray:
    return P[context[-1] if context else V]


def pick(distribution: np.ndarray, rng: np.random.Generator) -> int:
    return int(np.searchsorted(distribution.cumsum(), rng.random() * distribution.sum(), side="right"))


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.clip(p - q, 0, None)


def plain(context: Context, rng: np.random.Generator) -> tuple[int, ...]:
    """Two tokens of the target itself."""
    first = pick(target(context), rng)
    return first, pick(P[first], rng)


def speculative(context: Context, rng: np.random.Generator) -> tuple[int, ...]:
    """One drafted token, verified: the textbook."""
    p, q = target(context), Q[context[-1] if context else V]
    draft = pick(q, rng)
    if rng.random() * q[draft] < p[draft]:
        return draft, pick(P[draft], rng)
    return (pick(residual(p, q), rng),)


def draft_alone(context: Context, rng: np.random.Generator) -> tuple[int, ...]:
    first = pick(Q[context[-1] if context else V], rng)
    return first, pick(Q[first], rng)


def bonus_from_the_draft(context: Context, rng: np.random.Generator) -> tuple[int, ...]:
    """The first token is right, the bonus token is the draft model's."""
    emitted = speculative(context, rng)
    return emitted if len(emitted) == 1 else (emitted[0], pick(Q[emitted[0]], rng))


def one_token_in_a_thousand(context: Context, rng: np.random.Generator) -> tuple[int, ...]:
    """A sparse bias: 1% of the runs emit the rarest token first, which should come in 0.4%."""
    first, second = plain(context, rng)
    return (int(P[V].argmin()), second) if rng.random() < 0.01 else (first, second)


BUGS: dict[str, tuple[Step, int]] = {
    "tokens of the draft": (draft_alone, 500),
    "bonus from the draft": (bonus_from_the_draft, 1_500),
    "one rare token": (one_token_in_a_thousand, 20_000),
}
"""Each with the samples that it may take."""


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_step_is_found(bug: str) -> None:
    step, most = BUGS[bug]
    found = certify_step(step, target, vocab_size=V, max_samples=most)
    print(bug, found.samples)
    assert found.verdict is Verdict.LOSSY
    assert found.log_wealth >= -math.log(found.alpha)
    assert found.worst is not None
    assert found.worst.expected != found.worst.observed


@pytest.mark.parametrize("step", [plain, speculative], ids=["plain", "speculative"])
def test_a_right_step_is_passed(step: Step) -> None:
    found = certify_step(step, target, vocab_size=V, tv=0.05, max_samples=40_000)
    assert found.verdict is Verdict.WITHIN
    assert found.tv_bound < 0.05


@pytest.mark.parametrize("shift", [0.0, 0.02, 0.2])
def test_the_bound_covers_at_all_looks(shift: float) -> None:
    """1,000 runs at alpha = 0.05, failures at any look counted against the 1e-4 quantile of Binomial(1000, 0.05)."""
    even, distribution = np.full(4, 0.25), np.array([0.25 + shift, 0.25, 0.25, 0.25 - shift])
    rng, looks = np.random.default_rng(2), look_times(20_000)
    counts = np.cumsum([rng.multinomial(step, distribution, size=1000) for step in np.diff([0, *looks])], axis=0)
    seen = np.abs(counts / np.array(looks)[:, None, None] - even).sum(axis=2) / 2
    bounds = np.array(
        [[variation_bound(s, n, len(looks), 0.05) for s in row] for row, n in zip(seen, looks, strict=True)]
    )
    failed = (bounds < shift).any(axis=0).sum()
    assert failed <= binom.ppf(1 - 1e-4, 1000, 0.05)


def test_an_impossible_token_ends_the_test() -> None:
    distribution = np.array([0.5, 0.5, 0.0])

    def step(context: Context, rng: np.random.Generator) -> tuple[int, ...]:
        return (0, 2) if rng.random() < 1e-3 else (int(rng.integers(2)),)

    found = certify_step(step, lambda _: distribution, vocab_size=3)
    print("impossible", found.samples)
    assert found.verdict is Verdict.LOSSY
    assert math.isinf(found.log_wealth)
    assert found.samples < 10_000
    assert found.worst is not None
    assert (found.worst.tokens, found.worst.expected) == ((0, 2), 0.0)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["log_wealth"] is None
    assert "probability 0" in "\n".join(found.lines())


@pytest.mark.parametrize(
    ("emitted", "verdict", "said"),
    [
        ((3,), Verdict.LOSSY, "token 3, which does not exist"),
        ((1, -1), Verdict.LOSSY, "token -1, which does not exist"),
        ((), Verdict.UNDECIDED, "no token"),
        (None, Verdict.UNDECIDED, "sequence of whole numbers, got None"),
        ((math.nan,), Verdict.UNDECIDED, "sequence of whole numbers, got (nan,)"),
        (ZeroDivisionError("by design"), Verdict.UNDECIDED, "raised ZeroDivisionError: by design"),
    ],
)
def test_a_broken_step_is_reported(emitted: object, verdict: Verdict, said: str) -> None:
    """It breaks in its 51st run, in the middle of a batch; the 50 before it count."""
    runs = itertools.count()

    def step(context: Context, rng: np.random.Generator) -> object:
        if next(runs) < 50:
            return np.array([rng.integers(3), rng.integers(3), 99])  # the third token is beyond `length`
        if isinstance(emitted, Exception):
            raise emitted
        return emitted

    found = certify_step(step, lambda _: np.full(3, 1 / 3), vocab_size=3, length=2, cycles=1)  # type: ignore[arg-type]
    assert found.verdict is verdict
    assert said in found.failure
    assert found.samples == 50 + (verdict is Verdict.LOSSY)
    assert verdict is Verdict.LOSSY or "(in 1 of 51 runs)" in found.failure
    assert said in "\n".join(found.lines())
    json.dumps(found.to_json(), allow_nan=False)


def test_the_seed_settles_everything() -> None:
    options = {"contexts": [(), (3,)], "vocab_size": V, "max_samples": 3_001}
    runs = [certify_step(speculative, target, seed=seed, **options) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert runs[0].counts == {(): 1_500, (3,): 1_500}
    assert len(look_times(10**9)) < 500


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"alpha": 1.0}, "alpha must be a number from 1e-300 to 1, got 1.0"),
        ({"tv": float("nan")}, "tv must be a finite number, got nan"),
        ({"length": 0}, "length must be between 1 and 300,000, got 0"),
        ({"contexts": ()}, r"contexts must be Sequence\[Context\], got \(\)"),
        ({"length": 6}, r"at most 300,000 cells, got 10\*\*6"),
        ({"max_samples": 0}, "max_samples must be at least 1, one for each context, got 0"),
        ({"target": lambda _: P}, r"target\(\(\)\) must be one distribution of shape \(V,\)"),
        ({"vocab_size": 9}, r"target\(\(\)\) must be a distribution on vocab_size = 9 tokens, got 10"),
    ],
)
def test_bad_input_is_named(changed: dict, said: str) -> None:
    given = {"step": plain, "target": target, "vocab_size": V} | changed
    refuses(said, certify_step, **given)


def test_distributions_on_the_edge() -> None:
    """One token, one-hot distributions, probabilities near the smallest number: no warning, no verdict against a right
    step.
    """
    one = certify_step(lambda *_: (0,), lambda _: np.ones(1), vocab_size=1, tv=0.1, max_samples=5_000)
    hot = certify_step(lambda *_: [2], lambda _: np.eye(3)[2], vocab_size=3, tv=0.1, max_samples=5_000)
    tiny = np.array([1e-300, 1e-308, 0.5, 0.5])
    low = certify_step(
        lambda _, rng: (2 + int(rng.integers(2)),), lambda _: tiny, vocab_size=4, tv=0.1, max_samples=5_000
    )
    assert {run.verdict for run in (one, hot, low)} == {Verdict.WITHIN}
    never = certify_step(lambda *_: (1, 0), lambda _: tiny, vocab_size=4)
    assert never.verdict is Verdict.LOSSY
