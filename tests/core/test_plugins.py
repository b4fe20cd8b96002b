"""Solvers and verifiers of other packages: listed, certified by name, and on the page of verifiers."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectheory import InputError
from spectheory.cli import app
from spectheory.core.plugins import PluginWarning
from spectheory.engines import engine
from spectheory.otlp import solvers
from spectheory.verify import Traversal, verifier_of, verifiers
from tests.helpers import install_toy

SOURCE = '''
from dataclasses import dataclass
from typing import ClassVar
from spectheory import DrawRule
from spectheory.otlp import NSS, Solver
from spectheory.verify import TopDown, Verifier

@dataclass(frozen=True)
class ToySolver(Solver):
    """Emits a token of p.

    Acceptance: by luck.
    Cost: O(toy).
    Source: a test.
    """

    rules: ClassVar = (DrawRule.IID,)

    def _distribution(self, p, q, drafts):
        return NSS()._distribution(p, q, drafts)

    def _acceptance(self, p, q, k):
        return NSS()._acceptance(p, q, k)

@dataclass(frozen=True)
class ToyVerifier(Verifier):
    """Emits a token of p at the root.

    Acceptance: by luck.
    Cost: O(toy).
    Source: a test.
    """

    rules: ClassVar = (DrawRule.IID,)

    def _outcome(self, draft, p):
        return TopDown(NSS())._outcome(draft, p)

number = 3
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_toy(tmp_path, monkeypatch, SOURCE, solvers="ToySolver", verifiers="ToyVerifier")


@pytest.mark.usefixtures("toy")
def test_a_solver_and_a_verifier_of_another_package_are_listed_last() -> None:
    assert repr(solvers()[-1]) == "ToySolver()"
    assert repr(verifiers()[-1]) == "ToyVerifier()"


@pytest.mark.usefixtures("toy")
def test_they_are_certified_by_name() -> None:
    """In the child, which finds the package again."""
    result = CliRunner().invoke(app, ["certify", "ToySolver", "--cases", "20", "--shape", "1"])
    assert result.exit_code == 0, result.output
    assert "ToySolver(): LOSSLESS" in result.output


@pytest.mark.parametrize("group", ["solvers", "verifiers", "engines"])
def test_a_damaged_package_is_named_where_its_object_is_asked_for(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that name a verifier of this package stay readable, and no other name is affected."""
    install_toy(tmp_path, monkeypatch, "raise ImportError('no CUDA')", **{group: "Lost"})
    assert verifier_of("Traversal") == Traversal()
    assert engine("vllm").name == "vllm"
    look = engine if group == "engines" else verifier_of
    for name in ("Lost", "toy"):
        with (
            pytest.warns(
                PluginWarning, match="toy-package cannot be loaded: ImportError: no CUDA; repair or uninstall"
            ),
            pytest.raises(InputError, match=r"must be one of|unknown"),
        ):
            look(name)
