"""The four deployments of docs/choosing.md: the answers, the settings of the engines, and published figures."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spectheory.cli import app
from spectheory.planning.deployment import Deployment
from spectheory.planning.schedule_record import Schedule

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8").replace(" \\\n", " ")
COMMANDS = {
    line.split("--target ")[1].split()[0]: shlex.split(line.removeprefix("$ spectheory "))
    for line in PAGE[PAGE.index("## Four deployments") :].splitlines()
    if line.startswith("$ spectheory schedule")
}
SETTINGS = {
    "llama-3.3-70b": '"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B", "num_speculative_tokens": ',
    "qwen3-32b-fp8": '"method": "eagle3", "model": "AngelSlim/Qwen3-32B_eagle3", "num_speculative_tokens": ',
    "deepseek-v3": "--speculative-algorithm NEXTN --speculative-num-steps ",
    "llama-3.1-8b-q4_k_m": "--spec-type draft-simple -md llama-3.2-1b-q4_k_m --spec-draft-n-max ",
}


def run(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Result, Schedule]:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, [*COMMANDS[target], "--out", "planned.json"])
    assert result.exit_code == 0, result.output
    return result, Schedule.load("planned.json")


@pytest.mark.parametrize("target", SETTINGS)
def test_the_command_on_the_page_plans_chains_and_writes_settings(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(COMMANDS) == list(SETTINGS)
    result, planned = run(target, tmp_path, monkeypatch)
    assert SETTINGS[target] in result.output
    assert planned.option(-1).answer != "off"
    assert {planned.option(row).answer for row in range(len(planned.batches))} == {"chain"}
    assert (planned.speedups > 1.05).all()


def test_deepseek_gains_what_sglang_publishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.8x at batch 1, 1.5x at batch 32."""
    result, planned = run("deepseek-v3", tmp_path, monkeypatch)
    assert planned.speedups.tolist() == pytest.approx([1.8, 1.5], rel=0.2)
    assert f"--speculative-num-steps {max(tree.budget for tree in planned.trees)} " in result.output


LENGTHS = {"prompt_tokens": 1024, "output_tokens": 1024}
PLAIN: list[tuple[dict[str, Any], dict[int, float], float]] = [
    (
        {"gpu": "h100_sxm", "target": "llama-3.1-70b-fp8", "gpus": 4, "engine": "vllm", **LENGTHS},
        {4: 11.78, 16: 13.19, 64: 19.51},
        0.15,
    ),
    (
        {"gpu": "h100_sxm", "target": "qwen3-32b-fp8", "engine": "trtllm", **LENGTHS, "output_tokens": 512},
        {8: 16.18, 32: 23.04},
        0.2,
    ),
    (
        {"gpu": "h200_sxm", "target": "deepseek-v3", "gpus": 8, "engine": "sglang@0.5.9", **LENGTHS},
        {4: 10.29, 16: 16.63, 64: 32.99},
        0.35,
    ),
    ({"gpu": "rtx4090", "target": "llama-3.1-8b-q4_0", "engine": "llama.cpp", "context": 33024}, {1: 10.19}, 0.25),
]


@pytest.mark.parametrize(("place", "published", "within"), PLAIN)
def test_plain_steps_beside_published_ones(place: dict[str, Any], published: dict[int, float], within: float) -> None:
    """Milliseconds by batch size. The limits are those of the page."""
    deployed = Deployment(draft="ngram", **place)
    for batch, milliseconds in published.items():
        assert 1e3 * deployed.latency(batch).plain(deployed.planned_context) == pytest.approx(milliseconds, rel=within)
