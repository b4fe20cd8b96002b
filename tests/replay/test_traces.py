"""Traces that are planned with: they name their pair, and changed ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import spectheory as st
from reference.models import Pair
from reference.tracing import PROMPTS, TraceSettings, acceptance, record_trace, replays
from spectheory.otlp import RRS, Naive
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.verify import Greedy, TopDown, Traversal, name_of, verifier_of
from tests.command_line import Run
from tests.refusals import refuses
from tests.replay.inputs import LATENCY, RATES, RULES, TREE, prompts


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "sampled"])
def trace(request: pytest.FixtureRequest, tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    record_trace(tiny, prompts(6), TraceSettings("random", temperature=request.param, new_tokens=40), folder)
    return folder


def test_a_plan_of_a_trace_names_the_verifier_that_decodes(tiny: Pair, trace: Path, tmp_path: Path) -> None:
    texts = replays(trace, tiny)
    chosen = search(acceptance(trace, min_trials=1).smoothed(), LATENCY, max_budget=8, replays=texts)
    assert chosen.verifier is not None
    assert chosen.rule is not None
    verifier, rule = verifier_of(chosen.verifier), st.DrawRule[chosen.rule]
    assert chosen.tau == texts.replay(chosen.tree, verifier, rule).tau
    for other in (TopDown(Naive()), TopDown(RRS()), Traversal(), Greedy()):
        if texts.greedy == isinstance(other, Greedy):
            assert (
                evaluate(chosen.tree, RATES, LATENCY, replays=texts).speedup
                >= evaluate(chosen.tree, RATES, LATENCY, replays=texts, verifier=name_of(other)).speedup
            )
    chosen.save(tmp_path / "plan.json")
    loaded = st.load(tmp_path / "plan.json")
    assert isinstance(loaded, st.Schedule)
    assert (loaded.verifier, loaded.rule, loaded.speedup) == (chosen.verifier, chosen.rule, chosen.speedup)
    assert f"with {chosen.verifier}" in loaded.summary


def test_the_command_plans_by_replay(run: Run, trace: Path, tmp_path: Path, tiny_folders: Path) -> None:
    rates, times, out = tmp_path / "rates.json", tmp_path / "times.json", tmp_path / "plan.json"
    acceptance(trace, min_trials=1).save(rates)
    LATENCY.save(times)
    result = run("plan", "--acceptance", rates, "--latency", times, "--trace", trace, "--smooth", "--out", out)
    assert result.exit_code == 0, result.output
    plan = st.Schedule.load(out)
    assert plan.verifier is not None
    assert plan.verifier in result.stdout
    told = "--tree", out
    again = run("plan", "--acceptance", rates, "--latency", times, "--trace", trace, "--smooth", *told, "--json")
    assert again.exit_code == 0, again.output
    assert f'"tau": {plan.tau!r}' in again.stdout


def test_a_trace_of_another_pair_or_without_prompts_is_refused(trace: Path, tiny: Pair, tmp_path: Path) -> None:
    if replays(trace, tiny).greedy:
        return
    other = replace(tiny, target=tiny.draft)  # pyrefly: ignore[bad-argument-type]
    refuses(r"pair has weights .*, the trace in .* was recorded with", replays, trace, other)
    held = (trace / PROMPTS).read_text()
    (trace / PROMPTS).unlink()
    try:
        refuses(r"lacks prompts.json, .*: record the trace again", replays, trace, tiny)
    finally:
        (trace / PROMPTS).write_text(held)


def test_the_pair_is_loaded_as_it_was_recorded(trace: Path, tiny: Pair) -> None:
    loaded, given = replays(trace), replays(trace, tiny)
    verifier = Greedy() if given.greedy else TopDown(Naive())
    tau = given.replay(TREE, verifier, RULES[False]).tau
    assert loaded.replay(TREE, verifier, RULES[False]).tau == pytest.approx(tau, rel=1e-6)


def test_prompts_that_were_changed_are_refused(trace: Path, tiny: Pair) -> None:
    if replays(trace, tiny).greedy:
        return
    held = (trace / PROMPTS).read_text()
    try:
        for text in ("{", "[[1, 2]]", json.dumps(json.loads(held)[::-1])):
            (trace / PROMPTS).write_text(text)
            refuses("prompts.json .*(record the trace again|is damaged)", replays, trace, tiny)
    finally:
        (trace / PROMPTS).write_text(held)
