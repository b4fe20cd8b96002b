"""What can be checked is checked before a model is loaded or a file written; a lack of memory is one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import spectheory as st
from reference.model_folders import open_model
from spectheory.cli.options import PairOptions
from tests.command_line import Run, refused
from tests.helpers import refuses

PAIR_COMMANDS = {
    "trace": ("--out", "new"),
    "decode": ("--plan", "plan.json", "--out", "new/tally.json"),
    "compare": ("--out", "new"),
    "profile": ("--out", "new/latency.json"),
    "demo": ("--out", "new"),
}
OTHERS = {"certify": ("Naive",)}
CASES = [
    ("trace", "--prompts", "absent.jsonl", "there is no file absent.jsonl"),
    ("decode", "--prompts", "bad.jsonl", "bad.jsonl, line 1 is damaged: not JSON"),
    ("trace", "--count", 0, "--count must be at least 1, got 0"),
    ("decode", "--count", 1_000_000, "prompts must be between 1 and"),
    ("trace", "--temperature", -1, "temperature must be"),
    ("trace", "--top-p", 2, "top_p must be"),
    ("profile", "--rounds", 0, "rounds must be at least 1, got 0"),
    ("profile", "--contexts", "0,5", "contexts must be increasing whole numbers"),
    ("compare", "--rounds", 0, "rounds must be at least 1, got 0"),
    ("compare", "--temperatures", "0,-1", "temperature must be"),
    ("decode", "--plan", "absent.json", "there is no file absent.json"),
    ("trace", "--prompts", "loop", "loop cannot be read: Too many levels of symbolic links"),
    ("decode", "--plan", "loop", "loop' cannot be followed: name another file"),
    ("certify", "--alpha", 0, "--alpha must be a number from 1e-300 to 1, got 0"),
    ("certify", "--cases", 10**18, "--cases must be between 1 and 1,000,000, got 1,000,000,000,000,000,000"),
    ("certify", "--max-samples", 0, "--max-samples must be between 1 and"),
]


@pytest.fixture
def no_models(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run commands in a folder with a plan, where no model can be loaded."""
    st.plan(st.Acceptance.by_rank([0.6]), st.Latency.constant(draft_seconds=0.1), max_budget=2).save("plan.json")
    Path("bad.jsonl").write_text("no object\n")

    def opened(self: PairOptions, alone: bool = False) -> None:
        raise AssertionError("a model is opened")

    monkeypatch.setattr(PairOptions, "open", opened)
    return run


@pytest.mark.parametrize(("command", "option", "value", "said"), CASES)
def test_an_option_is_checked_before_models_are_loaded(
    no_models: Run, command: str, option: str, value: object, said: str
) -> None:
    before = set(Path().rglob("*"))
    first = ("--skip", 0) if option == "--count" and command == "decode" else ()
    Path("loop").symlink_to("loop")
    refused(no_models(command, *(PAIR_COMMANDS | OTHERS)[command], *first, option, value), said)
    assert set(Path().rglob("*")) - before <= {Path("new"), Path("loop")}


@pytest.mark.parametrize("command", PAIR_COMMANDS)
def test_an_output_is_checked_before_models_are_loaded(no_models: Run, command: str) -> None:
    """Its folder is a file, in which not even the superuser can write."""
    Path("new").write_text("mine")
    refused(no_models(command, *PAIR_COMMANDS[command]), "new")
    assert Path("new").read_text() == "mine"


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(
    tiny_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference.model_folders.available_bytes", lambda: 250_000)
    said = r"target .* needs 0.0 GB of memory in float32, 0.0 GB are available: use a smaller type"
    refuses(said, open_model, "target", tiny_folders / "target", "cpu", torch.float32, "sdpa")


@pytest.mark.parametrize("fault", [lambda: np.empty(2**60, np.uint8), lambda: torch.empty(2**60, dtype=torch.uint8)])
def test_a_lack_of_memory_is_one_line(plan: Run, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object]) -> None:
    monkeypatch.setattr("spectheory.planning.candidates.Candidates.__init__", lambda *_, **__: fault())
    refused(plan("--latency", "latency.json"), "memory ran out (")
