"""The black-box test of the command: what it plays, what it compares, and that it is fair.

Statistical tests name their error level; every seed is fixed.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import spectheory as st
from spectheory.certify import Verdict
from spectheory.cli import app


def command(*arguments: str) -> dict[str, Any]:
    """The certificate that the command prints as JSON."""
    result = CliRunner().invoke(app, ["certify", *arguments, "--json"])
    assert result.exit_code in (0, 1, 2), result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(("shape", "length"), [("1,1", 4), ("1,1,1", 5)])
def test_the_bonus_token_of_the_deepest_path_is_compared(shape: str, length: int) -> None:
    """LOSSY at level 1e-6."""
    found = command("tests.certified:bonus_from_the_draft", "--black-box", "--shape", shape)
    assert found["verdict"] == "LOSSY"
    assert found["length"] == length


def test_numbers_that_are_reused_in_the_next_cycle_are_found() -> None:
    """LOSSY at level 1e-6; each cycle on its own is right."""
    found = command("tests.certified:ReusedCoins", "--black-box", "--shape", "1")
    assert found["verdict"] == "LOSSY"
    assert found["cycles"] == 2


P = np.array([[0.2, 0.8], [0.6, 0.4]])


class ThreeTokens:
    """A step that emits three tokens, the third from another distribution."""

    vocab_size = 2

    def target(self, context: Any) -> np.ndarray:
        return P[(0, *context)[-1]]

    def step(self, context: Any, rng: np.random.Generator) -> list[int]:
        text = [*context]
        for _ in range(2):
            text.append(int(rng.random() < self.target(text)[1]))
        return [*text[len(context) :], 0]


def test_a_step_is_compared_up_to_its_last_token() -> None:
    """LOSSY at level 1e-6, though no length is given."""
    assert command("tests.test_certify_black_box:ThreeTokens")["verdict"] == "LOSSY"
    steps = ThreeTokens()
    found = st.certify_step(steps.step, steps.target, vocab_size=2, tv=0.1, alpha=0.01)
    assert found.verdict is Verdict.WITHIN
    assert found.unseen == 1
    assert "one call emitted 1 more (length = 3 compares them)" in "\n".join(found.lines())
