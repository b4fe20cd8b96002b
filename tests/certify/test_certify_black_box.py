"""The black-box test of the command: what it plays, what it compares, and that it is fair.

Statistical tests name their error level; every seed is fixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import spectheory as st
from spectheory.certify import Play, StepCertificate, Verdict, certify_in_worlds
from spectheory.certify.play import WORLDS, plays_of
from spectheory.certify.trial import Runs
from spectheory.certify.zoo import SPECIMENS, Specimen
from spectheory.cli import app
from spectheory.core.arrays import residual

pytestmark = pytest.mark.usefixtures("no_child")


def command(*arguments: str) -> dict[str, Any]:
    """The certificate that the command prints as JSON."""
    result = CliRunner().invoke(app, ["certify", *arguments, "--json"])
    assert result.exit_code in (0, 1, 2), result.output
    return json.loads(result.stdout)


def test_the_bonus_token_of_the_deepest_path_is_compared() -> None:
    """LOSSY at level 1e-6."""
    found = command("tests.certify.certified:bonus_from_the_draft", "--black-box", "--shape", "1,1")
    assert found["verdict"] == "LOSSY"
    assert found["length"] == 4


def test_numbers_that_are_reused_in_the_next_cycle_are_found() -> None:
    """LOSSY at level 1e-6; each cycle on its own is right."""
    found = command("tests.certify.certified:ReusedCoins", "--black-box", "--shape", "1")
    assert found["verdict"] == "LOSSY"
    assert found["cycles"] == 2


def small_bonus_ids(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Rejection of the first drafts; the token after the last one is drawn from ids below 2^15 only."""
    node = 0
    while draft.draws[node]:
        child = draft.draws[node][0]
        if not rng.random() * draft.q[node, draft.tokens[child]] < p[node, draft.tokens[child]]:
            return node, rng.choice(p.shape[1], p=residual(p[node], draft.q[node]))
        node = child
    weights = p[node] * (np.arange(p.shape[1]) < 2**15)
    return node, rng.choice(len(weights), p=weights / weights.sum())


def test_the_default_run_reaches_ids_of_a_large_vocabulary() -> None:
    """LOSSY at level 1e-6, and only there."""
    found = st.certify_verifier(small_bonus_ids)
    assert found.verdict is Verdict.LOSSY
    assert found.sampled is not None


def test_tokens_that_are_not_compared_are_counted() -> None:
    found = st.certify_step(lambda *_: [0, 0, 0], lambda _: np.ones(1), vocab_size=1, length=2, cycles=1, tv=0.1)
    assert found.verdict is Verdict.WITHIN
    assert found.unseen == 1
    assert "one call emitted 1 more (length = 3 compares them)" in "\n".join(found.lines())


@pytest.mark.parametrize(
    ("name", "world"),
    [
        ("spectheory.certify.zoo.nodes:SORTED", "zeros in q"),
        ("tests.certify.certified:drops_below_a_twentieth", "twelve tokens"),
    ],
)
def test_a_fault_of_one_world_is_found_and_its_world_is_named(name: str, world: str) -> None:
    """LOSSY at level 1e-6. The certificate names every world that was played."""
    found = command(name, "--black-box", "--max-samples", "50000", *["--shape", "1"] * ("drops" in name))
    assert found["verdict"] == "LOSSY"
    assert found["worst"]["world"] == world
    assert found["worlds"][:-1] == [*WORLDS]


def pooled_test(specimen: Specimen, **options: Any) -> StepCertificate:
    """The black-box test of a rule of the zoo, on the last shape it is meant for."""
    rule = getattr(specimen.given, "rules", (st.DrawRule.IID,))[0]
    return certify_in_worlds(plays_of(specimen.given, (specimen.policies or ())[:2][-1:], rule), **options)


@pytest.mark.deep
def test_the_zoo_falls_in_the_pooled_worlds() -> None:
    """LOSSY at level 1e-6: half of the wrong rules within 2,000 runs, each within 50,000."""
    wrong = [s for s in SPECIMENS if not s.is_lossless and s.name != "zero-coin"]
    found = {one.name: pooled_test(one, alpha=1e-6, tv=1e-3, max_samples=50_000) for one in wrong}
    print({name: one.samples for name, one in found.items()})
    assert {one.verdict for one in found.values()} == {Verdict.LOSSY}
    assert np.median([one.samples for one in found.values()]) <= 2_000


def drawn_runs(plays: list[Play], keep: float) -> Callable[[Runs, int, np.random.Generator], None]:
    """In place of `Runs.run`: runs by the targets of `plays`, which go on after token t with chance keep^(t + 1)."""
    joints = {play.world: play.joint(()) for play in plays}

    def run(self: Runs, runs: int, rng: np.random.Generator) -> None:
        joint, alive, ended = joints[self.play.world], np.ones(1), []
        for level, given in enumerate(joint.given, start=1):
            chances = alive[:, None] * given
            kept = chances * keep ** np.arange(1, joint.vocab_size + 1) * (level < joint.length)
            ended, alive = [*ended, *(chances - kept).flat], kept.ravel()
        self.trials[0].drawn += rng.multinomial(runs, ended)

    return run


@pytest.mark.parametrize("tests", [20, pytest.param(1_000, marks=pytest.mark.deep)])
def test_the_pooled_worlds_keep_the_level(tests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default runs of right steps at alpha = 0.05: more alarms than the bound have probability at most 1e-4 (Binomial).
    The control: steps that are off by a total variation of 0.08 or more in one world are found more often."""
    plays = plays_of(st.otlp.Naive(), (), st.DrawRule.IID)
    off = replace(plays[0], target=lambda context: 0.9 * plays[0].target(context) + np.array([0.1, 0, 0]))
    alarms, found = 0, 0
    for seed in range(tests):
        monkeypatch.setattr(Runs, "run", drawn_runs(plays, keep=seed % 10 / 9))
        options = {"alpha": 0.05, "tv": 0.05, "seed": seed}
        alarms += certify_in_worlds(plays, **options).verdict is Verdict.LOSSY
        found += certify_in_worlds([off, *plays[1:]], **options).verdict is Verdict.LOSSY if seed < 20 else 0
    assert alarms <= binom.ppf(1 - 1e-4, tests, 0.05)
    assert found > binom.ppf(1 - 1e-4, 20, 0.05)
