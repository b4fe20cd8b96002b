"""`Deployment`: kinds of drafts, drafting at once, and the lengths of prompts and answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import spectheory as st
from spectheory.cli import app
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import NO_MODEL, model
from spectheory.hardware.roofline import Roofline
from spectheory.planning.deployment import Deployment
from spectheory.planning.schedule_record import Option, Schedule
from tests.helpers import refuses

AT_ONCE = ("p-eagle", "dflash", "dspark", "medusa")
KINDS = {"eagle1": "eagle1-qwen3-8b", "eagle2": "eagle1-qwen3-8b", "EAGLE3": "eagle3-qwen3-8b"}
KINDS |= {kind: f"{kind}-qwen3-8b" for kind in AT_ONCE}
GPU = gpu("h100_sxm")
CHAIN = st.Acceptance.by_depth_and_rank([[0.8], [0.7], [0.6]])


def place(**changes: Any) -> Deployment:
    arguments: dict[str, Any] = {"gpu": "h100_sxm", "target": "qwen3-8b", "draft": "eagle3"}
    return Deployment(**arguments | changes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_names_the_draft_for_the_target(kind: str) -> None:
    at = place(draft=kind).latency(2)
    assert place(draft=kind).draft_name == at.provenance.draft == KINDS[kind]
    assert at.drafts_at_once == (kind in AT_ONCE)
    assert place(draft=kind, target="qwen3-8b-fp8").draft_name == KINDS[kind]


@pytest.mark.parametrize("name", NO_MODEL)
def test_looked_up_drafts_take_no_time(name: str) -> None:
    at = place(draft=name).latency(4)
    assert place(draft=name).draft_name == at.provenance.draft == NO_MODEL[name]
    for depth in (1, 7):
        chain = st.Tree.chain(depth)
        assert at.cycle(chain, 1024) == at.target(depth + 1, 1024) + at.overhead_seconds
    said = "drafts are looked up, which takes no time, for 100.0% of the sequences of a step"
    assert said in at.provenance.assumptions
    planned = place(draft=name, kv_dtype="fp8").schedule(CHAIN, [1, 4])
    assert (planned.speedups > 1).all()
    assert planned.provenance.draft == NO_MODEL[name]


def test_looked_up_drafts_need_counts_of_their_own() -> None:
    def rates(draft: str) -> st.Acceptance:
        return st.Acceptance(CHAIN.table, provenance=st.Provenance("trace", draft=draft))

    assert place(draft="ngram").schedule(rates("prompt lookup"), [1]).speedups[0] > 1
    for other in ("qwen3-0.6b", "suffix"):
        said = f"must be measured with ngram drafts, got {other}: count how often"
        refuses(said, place(draft="ngram").schedule, rates(other), [1])
    said = "must be measured with suffix drafts, got a trace of a draft model: count how often"
    refuses(said, place(draft="suffix").schedule, CHAIN, [1], replays=object())


@pytest.mark.parametrize(("target", "batch"), [("qwen3-8b-awq", 1), ("qwen3-8b", 1), ("qwen3-8b", 64)])
def test_a_lookup_that_finds_nothing_verifies_nothing(target: str, batch: int) -> None:
    """A quarter of the sequences draft. Alone, a step is a cycle or plain; dense forwards are linear in tokens."""
    tau, share, chain, costs = 1 + 0.8 + 0.8 * 0.7 + 0.8 * 0.7 * 0.6, 0.25, st.Tree.chain(3), EngineCosts.of("vllm")
    at, counted = place(target=target, draft="ngram"), replace(CHAIN, drafted_share=share)
    made, each = at.schedule(counted, [batch]), at.latency(batch)
    verification = share * (each.target(4, 1024) - each.target(1, 1024)) + share * batch * costs.spec_sequence_seconds
    cycle = each.plain(1024) + verification + (1 - (1 - share) ** batch) * costs.spec_step_seconds
    kept = Option(chain).tau(made.rates)
    assert kept == pytest.approx(1 + share * (tau - 1))
    assert made.latency.speedup(chain, kept, 1024) == pytest.approx(kept * each.plain(1024) / cycle)


def test_the_share_that_drafts_is_counted_or_usual_and_is_that_of_lookups() -> None:
    counted = replace(CHAIN, drafted_share=0.25)
    refuses("acceptance holds for the 25.0% of steps that draft", place().schedule, counted)
    for engine in ("sglang", "trtllm"):  # they verify as many tokens without a match
        rates, share = place(draft="ngram", engine=engine).of_all_steps(counted)
        assert (rates.table[:, 0].tolist(), share) == ([0.2, 0.7, 0.6], 1.0)
    usual = place(draft="ngram").of_all_steps(st.Acceptance.by_depth_and_rank([[0.2], [0.7], [0.6]]))[1]
    assert usual == pytest.approx((0.2 + 0.2 * 0.7 + 0.2 * 0.7 * 0.6) / (0.7 + 0.7**2 + 0.7**3))
    refuses("drafted_share must be a number from 0.001 to 1, got 0", replace, CHAIN, drafted_share=0.0)


def test_lengths_give_the_context_and_the_prompts() -> None:
    """1,000 tokens of prompts for 200 of answers: 5 tokens of prompts for each token; contexts from 1,000 to 1,200."""
    with_prompts, without = place(prompt_tokens=1000, output_tokens=200), place(context=1100)
    assert with_prompts.planned_context == 1100
    assert place().planned_context == 1024
    one, other = with_prompts.latency(16), without.latency(16)
    assert one.contexts.tolist() == [1100]
    assert one.target(4, 1100) == pytest.approx(other.target(4, 1100)), "no windows: the mean context is enough"
    whole = Roofline(GPU, batch=16, prefill_tokens=80).prefill_seconds(model("qwen3-8b"))
    assert one.plain(1100) - other.plain(1100) == pytest.approx(whole)
    assert one.prompts(3.0, False) == pytest.approx(3 * whole)
    assert one.prompts(3.0) > one.prompts(3.0, False)
    assert other.prompts(3.0) == 0


def test_lengths_that_contradict_each_other_are_refused() -> None:
    refuses("gpus must be between 1 and 1,000,000,000, got -1", place, gpus=-1)
    refuses("prompt_tokens and output_tokens belong together: give both", place, prompt_tokens=100)
    refuses("prompt_tokens must be a finite number.*, got nan", place, prompt_tokens=float("nan"), output_tokens=1)
    refuses("output_tokens must be above 0, got 0", place, prompt_tokens=10, output_tokens=0)
    refuses("must add up to at most 1,000,000,000, got 1e.30 and 1", place, prompt_tokens=1e30, output_tokens=1)
    said = "context must be between prompt_tokens=900 and 1100, .* got 1,101: leave out the context, or change"
    refuses(said, place, prompt_tokens=900, output_tokens=200, context=1101)


def run(*arguments: object) -> Result:
    base = ["schedule", "--gpu", "h100_sxm", "--target", "qwen3-8b", "--max-budget", "8"]
    return CliRunner().invoke(app, [*base, *map(str, arguments)])


def test_the_command_takes_lengths_kinds_and_rates_by_depth(tmp_path: Any) -> None:
    out, lengths = tmp_path / "schedule.json", ("--lengths", "900,200")
    result = run("--draft", "eagle3", "--acceptance", "0.8,0.7,0.6", *lengths, "--out", out, "--engine", "vllm,sglang")
    assert result.exit_code == 0, result.output
    planned = Schedule.load(out)
    expected = place(prompt_tokens=900, output_tokens=200, engine="vllm").schedule(CHAIN, [1], max_budget=8)
    assert planned.speedups.tolist() == expected.speedups.tolist()
    assert '"method": "eagle3", "model": "' in result.output
    looked_up = run("--draft", "n-gram", "--acceptance", "0.5", "--engine", "vllm", "--drafted-share", 0.3, "--explain")
    assert '{"method": "ngram", "num_speculative_tokens": ' in looked_up.output
    assert "for 30.0% of the sequences of a step" in " ".join(looked_up.output.split())
    refused = run("--draft", "eagle3", "--acceptance", "0.5", "--drafted-share", 0.3).stderr
    assert "--drafted-share is for ngram and suffix, got --draft eagle3" in refused
    assert "table[0] must sum to at most 1" in run("--draft", "eagle3", "--acceptance", "1.8").stderr
