"""Traces that are planned with and replayed by the commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import spectheory as st
from reference.models import Pair
from reference.sampling import Sampling
from reference.tracing import TraceSettings, acceptance, record_trace, replays
from spectheory.otlp import Naive
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.replayed import planned_verifiers
from spectheory.replay import TargetText
from spectheory.verify import Greedy, TopDown, name_of, verifier_of
from tests.command_line import Run, succeeded
from tests.helpers import refuses
from tests.replay.enumerated import LATENCY, RATES, RULES, TREE, prompts


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "sampled"])
def trace(request: pytest.FixtureRequest, tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    record_trace(tiny, prompts(6), TraceSettings("random", temperature=request.param, new_tokens=40), folder)
    return folder


def test_a_plan_of_a_trace_names_the_fastest_verifier(tiny: Pair, trace: Path) -> None:
    texts = replays(trace, tiny)
    chosen = search(acceptance(trace, min_trials=1).smoothed(), LATENCY, max_budget=8, replays=texts)
    verifier, rule = verifier_of(chosen.verifier or ""), st.DrawRule[chosen.option().rule or ""]
    assert chosen.tau == texts.replay(chosen.tree, verifier, rule).tau
    again = evaluate(chosen.tree, RATES, LATENCY, replays=texts)
    for other, drawn in planned_verifiers(texts, chosen.tree):
        tau = texts.replay(chosen.tree, other, drawn).tau
        assert again.speedup >= LATENCY.speedup(chosen.tree, tau, again.context, name_of(other))


def test_the_command_plans_by_replay(run: Run, trace: Path, tmp_path: Path) -> None:
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


def test_the_pair_is_loaded_as_it_was_recorded(trace: Path, tiny: Pair) -> None:
    loaded, given = replays(trace), replays(trace, tiny)
    verifier = Greedy() if given.greedy else TopDown(Naive())
    tau = given.replay(TREE, verifier, RULES[False]).tau
    assert loaded.replay(TREE, verifier, RULES[False]).tau == pytest.approx(tau, rel=1e-6)


def test_a_trace_is_of_its_sampling(tiny: Pair, tmp_path: Path) -> None:
    def settings(sampling: Sampling) -> TraceSettings:
        return TraceSettings("random", sampling.temperature, 4, 30, top_k=sampling.top_k, top_p=sampling.top_p)

    sampling = Sampling(1.0, 8, 0.9)
    record_trace(tiny, prompts(3), settings(sampling), tmp_path)
    rates = acceptance(tmp_path, min_trials=1)
    assert Sampling.of(rates.provenance) == sampling
    assert rates.provenance.sampling == "temperature 1 and top-k 8 and top-p 0.9"
    texts = replays(tmp_path, tiny)
    for text in texts.texts:
        assert isinstance(text, TargetText)
        assert ((text.p > 0).sum(1) <= 8).all()
    unlimited = replace(rates, provenance=rates.provenance.replace(top_k=None))
    wanted = "replays have texts of temperature 1 and top-k 8 and top-p 0.9, but the acceptance rates have"
    refuses(wanted, st.plan, unlimited, LATENCY, replays=texts)
    for other in (Sampling(1.0), Sampling(1.0, 7, 0.9), Sampling(0.9, 8, 0.9)):
        refuses("holds a trace with", record_trace, tiny, prompts(3), settings(other), tmp_path)
    refuses("top_k=5 and top_p=1 have no effect at temperature 0", TraceSettings, "random", top_k=5)
    refuses("top_p must be above 0 and at most 1", TraceSettings, "random", temperature=1.0, top_p=1.5)


def test_texts_beyond_the_memory_are_refused(tiny: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_trace(tiny, prompts(2), TraceSettings("random", 1.0, new_tokens=40), tmp_path)
    monkeypatch.setattr("reference.tracing.available_bytes", lambda: 8 * 2 * 80 * tiny.vocab_size - 1)
    refuses("need 0.0 GB of memory, 0.0 GB are available: record fewer", replays, tmp_path, tiny)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_command_replays_trees_on_a_trace(tiny: Pair, run: Run, tmp_path: Path, temperature: float) -> None:
    record_trace(tiny, prompts(3), TraceSettings("random", temperature=temperature, new_tokens=20), tmp_path / "trace")
    (tmp_path / "tree.json").write_text("[-1, 0, 0]")
    asked = ("replay", tmp_path / "trace", "--tree", tmp_path / "tree.json")
    shown = succeeded(run(*asked, "--chains", "2"))
    wanted = ["Naive", "Block", "Traversal", "RRS"] if temperature else ["Greedy"]
    assert all(f"tree of 2, 1 deep, {name}" in shown.stdout or name == "Block" for name in wanted)
    assert all(f"chain of 2, {name}" in shown.stdout for name in wanted)
    assert ("chain of 2, NSS" in shown.stdout) == (temperature > 0)
    asked += ("--verifier", wanted[-1], "--ends")
    shown = succeeded(run(*asked)).stdout
    assert shown.count(f"Where cycles end: tree of 2, 1 deep, {wanted[-1]}") == shown.count("Where cycles end") == 1
    *_, row = json.loads(run(*asked, "--json").stdout)
    assert row["ends"]["tau"] == pytest.approx(row["tau"])
    assert row["ends"]["reached"][1] == pytest.approx(row["tau"] - 1)
    refused = run("replay", tmp_path / "trace", "--verifier", "Unknown")
    assert "--verifier must be one that suits the texts and trees" in refused.stderr
    refused = run("replay", tmp_path / "trace", "--chains", "0")
    assert "--chains must be numbers of at least 1, got '0'" in refused.stderr
