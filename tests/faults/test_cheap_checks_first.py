"""What can be checked without models is checked before a model is loaded, and before a file is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import spectheory as st
from spectheory.cli import replaying
from spectheory.cli.options import PairOptions
from tests.command_line import Run, refused

PAIR_COMMANDS = {
    "trace": ("--out", "new"),
    "decode": ("--plan", "plan.json", "--out", "new/tally.json"),
    "compare": ("--out", "new"),
    "profile": ("--out", "new/latency.json"),
    "demo": ("--out", "new"),
}
CASES = [
    ("trace", "--prompts", "absent.jsonl", "there is no file absent.jsonl"),
    ("trace", "--prompts", ".", "prompts file . is a folder"),
    ("decode", "--prompts", "bad.jsonl", "bad.jsonl, line 1 is damaged: not JSON"),
    ("trace", "--count", 0, "--count must be at least 1, got 0"),
    ("decode", "--count", 1_000_000, "prompts must be between 1 and"),
    ("decode", "--prompt-tokens", 0, "--prompt-tokens must be at least 1, got 0"),
    ("trace", "--temperature", -1, "temperature must be"),
    ("trace", "--temperature", "nan", "temperature must be"),
    ("trace", "--top-p", 2, "top_p must be"),
    ("trace", "--top-p", 0.5, "no effect at temperature 0"),
    ("trace", "--new-tokens", 0, "must be at least"),
    ("profile", "--rounds", 0, "rounds must be at least 1, got 0"),
    ("profile", "--contexts", "0,5", "contexts must be increasing whole numbers"),
    ("profile", "--largest", 0, "--largest must be at least 1, got 0"),
    ("compare", "--rounds", 0, "rounds must be at least 1, got 0"),
    ("compare", "--temperatures", "0,-1", "temperature must be"),
    ("compare", "--temperatures", "a", "--temperatures must be numbers"),
    ("decode", "--plan", "absent.json", "there is no file absent.json"),
]


@pytest.fixture
def no_models(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run commands in a folder with a plan, where no model can be loaded."""
    st.plan(st.Acceptance.by_rank([0.6]), st.Latency.constant(draft_seconds=0.1), max_budget=2).save("plan.json")
    Path("bad.jsonl").write_text("no object\n")

    def load(self: PairOptions) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(PairOptions, "load", load)
    return run


@pytest.mark.parametrize(("command", "option", "value", "said"), CASES)
def test_an_option_is_checked_before_models_are_loaded(
    no_models: Run, command: str, option: str, value: object, said: str
) -> None:
    before = set(Path().rglob("*"))
    first = ("--skip", 0) if option == "--count" and command == "decode" else ()
    refused(no_models(command, *PAIR_COMMANDS[command], *first, option, value), said)
    assert set(Path().rglob("*")) - before <= {Path("new")}


@pytest.mark.parametrize("command", PAIR_COMMANDS)
def test_an_output_is_checked_before_models_are_loaded(no_models: Run, command: str) -> None:
    """Its folder is a file, in which not even the superuser can write."""
    Path("new").write_text("mine")
    refused(no_models(command, *PAIR_COMMANDS[command]), "new")
    assert Path("new").read_text() == "mine"


@pytest.mark.parametrize("engine", ["vllm@9.9", "vllm,sglang@0", "@1", "vllm,,sglang"])
def test_an_engine_and_its_version_are_checked_before_the_plan(plan: Run, engine: str) -> None:
    before = set(Path().rglob("*"))
    refused(plan("--latency", "latency.json", "--out", "p.json", "--engine", engine), "--engine: ")
    assert set(Path().rglob("*")) == before


def test_a_tree_is_read_before_the_texts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of a trace above temperature 0 need both models."""

    def texts_in(*_: object) -> None:
        raise AssertionError("the texts are read")

    monkeypatch.setattr(replaying, "_texts_in", texts_in)
    Path("tree.json").write_text("[-1, 0, 7]")
    refused(run("replay", "trace", "--tree", "tree.json"), "tree.json must hold a parent array")


@pytest.mark.parametrize("command", ["decode", "certify"])
def test_a_seed_fits_every_generator(run: Run, command: str) -> None:
    """Torch takes no larger ones. The option is checked with the others, before those that are missing."""
    result = run(command, *(["Naive"] if command == "certify" else []), "--seed", 2**63)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert f"{2**63 - 1}" in result.stderr or "Missing option" in result.stderr
