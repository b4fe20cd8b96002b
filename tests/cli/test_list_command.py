"""`spectheory list`, and the completion of commands by the shell."""

from __future__ import annotations

import json

from typer.testing import CliRunner

import spectheory as st
from spectheory.cli import app
from spectheory.cli.listing import Kind
from spectheory.hardware.gpus import gpu_names
from spectheory.hardware.models import model_names
from tests.command_line import Run, run  # noqa: F401


def listed(*kinds: str) -> dict[str, dict[str, str]]:
    return json.loads(CliRunner().invoke(app, ["list", *kinds, "--json"]).stdout)


def test_it_lists_all_that_has_a_name() -> None:
    found = listed()
    assert list(found) == [kind.value for kind in Kind]
    assert set(found["gpus"]) == set(gpu_names())
    assert set(found["models"]) == set(model_names())
    assert list(found["engines"]) == st.engines.names()
    assert {"Greedy", "SpecInfer", "Traversal"} <= set(found["verifiers"])
    for name in found["verifiers"]:
        assert st.verify.name_of(st.verify.verifier_of(name)) == name
    assert all(said for rows in found.values() for said in rows.values())


def test_it_lists_the_kinds_that_are_asked_for(run: Run) -> None:  # noqa: F811
    shown = run("list", "gpus", "engines").stdout
    assert "NVIDIA H100 SXM, 80 GB, 3,350 GB/s" in shown
    assert "SGLang" in shown
    assert "llama-3.1-8b" not in shown
    assert run("list", "gpu").exit_code == 2
