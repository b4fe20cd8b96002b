"""Code that draws with torch, NumPy's global functions or `random` is enumerated exactly, as it is written."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import spectheory as st
from reference.torch_replay import TorchReplay
from spectheory.certify import Verdict
from spectheory.certify.certificate import Case
from spectheory.certify.subject import compare, floats, subject_of
from spectheory.cli import app
from spectheory.core.chance import BranchError, branches
from tests.reference.torch_samplers import (
    WEIGHTS,
    by_choices,
    by_multinomial,
    by_race,
    exponential,
    from_p,
    gumbel_in_numpy,
    reuses_coins,
    shared_noise,
    uncapped,
)

ROOT = Path(__file__).parents[2]
HALF, THIRD, EIGHTH = Fraction(1, 2), Fraction(1, 3), Fraction(1, 8)
THIRDS = {0: THIRD, 1: THIRD, 2: THIRD}
EIGHTHS = {0: Fraction(1, 8), 2: Fraction(3, 8), 3: HALF}
"""The distribution with these weights."""


def distribution_of(program: Callable[[], Any]) -> dict[Any, Fraction]:
    """The exact distribution of what a program of torch returns."""
    found: dict[Any, Fraction] = defaultdict(Fraction)
    with TorchReplay() as replay:

        def run(branch: Any) -> Any:
            with replay.replayed(branch):
                returned = program()
                return returned.tolist() if isinstance(returned, torch.Tensor) else returned

        for result, chance in branches(run):
            found[tuple(result) if isinstance(result, list) else result] += chance
    return {result: chance for result, chance in found.items() if chance}


def gumbel(like: torch.Tensor = WEIGHTS) -> torch.Tensor:
    return -torch.log(-torch.log(torch.rand_like(like) + 1e-20) + 1e-20)


SAMPLERS: dict[str, Callable[[], Any]] = {
    "multinomial": lambda: torch.multinomial(WEIGHTS, 1).item(),
    "a generator": lambda: torch.multinomial(WEIGHTS, 1, generator=torch.Generator().manual_seed(next(SEEDS))).item(),
    "Categorical": lambda: torch.distributions.Categorical(probs=WEIGHTS / 8).sample().item(),
    "race": lambda: WEIGHTS.div(exponential()).argmax(-1).item(),
    "reciprocal": lambda: (WEIGHTS * exponential().reciprocal()).max(dim=-1)[1].item(),
    "topk": lambda: (torch.rand(4, dtype=torch.float64).log() / WEIGHTS).topk(1).indices.item(),
    "Gumbel": lambda: (WEIGHTS.log() + gumbel()).argmax().item(),
    "Gumbel, clamped": lambda: (
        WEIGHTS.log() - torch.log((-torch.log(torch.rand(4, dtype=torch.float64).clamp(min=1e-20))).clamp(min=1e-20))
    ).argmax().item(),
    "one-hot": lambda: (lambda x: (x == x.max()).nonzero().item())(WEIGHTS / exponential()),
    "inverse by searchsorted": lambda: torch.searchsorted((WEIGHTS / 8).cumsum(0), torch.rand(1), right=True).item(),
    "inverse by comparison": lambda: ((WEIGHTS / 8).cumsum(0) <= torch.rand(1, dtype=torch.float64)).sum().item(),
    "bernoulli": lambda: 0 if torch.bernoulli(torch.tensor(0.125)) else 2 if torch.rand(1) < 3 / 7 else 3,
}  # fmt: skip


SEEDS = itertools.count()
"""A seed of its own for each call."""


@pytest.mark.parametrize("name", SAMPLERS)
def test_each_idiom_draws_by_its_weights(name: str) -> None:
    """Exactly, or within 1e-6 where a logarithm, a guard or a threshold rounds."""
    found = distribution_of(SAMPLERS[name])
    assert found.keys() == EIGHTHS.keys()
    assert sum(found.values()) == 1
    assert all(abs(found[token] - chance) < 1e-6 for token, chance in EIGHTHS.items())
    if name in ("multinomial", "race", "topk", "inverse by comparison"):
        assert found == EIGHTHS


def test_draws_without_replacement_are_in_order_of_the_draws() -> None:
    ordered = {
        (a, b): EIGHTHS[a] * EIGHTHS[b] / (1 - EIGHTHS[a]) for a in EIGHTHS for b in EIGHTHS if a != b
    }  # fmt: skip
    assert distribution_of(lambda: torch.multinomial(WEIGHTS, 2)) == ordered
    assert distribution_of(lambda: (WEIGHTS / exponential()).topk(2).indices) == ordered
    again = {(a, b): EIGHTHS[a] * EIGHTHS[b] for a in EIGHTHS for b in EIGHTHS}
    assert distribution_of(lambda: torch.multinomial(WEIGHTS, 2, replacement=True)) == again
    sixths = {order: Fraction(1, 6) for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]}
    assert distribution_of(lambda: torch.randperm(3)) == sixths
    assert distribution_of(lambda: torch.rand(3).argsort()) == sixths


def masked_race() -> Any:
    """The second of two draws from one race, after the first is masked."""
    scores = WEIGHTS / exponential()
    first = scores.argmax()
    scores[first] = 0
    return [first.item(), scores.argmax().item()]


def test_a_race_goes_on_without_its_winner() -> None:
    assert distribution_of(masked_race) == distribution_of(lambda: torch.multinomial(WEIGHTS, 2))
    twice = distribution_of(lambda: (lambda x: [x.argmax().item(), x.argmax().item()])(WEIGHTS / exponential()))
    assert twice == {(token, token): chance for token, chance in EIGHTHS.items()}


def test_coins_are_settled_by_comparisons_in_batches_and_views() -> None:
    thresholds = torch.tensor([[0.25, 1.0], [0.5, 0.0]])
    table = distribution_of(lambda: (torch.rand_like(thresholds) < thresholds).flatten())
    assert table == {(a, True, b, False): (1 + 2 * (not a)) * EIGHTH for a in (True, False) for b in (True, False)}

    def parts() -> Any:
        noise = torch.empty(2, 2)
        noise[0].uniform_()
        noise[1].uniform_(-1, 1)
        moved = torch.cat([noise.T.contiguous(), torch.zeros(1, 2)]).double()
        return [bool(moved[1, 0] * 2 - 1 > 0), bool(torch.where(moved > 0, 1, 0)[0, 1])]

    assert distribution_of(parts) == {(a, b): Fraction(1, 4) for a in (True, False) for b in (True, False)}
    clamped = distribution_of(lambda: torch.rand(()).clamp(max=0.25).item() == 0.25)
    assert clamped == {True: 6 * EIGHTH, False: 2 * EIGHTH}
    assert distribution_of(lambda: (torch.rand(1).log() <= torch.tensor(0.25).log()).item()).keys() == {True, False}
    assert distribution_of(lambda: torch.randint(0, 3, (1,)).item()) == THIRDS
    assert distribution_of(lambda: torch.rand(1).item() < 0.5) == {True: HALF, False: HALF}


def test_an_index_that_nobody_reads_is_not_drawn() -> None:
    """One exponential number a token serves all positions, as in vLLM; only one position is read."""
    rows = torch.stack([WEIGHTS, WEIGHTS.flip(0)])

    def recovered() -> int:
        found = (rows / exponential()).argmax(dim=-1)
        return int(torch.cat([found[None], torch.full((1, 2), -1)])[0, 1])

    assert distribution_of(recovered) == {3 - token: chance for token, chance in EIGHTHS.items()}
    with pytest.raises(BranchError, match="compared again, with other weights"):
        distribution_of(lambda: (rows / exponential()).argmax(dim=-1).tolist())


GENERATOR = torch.Generator()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda: torch.rand(2).prod().item() < 0.5, r"torch.prod: this .* in <lambda>, test_torch_replay.py"),
        (lambda: torch.rand(2).softmax(-1), r"torch._softmax: .* cannot be enumerated, in .* line \d+"),
        (lambda: torch.randn(2), "torch.randn: its numbers cannot be enumerated, in"),
        (lambda: torch.rand(2).sum() < 1, "torch.sum: this operation on a random number"),
        (lambda: torch.multinomial(torch.rand(2), 1).item(), "torch.multinomial: its probabilities are random"),
        (lambda: (torch.rand(1) * 3).long(), "torch._to_copy: a random number is turned into torch.int64"),
        (lambda: float(torch.rand(1)), "used as a number"),
        (lambda: (exponential() < 1) & (exponential() > WEIGHTS.argmax()) & (exponential().sin() > 0), "torch.sin"),
        (lambda: [torch.rand(1, generator=g(1)) < 0.5, torch.rand(1, generator=g(1)) < 0.5], "the same state"),
    ],
)  # fmt: skip
def test_what_cannot_be_enumerated_names_the_operation_and_the_line(program: Any, message: str) -> None:
    with pytest.raises(BranchError, match=message):
        distribution_of(program)


def g(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_seed_in_the_program_is_noticed() -> None:
    """Each run would draw the same numbers, so they are no coins."""
    with pytest.raises(BranchError, match="the same state"):
        distribution_of(lambda: (torch.rand(2, generator=g(7)) < 0.5).tolist())
    assert distribution_of(lambda: (torch.rand(1, generator=GENERATOR) < 0.5).item()) == {True: HALF, False: HALF}


def test_the_default_generator_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    distribution_of(lambda: (torch.rand(2) < 0.5).tolist())
    assert torch.equal(torch.get_rng_state(), before)


def off(verify: Any, p: Any, q: Any, *counts: int) -> Fraction:
    """The exact total variation of a verifier in a world of these distributions, on drafts of `counts`."""
    exactly = [np.array([Fraction(x) for x in distribution], dtype=object) for distribution in (p, q)]
    case = Case(st.Levels(counts), dict.fromkeys([(), (0,) * len(counts)], (exactly[0], exactly[1])))
    found = compare(subject_of(verify, None, 10.0).distribution_of, case, floats)
    assert not found.raised
    return found.total_variation


@pytest.mark.parametrize("verify", [by_multinomial, by_race, uncapped, gumbel_in_numpy, by_choices])
@pytest.mark.parametrize(("p", "q"), [((HALF, HALF), (0, 1)), ((0.25, 0, 0.75), (0.125, 0.5, 0.375))])
def test_right_samplers_keep_the_distribution(verify: Any, p: Any, q: Any) -> None:
    """Within 1e-12 if they compute logarithms, and exactly else: all numbers are multiples of 1/8."""
    assert off(verify, p, q, 1) <= (1e-12 if verify is gumbel_in_numpy else 0)


@pytest.mark.parametrize(("verify", "tv"), [(from_p, Fraction(1, 4)), (shared_noise, Fraction(1, 4))])
def test_planted_faults_have_their_total_variation(verify: Any, tv: Fraction) -> None:
    """It drafts token 1, accepts it half the time, and then draws from p; or its next token is always 0."""
    assert off(verify, (HALF, HALF), (0, 1), 1) == tv


def test_a_coin_that_is_used_twice_is_found() -> None:
    """p = (1/2, 1/2), q = (0, 1): after the first accepted token, the second is accepted for certain."""
    assert off(reuses_coins, (HALF, HALF), (0, 1), 1, 1) == Fraction(1, 4)
    assert off(reuses_coins, (HALF, HALF), (0, 1), 1) == 0


def test_a_right_sampler_is_lossless() -> None:
    found = st.certify_verifier(by_race, policies=[st.Levels((1,))], sizes=(2,), cases=12)
    assert found.verdict is Verdict.LOSSLESS, found.lines()
    assert found.method.startswith("its draws, enumerated over every branch")


@pytest.mark.usefixtures("no_child")
def test_the_command_enumerates_torch() -> None:
    arguments = ["tests.reference.torch_samplers:from_p", "--shape", "1", "--cases", "2"]
    result = CliRunner().invoke(app, ["certify", *arguments])
    assert result.exit_code == 1, result.output
    assert "enumerated over every branch" in result.output
    assert "random numbers 1: uniform in (" in result.output


def test_torch_is_not_imported_for_code_without_torch() -> None:
    code = (
        "import sys; from spectheory.certify.replays import Replays; Replays().__enter__(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
