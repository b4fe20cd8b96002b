"""The exact certificate: it condemns what is wrong, passes what is right, and says what it covered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import spectheory as st
from spectheory.certify import Verdict, certify_in_worlds
from spectheory.certify.small_worlds import shapes
from spectheory.certify.zoo import SPECIMENS, STEPS, Specimen, StepSpecimen
from spectheory.cli import app
from tests.certify.certified import (
    casts,
    draws_forever,
    invents_a_token,
    leaves_the_tree,
    loops,
    naive,
    noisy,
    own_draws,
    raises,
    rarely_wrong,
    returns_late,
    some_own_draws,
    spoils_the_draft,
    wrong_on_one_shape_only,
)
from tests.helpers import refuses

WRONG = [s for s in SPECIMENS if not s.is_lossless]
RIGHT = [s for s in SPECIMENS if s.is_lossless]


FEW = [pytest.param(True, id="small shapes"), pytest.param(False, id="all shapes", marks=pytest.mark.deep)]


def policies(specimen: Specimen, few: bool) -> Sequence[st.core.world.DrawPolicy]:
    """The specimen's own policies, or all shapes of each of its draw rules.

    If `few`, only the first of its own policies is taken unless they are chains, since larger trees take long. Of the
    shapes, the two simplest are taken, a wide one and a deep one.
    """
    rules = getattr(specimen.given, "rules", (st.DrawRule.IID,))
    if own := specimen.policies:
        return own if not few or own[0] == st.Levels((1,)) else own[:1]
    every = [shapes(rule) for rule in rules]
    return [shape for each in every for shape in ([*each[:2], each[3], each[6]] if few else each)]


@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize("specimen", WRONG, ids=lambda s: s.name)
def test_every_wrong_verifier_is_condemned(specimen: Specimen, few: bool) -> None:
    certificate = st.certify_verifier(
        specimen.given,
        policies=policies(specimen, few),
        zero_coins=specimen.zero_coins,
        cases=16 if few else 300,
        sizes=(2, 3) if few else None,
    )
    assert certificate.verdict is Verdict.LOSSY, certificate.lines()
    found = certificate.counterexample
    assert found
    assert specimen.zero_coins or found.total_variation > 0
    assert specimen.about


@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize("specimen", RIGHT, ids=lambda s: s.name)
def test_every_right_verifier_is_passed(specimen: Specimen, few: bool) -> None:
    certificate = st.certify_verifier(
        specimen.given, policies=policies(specimen, few), cases=12 if few else 80, sizes=(2, 3) if few else None
    )
    assert certificate.verdict is Verdict.LOSSLESS, certificate.lines()
    assert certificate.cases >= (10 if few else 40)


def test_a_counterexample_is_printed_whole() -> None:
    corrects = next(s for s in SPECIMENS if s.name == "correction-from-p")
    certificate = st.certify_verifier(corrects.given, policies=[st.Levels((1,)), st.Levels((2,))], sizes=(2,), cases=40)
    report = "\n".join(certificate.lines())
    for part in (
        "LOSSY",
        "policy Levels(counts=(1,)",
        "p = (1/3, 2/3)  q = (4/5, 1/5)",
        "a draft that shows it: after [] drew [",
        "emits [",
        "total variation 7/45",
    ):
        assert part in report
    stored = json.loads(json.dumps(certificate.to_json()))
    assert stored["verdict"] == "LOSSY"
    assert stored["counterexample"]["total_variation"] == "7/45"
    again = st.certify_verifier(corrects.given, policies=[st.Levels((1,)), st.Levels((2,))], sizes=(2,), cases=40)
    assert again.lines() == certificate.lines()


def test_code_that_needs_floats_is_enumerated_in_floats() -> None:
    with np.errstate(divide="ignore"):
        certificate = st.certify_verifier(naive, policies=[st.Levels((1,))], cases=60)
    assert certificate.verdict is Verdict.LOSSLESS
    assert certificate.method.endswith("in floating point, to 1e-6")


@pytest.mark.parametrize("verify", [casts, spoils_the_draft])
def test_right_code_with_habits_is_passed(verify: Any) -> None:
    certificate = st.certify_verifier(verify, policies=[st.Levels((1,)), st.Levels((2, 1))], cases=8)
    assert certificate.verdict is Verdict.LOSSLESS, certificate.lines()
    assert certificate.cases == (85 if verify is casts else 84)  # a world of 64 tokens has too many pairs of them


def test_every_shape_that_is_called_covered_was_looked_at() -> None:
    found = st.certify_verifier(wrong_on_one_shape_only, sizes=(2,), cases=13)
    assert found.verdict is Verdict.LOSSY
    assert found.covered.startswith(f"{len(shapes(st.DrawRule.IID))} shapes of up to 5 levels and 4 children of a node")


@pytest.mark.parametrize(
    ("verify", "verdict", "message"),
    [
        (raises, Verdict.UNDECIDED, "raised KeyError in raises, certified.py line"),
        (lambda *_: 7, Verdict.UNDECIDED, "verify must return (node, token), two whole numbers, got 7"),
        (returns_late, Verdict.UNDECIDED, "did not return within 1 seconds of processor time"),
        (draws_forever, Verdict.UNDECIDED, "draws more than 10,000 times in one branch"),
        (leaves_the_tree, Verdict.LOSSY, "returned node 77, but it must be from 0 to 1"),
        (invents_a_token, Verdict.LOSSY, "returned token 2, but it must be from 0 to 1"),
        (noisy, Verdict.UNDECIDED, "rng.standard_gamma cannot be enumerated"),
        (loops, Verdict.UNDECIDED, "its branches did not end within 1 seconds"),
    ],
)
def test_what_stops_the_certifier_is_reported(verify: Any, verdict: Verdict, message: str) -> None:
    certificate = st.certify_verifier(verify, policies=[st.Levels((1,))], cases=3, seconds=1)
    assert certificate.verdict is verdict
    assert message in (certificate.failure or "")
    assert certificate.cannot_replay == (verify in (noisy, loops, draws_forever))


@pytest.mark.parametrize("verify", [own_draws, rarely_wrong])
def test_draws_that_pass_rng_by_are_never_judged_exactly(verify: Any) -> None:
    certificate = st.certify_verifier(verify)
    assert certificate.verdict is Verdict.UNDECIDED
    assert certificate.cannot_replay


def test_chance_agreement_with_draws_of_its_own_is_not_called_lossy() -> None:
    for seed in range(50):
        verify = partial(some_own_draws, own=np.random.PCG64(seed))
        certificate = st.certify_verifier(verify, policies=[st.Levels((1,))], cases=20, sizes=(2,))
        assert certificate.verdict is not Verdict.LOSSY, certificate.lines()


def test_shapes_that_a_verifier_refuses_are_not_called_covered() -> None:
    certificate = st.certify_verifier(st.verify.Block(), cases=20)
    assert certificate.verdict is Verdict.LOSSLESS
    assert any("Levels((2,))" in line for line in certificate.refused)
    assert "4 children" not in certificate.covered
    nothing = st.certify_verifier(st.verify.Block(), policies=[st.Levels((3,))])
    assert nothing.verdict is Verdict.UNDECIDED


def test_bad_arguments() -> None:
    refuses("given must be a Solver, a Verifier or a function", st.certify_verifier, 3)
    refuses("given must be an instance of TopDown, not the class: ", st.certify_verifier, st.verify.TopDown)
    refuses("cases must be between 1 and 1,000,000, got 0", st.certify_verifier, naive, cases=0)
    with pytest.raises(ValueError, match="draws by IID: add it to rules"):
        st.certify_verifier(naive, rules=st.DrawRule.TOP_K, policies=[st.Levels((1,))])
    refuses("seconds must be a number of at least 1e-09, got 0", st.certify_verifier, naive, seconds=0)
    refuses("zero_coins must be bool, got 1", st.certify_verifier, naive, zero_coins=1)
    refuses("seed must be between 0 and .*, got -1", st.certify_verifier, naive, seed=-1)
    refuses("at most 20,000 can be enumerated", st.certify_verifier, naive, policies=[st.Levels((9, 9))])
    refuses("rules of Unruly must name at least one", st.certify_verifier, Unruly())


class Unruly:
    """Claims no draw rule."""

    rules = ()
    __name__ = "Unruly"

    def __call__(self, draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        return 0, 0


@pytest.mark.parametrize(
    ("arguments", "status", "said", "child"),
    [
        (["spectheory.otlp:Naive", "--cases", "2", "--rule", "iid", "--shape", "2"], 0, "LOSSLESS", True),
        (["tests.certify.certified:invents_a_token", "--shape", "1"], 1, "LOSSY", False),
        (["tests.certify.certified:raises", "--shape", "1", "--cases", "3"], 2, "UNDECIDED", False),
        (["tests.certify.certified:noisy", "--shape", "1", "--exact"], 2, "cannot be enumerated", False),
        (["spectheory.certify.zoo.steps:SHARED_SEED"], 1, "LOSSY", True),
        (
            ["tests.certify.certified:own_draws", "--shape", "1", "--tv", "0.6", "--alpha", "0.01"],
            0,
            "Levels((1,)) by IID",
            False,
        ),
        (["spectheory.verify:Block", "--black-box", "--tv", "0.4", "--alpha", "0.01"], 0, "WITHIN", False),
        (["nonsense"], 2, "", False),
    ],
)
def test_the_command(arguments: list[str], status: int, said: str, child: bool, request: pytest.FixtureRequest) -> None:
    """Each verdict comes from a child once."""
    if not child:
        request.getfixturevalue("no_child")
    result = CliRunner().invoke(app, ["certify", *arguments])
    assert result.exit_code == status, result.output
    assert said in result.output


@pytest.mark.usefixtures("no_child")
@pytest.mark.parametrize(
    "arguments",
    [
        ["spectheory.certify.zoo.nodes:corrects_nothing"],
        ["spectheory.certify.zoo.steps:SHARED_SEED", "--exact"],
        ["tests.certify.certified:naive", "--seconds", "-1"],
        ["tests.certify.certified:BROKEN_STEP"],
        ["tests.certify.certified:noisy", "--shape", "0"],
        ["tests.certify.certified:naive", "--alpha", "0"],
        ["tests.certify.certified:naive", "--cases", "1000000000000000000"],
    ],
)
def test_the_command_refuses(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["certify", *arguments])
    assert result.exit_code == 2, result.output


@pytest.mark.parametrize("specimen", STEPS, ids=lambda s: s.name)
def test_whole_steps_are_told_apart(specimen: StepSpecimen) -> None:
    """Wrong ones at level 1e-6, right ones passed within 0.05 at level 0.01: either error of a test, fixed seeds."""
    alpha = 0.01 if specimen.is_lossless else 1e-6
    certificate = certify_in_worlds([specimen.play], cycles=1, alpha=alpha, tv=0.05)
    assert certificate.verdict is (Verdict.WITHIN if specimen.is_lossless else Verdict.LOSSY), certificate.lines()
    assert certificate.samples > 0
