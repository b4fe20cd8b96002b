"""`spectheory schedule`: the command, its page, and the measured records that it reads."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import spectheory as st
from spectheory.cli import app
from spectheory.hardware.engine_costs import EngineCosts, origin
from spectheory.planning.deployment import Deployment
from spectheory.planning.planner import PRODUCT
from spectheory.planning.schedule_record import Schedule
from tests.command_line import refused, succeeded
from tests.planning.test_schedule import RATES

SHAPES = Path(st.__file__).parent / "data" / "models"


@pytest.fixture
def rates_file(tmp_path: Path) -> Path:
    RATES.save(tmp_path / "acceptance.json")
    return tmp_path / "acceptance.json"


DEPLOYMENT = ["--gpu", "h100_sxm", "--target", "llama-3.1-8b", "--draft", "llama-3.2-1b"]


def test_the_command_plans_every_batch_size(rates_file: Path, tmp_path: Path) -> None:
    page, out, sizes = tmp_path / "plan.html", tmp_path / "schedule.json", ("--batch", "1:50", "--max-budget", 32)
    result = succeeded(run_plan(rates_file, *sizes, "--report", page, "--out", out))
    assert "Run " in result.output
    html = page.read_text()
    assert html.count("<svg") >= 3
    assert "<p>forwards are computed by a roofline, not measured.</p>" in html
    assert "All times are computed for" in " ".join(result.output.split())
    planned = Schedule.load(out)
    assert planned.batches.tolist() == list(range(1, 51))
    assert planned.speedups[0] > planned.speedups[-1] >= 1
    assert json.loads(run_plan(rates_file, *sizes, "--json").stdout)["kind"] == "schedule"


def run_plan(rates_file: Path, *arguments: object) -> Result:
    """Run `schedule` for the deployment; later options take the place of its own."""
    return CliRunner().invoke(app, ["schedule", "--acceptance", str(rates_file), *DEPLOYMENT, *map(str, arguments)])


def test_bad_deployments_and_engines_that_cannot_are_refused_in_one_line(rates_file: Path) -> None:
    refused(run_plan(rates_file, "--batch", "one"), "--batch must name sizes like 1:256 or 1,8,64, got 'one'")
    refused(run_plan(rates_file, "--context", "1m"), "--context must be a number of tokens like 4096 or a range")
    refused(run_plan(rates_file, "--context", "4k:1k"), "contexts must be increasing whole numbers from 1 on, got")
    refused(run_plan(rates_file, "--lengths", "5,5,5"), "--lengths must be PROMPT,ANSWER, such as 512,256, got '5,5")
    refused(run_plan(rates_file, "--batch", "5:1"), "batches must be increasing whole numbers from 1 on")
    refused(run_plan(rates_file, "--gpu", "h10"), "unknown GPU 'h10': did you mean")
    refused(run_plan(rates_file, "--batch", 4000), "or a shorter context, a larger GPU")
    refused(run_plan(rates_file, *HEAD, "--engine", "vllm@0.9"), "version must be a version of vLLM")
    refused(run_plan(rates_file, *HEAD, "--engine", "triton"), "unknown engine 'triton'")
    refused(run_plan(rates_file, *HEAD, "--target", "llama-3.1-70b"), "is a head for llama-3.1-8b of hidden size 4096")
    refused(run_plan(rates_file, "--draft", "deepseek-v3"), "128256 tokens of Llama 3 for llama-3.1-8b and 129280")


def test_tau_of_one_chain_and_a_gpu_in_a_file_are_planned_with(tmp_path: Path) -> None:
    """The chain of the stated tau has this tau and its speedup is said, first where the plan runs another one."""
    for card, text in (("own.csv", "mem_gb,mem_bw_gb_s,bf16_dense_tflops\n80,3350,989"), ("own.json", "[1]")):
        (tmp_path / card).write_text(text)
    sizes = "--gpu", tmp_path / "own.csv", "--batch", "8,64", *HEAD
    planned = Schedule.from_dict(json.loads(succeeded(run_plan(Path("tau=2.7@3"), *sizes, "--json")).stdout))
    assert planned.rates.tau(st.Tree.chain(3)) == pytest.approx(2.7)
    own = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3").latency(8)
    assert planned.latencies[0].plain(1024) == own.plain(1024)
    said = f"The chain of 3 with this tau gives {own.speedup(st.Tree.chain(3), 2.7, 1024):.2f}x"
    shown = succeeded(run_plan(Path("tau=2.7@3"), *sizes)).output
    assert planned.tree.budget != 3
    assert said in " ".join(shown.split())
    refused(run_plan(Path("tau=4.1@3")), "tau of chain 3 must be from 1 to 4, got 4.1")
    off = succeeded(run_plan(Path("0.3"), "--batch", "1,256", "--engine", "vllm")).output
    assert "#49548" in off
    refused(run_plan(Path("0.7"), "--gpu", tmp_path / "own.json"), "own.json must have one GPU with mem_gb, mem_bw")


HEAD = ["--draft", "eagle3-llama-3.1-8b"]


def test_the_engine_and_the_way_to_share_a_model_are_planned_with(rates_file: Path) -> None:
    """Costs of the first engine, over two GPUs."""
    places = ["--gpus", 2, "--engine", "sglang@0.5.23,vllm"]
    result = succeeded(run_plan(rates_file, *places, "--batch", "1,2", "--json"))
    planned = Schedule.from_dict(json.loads(result.stdout))
    settings = planned.provenance.settings
    assert settings["engine"] == "sglang@0.5.23"
    assert settings["step_seconds"] == EngineCosts.of("sglang@0.5.23").step_seconds
    assert any("the engine has the costs of sglang@0.5.23: " in said for said in planned.provenance.assumptions)
    place = Deployment("h100_sxm", "llama-3.1-8b", "llama-3.2-1b", 2, engine="sglang")
    assert [at.plain(1024) for at in planned.latencies] == [place.latency(batch).plain(1024) for batch in (1, 2)]


DEEPER = (
    "rates are known only down to depth 1: deeper nodes use the rates of that depth, in trees and chains down to depth "
)


def test_what_was_assumed_is_said_in_terminal_page_and_json(rates_file: Path, tmp_path: Path) -> None:
    chains = replace(RATES, provenance=st.Provenance("import").assuming("ranks beyond 0 are taken as 0"))
    chains.save(rates_file)
    page = tmp_path / "plan.html"
    result = run_plan(rates_file, "--gpus", 2, "--report", page, "--explain")
    as_json = json.loads(run_plan(rates_file, "--gpus", 2, "--json").stdout)
    depth = max(tree.max_depth for tree in Schedule.from_dict(as_json).trees)
    said = [
        "ranks beyond 0 are taken as 0",
        PRODUCT,
        f"{DEEPER}{depth}",
        "forwards are computed by a roofline, not measured",
        origin("vllm"),
    ]
    assert as_json["provenance"]["assumptions"] == said
    printed = " ".join(result.stdout.split())
    assert all(f"assumed: {sentence}" in printed for sentence in said)
    html = unescape(page.read_text())
    assert all(f"<p>{sentence}.</p>" in html for sentence in said)
    assert "GPUs say" not in run_plan(rates_file).stdout


def test_rates_of_zero_are_planned_as_off(rates_file: Path) -> None:
    st.Acceptance.by_rank([0.0, 0.0]).save(rates_file)
    result = succeeded(run_plan(rates_file, "--batch", "1:4", "--engine", "vllm,sglang,eagle"))
    assert "Do not speculate: at batch 1 to 4 no draft" in result.stdout
    assert result.stdout.count("start it without speculation") == 3
