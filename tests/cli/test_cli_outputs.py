"""Outputs of commands: which files may be replaced, and that all outputs are checked before the first is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spectheory as st
from spectheory.planning.schedule_record import Schedule
from tests.command_line import HEAD, Run, refused

CHAINS = (*HEAD, "--batch", "1,4,16,64,256", "--max-fanout", 1, "--engine", "sglang")


def files() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path().iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("speculative_config.yaml", ("--engine", "trtllm")),
        ("adaptive.json", CHAINS[len(HEAD) :]),
        ("choices.py", ("--engine", "medusa")),
        ("notes.html", ("--report", "notes.html")),
        ("notes.txt", ("--out", "notes.txt")),
    ],
)
def test_what_a_person_wrote_is_replaced_by_force_alone(plan: Run, name: str, options: tuple[object, ...]) -> None:
    Path(name).write_text("mine")
    before = files()
    asked = (*HEAD, *options, *(() if "--out" in options else ("--out", "schedule.json")))
    refused(plan(*asked), f"{name} already exists: name another file or folder, or replace it with --force")
    assert files() == before
    assert plan(*asked, "--force").exit_code == 0
    assert files()[name] != "mine"
    assert plan(*asked).exit_code == 0, (
        "records and pages replace their own kind, and a file may be replaced by the same text"
    )


def test_records_and_pages_are_replaced_by_their_kind_and_engine_files_by_force(plan: Run, run: Run) -> None:
    assert plan(*CHAINS, "--out", "s.json", "--report", "s.html").exit_code == 0
    st.Acceptance.by_rank([0.5]).save("acceptance.json")
    assert plan(*CHAINS[:-2], "--out", "s.json", "--report", "s.html").exit_code == 0
    assert Schedule.load("s.json").acceptance.table.tolist() == [[0.5]]
    refused(plan(*CHAINS), "adaptive.json already exists: name another file or folder, or replace it with --force")
    policies = ("policies", "--acceptance", "acceptance.json", "--budget", 4)
    refused(run(*policies, "--out", "s.html"), "s.html already exists: name another file or folder")
    assert run(*policies, "--report", "s.html").exit_code == 0
    assert run(*policies, "--out", "s.json", "--force").exit_code == 0
    assert json.loads(Path("s.json").read_text())["kind"] == "policy_comparison"


def test_nothing_is_written_if_any_output_is_refused(plan: Run) -> None:
    written = ("--out", "schedule.json", "--report", "page.html")
    Path("adaptive.json").mkdir()
    for force in ((), ("--force",)):
        refused(plan(*CHAINS, *written, *force), "adaptive.json is a folder: name a file")
    Path("adaptive.json").rmdir()
    Path("acceptance.json").rename("adaptive.json")
    for force in ((), ("--force",)):
        result = plan("--acceptance", "adaptive.json", *CHAINS, *written, *force)
        refused(result, "adaptive.json is an input of this command: writing would replace it, name another file")
    Path("eagle3").mkdir()
    head = Path(st.__file__).parent / "data/models/eagle3-llama-3.1-8b.json"
    config = Path("eagle3/config.json")
    config.write_text(head.read_text())
    asked = ("--acceptance", "adaptive.json", *HEAD[:5], "eagle3", "--out", config, "--force")
    refused(plan(*asked), "eagle3/config.json is an input of this command")
    assert not {"schedule.json", "page.html"} & set(files())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "folder"), "folder is a folder: name a file"),
        (("--out", ""), ". is a folder: name a file"),
        (("--out", "/dev/null", "--force"), "/dev/null is a device: name a file"),
        (("--report", "latency.json/page.html"), "latency.json/page.html cannot be written, "),
        (("--report", "/proc/page.html"), "/proc/page.html cannot be written, no file can be created in /proc: "),
        (("--out", "/proc/plan.json"), "/proc/plan.json cannot be written, no file can be created in /proc: "),
        (("--acceptance", "folder"), "folder is a folder: name a file"),
        (("--acceptance", "absent.json"), "there is no file absent.json"),
    ],
)
def test_paths_that_cannot_be_used_are_named(plan: Run, options: tuple[str, ...], message: str) -> None:
    Path("folder").mkdir()
    refused(plan(*HEAD, *options), message)


def test_the_system_is_quoted_with_the_file_and_without_its_number(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    st.Acceptance.by_rank([0.6]).save("acceptance.json")

    def full(*arguments: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = run("policies", "--acceptance", "acceptance.json", "--budget", 2, "--out", "found.json")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: found.json cannot be written: No space left on device; name another file\n",
    )


def test_rates_may_come_on_standard_input(run: Run) -> None:
    text = json.dumps(st.Acceptance.by_rank([0.6, 0.15]).to_dict())
    result = run("schedule", "--acceptance", "-", *HEAD, "--json", given=text)
    assert Schedule.from_dict(json.loads(result.stdout)).acceptance.table.tolist() == [[0.6, 0.15]]
    assert run("policies", "--acceptance", "-", "--budget", 2, given=text).exit_code == 0
    refused(run("schedule", "--acceptance", "-", *HEAD, given="{"), "standard input is damaged: not JSON")


def test_a_plan_is_refused_in_the_words_of_the_command_line(plan: Run) -> None:
    refused(plan(*HEAD, "--max-budget", 0), "--max-budget must be at least 1, got 0")
    refused(plan(*HEAD, "--max-fanout", 0), "--max-fanout must be at least 1, or left out, got 0")
    refused(plan(*HEAD, "--max-depth", -1), "--max-depth must be at least 1, or left out, got -1")
    refused(
        plan(*HEAD, "--batch", "4:1"),
        "--batch must name increasing sizes from 1 to 1,000,000,000, like 1:256 or 1,8,64, got '4:1'",
    )
    refused(plan(*HEAD, "--batch", "9" * 23), "--batch must name increasing sizes from 1 to 1,000,000,000, like")
    refused(plan(*HEAD, "--batch", "0:3"), "--batch must name increasing sizes")
    refused(plan(*HEAD, "--batch", "1:2:3"), "--batch must be like 1:256 or 1,8,64, got '1:2:3'")
    refused(plan(*HEAD, "--batch", "1:1000000000"), "GB are missing; batch up to 398 fits, or a larger GPU")
    refused(plan(*HEAD, "--batch", "1:20000", "--gpus", 8, "--context", 1), "at most 10,000 batch sizes, got 20,000")
    refused(plan(*HEAD, "--measured", "empty"), "empty has no record for gpu h100_sxm, target llama-3.1-8b, draft")


def test_a_comparison_is_refused_in_the_words_of_the_command_line(plan: Run, run: Run) -> None:
    asked = ("policies", "--acceptance", "acceptance.json", "--budget")
    refused(run(*asked, 0), "--budget must be at least 1 drafted node, got 0")


def test_models_are_found_by_folder_and_by_repository(plan: Run) -> None:
    head = Path(st.__file__).parent / "data/models/eagle3-llama-3.1-8b.json"
    Path("my-head").mkdir()
    Path("my-head/config.json").write_text(head.read_text())
    named, folder, repository = (
        json.loads(plan(*HEAD[:2], "--target", target, "--draft", draft, "--json").stdout)
        for target, draft in (
            (HEAD[3], HEAD[5]),
            (HEAD[3], "my-head"),
            ("meta-llama/Llama-3.1-8B", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"),
        )
    )
    assert named["speedup"] == folder["speedup"] == repository["speedup"]
    assert repository["provenance"]["target"] == "llama-3.1-8b"
    assert folder["provenance"]["draft"] == "my-head/config.json"
