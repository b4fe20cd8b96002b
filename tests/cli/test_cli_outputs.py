"""Outputs of commands: progress, which files may be replaced, and that all outputs are checked before the first is
written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spectheory as st
from spectheory.cli import output
from spectheory.cli.listing import Kind
from spectheory.hardware.gpus import gpu_names
from spectheory.hardware.models import model_names
from tests.command_line import HEAD, Run, refused

CHAINS = (*HEAD, "--batch", "1,4,16,64,256", "--acceptance", "0.75,0.7,0.65", "--engine", "sglang")


def files() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path().iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("adaptive.json", CHAINS[len(HEAD) :]),
        ("notes.html", ("--report", "notes.html")),
        ("notes.json", ("--out", "notes.json")),
    ],
)
def test_a_file_is_replaced_by_force_alone(plan: Run, name: str, options: tuple[object, ...]) -> None:
    Path(name).write_text("mine")
    before = files()
    refused(plan(*HEAD, *options), f"{name} exists: give --force")
    assert files() == before
    assert plan(*HEAD, *options, "--force").exit_code == 0
    assert files()[name] != "mine"


def test_the_file_of_an_engine_may_stand_there_already(plan: Run) -> None:
    assert [plan(*CHAINS, "--force").exit_code, plan(*CHAINS).exit_code] == [0, 0]
    refused(plan(*CHAINS, "--acceptance", "0.8"), "give --force, or name a folder for it: --out FOLDER/schedule.json")


def test_nothing_is_written_if_any_output_is_refused(plan: Run) -> None:
    written = ("--out", "schedule.json", "--report", "page.html", "--force")
    Path("adaptive.json").mkdir()
    refused(plan(*CHAINS, *written), "adaptive.json is a folder: name a file")
    Path("adaptive.json").rmdir()
    st.Acceptance.by_depth_and_rank([[0.75], [0.7], [0.65]]).save("adaptive.json")
    refused(plan(*CHAINS, *written, "--acceptance", "adaptive.json"), "adaptive.json is another file of this command")
    refused(plan("--acceptance", "adaptive.json", *HEAD, "--out", "a", "--report", "a"), "a is another file of this")
    assert not {"schedule.json", "page.html", "a"} & set(files())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "folder"), "folder is a folder: name a file"),
        (("--out", "/dev/null", "--force"), "/dev/null is a device: name a file"),
        (("--report", "latency.json/page.html"), "latency.json/page.html cannot be written, "),
        (("--acceptance", "absent.json"), "there is no file absent.json"),
    ],
)
def test_paths_that_cannot_be_used_are_named(plan: Run, options: tuple[str, ...], message: str) -> None:
    Path("folder").mkdir()
    refused(plan(*HEAD, *options), message)


def test_off_a_terminal_progress_is_one_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("spectheory.cli.output.time.monotonic", lambda: now)
    with output.progress("trace") as tell:
        for now in (1.0, 59.0, 61.0, 100.0, 125.0):
            tell(int(now), 1000)
    assert capsys.readouterr().err == "trace: 61 of 1,000\ntrace: 125 of 1,000\n"


# The command `list`


def test_it_lists_all_that_has_a_name(run: Run) -> None:
    found = json.loads(run("list", "--json").stdout)
    assert list(found) == [kind.value for kind in Kind]
    assert set(found["gpus"]) == set(gpu_names())
    assert set(found["models"]) == set(model_names())
    assert list(found["engines"]) == st.engines.names()
    assert {"Greedy", "SpecInfer", "Traversal"} <= set(found["verifiers"])
    for name in found["verifiers"]:
        assert st.verify.name_of(st.verify.verifier_of(name)) == name
    assert all(said for rows in found.values() for said in rows.values())


def test_it_lists_the_kinds_that_are_asked_for(run: Run) -> None:
    shown = run("list", "gpus", "engines").stdout
    assert "NVIDIA H100 SXM, 80 GB, 3,350 GB/s" in shown
    assert "SGLang" in shown
    assert "llama-3.1-8b" not in shown
    assert run("list", "gpu").exit_code == 2
