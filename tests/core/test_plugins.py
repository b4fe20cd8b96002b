"""Solvers and verifiers of other packages: listed, certified by name, and on the page of verifiers."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectheory import InputError, Levels
from spectheory.cli import app
from spectheory.core.plugins import PluginWarning, plugins
from spectheory.engines import engine, names
from spectheory.otlp import Solver, solvers
from spectheory.verify import Traversal, verifier_of, verifiers
from tests.toy_package import install

DOCS = Path(__file__).parents[2] / "docs"
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
missing = "here"
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, SOURCE, solvers="ToySolver", verifiers="ToyVerifier")


def test_an_entry_point_is_not_loaded_at_import() -> None:
    code = "import sys, importlib.metadata as m; m.entry_points = None; import spectheory; spectheory.verify.Block()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("toy")
def test_a_solver_and_a_verifier_of_another_package_are_listed_last() -> None:
    assert repr(solvers()[-1]) == "ToySolver()"
    assert repr(verifiers()[-1]) == "ToyVerifier()"


@pytest.mark.usefixtures("toy")
def test_the_page_of_verifiers_has_a_row_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is certified on single drafts."""
    monkeypatch.setattr("spectheory.certify.strategies.shapes", lambda rule: [Levels((1,), rule)])
    generate = runpy.run_path(str(DOCS / "generate_verifiers.py"))
    for rule, name in ((solvers()[-1], "ToySolver"), (verifiers()[-1], "ToyVerifier")):
        assert rule in generate["rules"]()
        row = generate["row"](rule, 1)
        assert row.startswith(f"| `{name}()` | IID | LOSSLESS: ")
        assert row.endswith(" | O(toy). |")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("name", ["ToySolver", "ToyVerifier", "NSS"])
def test_they_are_certified_by_name(name: str, request: pytest.FixtureRequest) -> None:
    """One of them in the child, which finds the package again."""
    if name != "ToySolver":
        request.getfixturevalue("no_child")
    result = CliRunner().invoke(app, ["certify", name, "--cases", "20", "--shape", "1"])
    assert result.exit_code == 0, result.output
    assert f"{name}(): LOSSLESS" in result.output


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        (
            "number",
            Solver,
            r"entry point toy = toy_package:number of group spectheory.solvers of package toy-package must be a Solver",
        ),
        ("ToyVerifier", Solver, r"must be a Solver, or a subclass that needs no arguments, got <class"),
        ("lost", Solver, r"toy_package:lost .* cannot be loaded: AttributeError: .*repair or uninstall"),
        ("missing.part", None, r"toy_package:missing.part .* cannot be loaded: AttributeError"),
    ],
)
def test_what_cannot_be_used_is_named_and_left_out(
    path: str, kind: type | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, SOURCE, solvers=path)
    with pytest.warns(PluginWarning, match=message):
        assert plugins("spectheory.solvers", kind) == []


@pytest.mark.parametrize("group", ["solvers", "verifiers", "engines"])
def test_a_damaged_package_is_an_error_only_where_its_object_is_asked_for(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that name a verifier of this package stay readable, and no other name is affected."""
    install(tmp_path, monkeypatch, "raise ImportError('no CUDA')", **{group: "Lost"})
    assert verifier_of("Traversal") == Traversal()
    assert engine("vllm").name == "vllm"
    look = engine if group == "engines" else verifier_of
    for name in ("Lost", "toy"):
        with (
            pytest.warns(PluginWarning, match="of package toy-package cannot be loaded: ImportError: no CUDA"),
            pytest.raises(InputError, match=r"toy_package:Lost .*: ImportError: no CUDA; repair or uninstall"),
        ):
            look(name)
    with pytest.warns(PluginWarning), pytest.raises(InputError, match=r"must be one of|unknown"):
        look("Nothing")


CLASHES = """
from spectheory.engines import Engine
from spectheory.otlp import NSS, Solver
from spectheory.verify import Block, Verifier

class Traversal(Block): pass
class Naive(Block): pass
class Greedy(Block): pass
class RRS(NSS): pass
class ArgMax(NSS): pass
engine = Engine("vllm", "Not vLLM")
"""


@pytest.mark.parametrize(
    ("group", "path", "listed"),
    [
        ("verifiers", "Traversal", verifiers),
        ("verifiers", "Naive", verifiers),
        ("verifiers", "Greedy", verifiers),
        ("solvers", "RRS", solvers),
        ("solvers", "ArgMax", solvers),
        ("engines", "engine", names),
    ],
)
def test_no_plugin_takes_the_name_of_a_part_of_this_package(
    group: str, path: str, listed: Callable[[], list[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = listed()
    install(tmp_path, monkeypatch, CLASHES, **{group: path})
    name = "vllm" if group == "engines" else path
    message = (
        f"entry point toy = .* of package toy-package has the name {name}, which spectheory has: rename its object"
    )
    with pytest.warns(PluginWarning, match=message):
        assert listed() == own
    if group == "engines":
        assert engine(name).title == "vLLM"
    elif name != "ArgMax":
        chosen = verifier_of(name)
        assert type(getattr(chosen, "solver", chosen)).__module__.startswith("spectheory.")


def test_of_two_plugins_with_one_name_the_first_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, SOURCE, solvers="ToySolver\ntwin = toy_package:ToySolver")
    with pytest.warns(PluginWarning, match=r"point twin = .* has the name ToySolver, which entry point toy = .* has"):
        assert [repr(one) for one in plugins("spectheory.solvers", Solver)] == ["ToySolver()"]


@pytest.mark.parametrize("group", ["drafters", "engines", "claims"])
def test_any_object_may_be_registered_in_the_other_groups(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, SOURCE, **{group: "number"})
    assert plugins(f"spectheory.{group}") == [3]
