"""First screens and helps: what fits on a screen, and what is on it."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from typer.main import get_command

import spectheory as st
from spectheory.cli import app
from spectheory.cli.main import PANELS
from spectheory.planning.deployment import Deployment
from tests.command_line import Run, succeeded

EXAMPLES = tomllib.loads((files("spectheory") / "data" / "examples.toml").read_text(encoding="utf-8"))
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
H100 = ("--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--draft", "eagle3")
MTP = ("--gpu", "h200_sxm", "--gpus", 8, "--target", "deepseek-r1", "--draft", "mtp")


def lines_of(text: str) -> list[str]:
    return [line[at : at + 80] for line in text.splitlines() for at in range(0, max(1, len(line)), 80)]


@pytest.mark.parametrize(
    "options",
    [
        (*H100, "--gpus", 4, "--target", "llama-3.1-70b", "--engine", "vllm", "--batch", "1,16,32,64,128,256"),
        (*H100, "--engine", "vllm", "--batch", "1:256"),
        (*H100, "--engine", "vllm", "--batch", "1:64", "--context", "1k:32k"),
        (*H100, "--engine", "llama.cpp", "--acceptance", "0.1", "--batch", "1,2,4"),
        (*MTP, "--engine", "sglang", "--batch", "1,8,32,64,96,128,192,256"),
    ],
)
def test_an_answer_is_one_screen_in_one_order(run: Run, monkeypatch: pytest.MonkeyPatch, options: list[object]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = succeeded(run("schedule", "--acceptance", "0.75,0.68,0.62", *options)).stdout
    assert len(lines_of(shown)) <= 24
    assert re.search(
        r"^(Run|Do not)[^\0]+^(?:context +)?batch +run[^\0]+^\S+ [\d.]+:$[^\0]+Measure\s+first", shown, re.MULTILINE
    )
    assert ("Off at batch" in shown) == ("Do not speculate" in shown)
    explained = succeeded(run("schedule", "--acceptance", "0.75,0.68,0.62", *options, "--explain", "--force")).stdout
    assert "numbers are fitted to" in explained
    assert "numbers are fitted to" not in shown


def test_modules_are_not_planned_deeper_than_their_rates(run: Run) -> None:
    place = Deployment("h200_sxm", "deepseek-r1", "mtp", gpus=8)
    rates = st.Acceptance.by_depth_and_rank([[0.9]] * 3)
    assert {tree.max_depth for tree in place.schedule(rates, [1, 64]).trees} == {3}
    assert {tree.max_depth for tree in place.schedule(rates, [1, 64], max_depth=5).trees} == {5}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_opens_with_two_examples_that_parse_and_fits_60_lines(run: Run, name: str) -> None:
    help_text = succeeded(run(name, "--help")).stdout
    assert len(help_text.splitlines()) <= 60
    assert max(map(len, help_text.splitlines())) <= 80
    first, second = EXAMPLES[name]
    assert help_text.startswith(f"$ {first}\n$ {second}\n\nUsage: ")
    for example in (first, second):
        program, command, *rest = shlex.split(example.replace("\\\n", " "))
        assert (program, command) == ("spectheory", name)
        COMMANDS[name].make_context(name, rest)


def test_commands_are_in_four_panels(run: Run) -> None:
    shown = run("--help").stdout
    assert [shown.index(panel) for panel in PANELS] == sorted(shown.index(panel) for panel in PANELS)
    assert len(PANELS) == 4
    assert not list(Path().iterdir())
