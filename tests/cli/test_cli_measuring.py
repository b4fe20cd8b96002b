"""Errors of `trace`, and what `plan` says of records of different models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import spectheory as st
from reference.prompts import load_prompts
from tests.cli.test_cli import Run, pair, run
from tests.refusals import refuses

__all__ = ["pair", "run"]


def test_a_trace_that_can_only_be_too_short_is_refused_before_it_runs(run: Run) -> None:
    status, out, err = run("trace", "--out", "t", "--count", 2, "--new-tokens", 8)
    assert (status, out) == (2, "")
    assert "can have at most 16 positions, but acceptance rates need at least 100: raise --count or --new-tokens" in err
    assert not Path("t").exists()


def test_a_plan_says_if_rates_and_times_are_of_different_models(run: Run, tmp_path: Path) -> None:
    def warned(rates: dict[str, Any], used: dict[str, Any]) -> bool:
        st.Acceptance(np.array([[0.6]]), provenance=st.Provenance("made here", **rates)).save("a.json")
        times = st.Latency.constant(draft_seconds=0.1)
        replace(times, provenance=st.Provenance("made here", **used)).save("l.json")
        status, out, _ = run("plan", "--acceptance", "a.json", "--latency", "l.json", "--max-budget", 2)
        assert status == 0
        return "Careful: rates were measured with draft other and are used" in " ".join(out.split())

    named = {"target": "pair/target", "draft": "pair/draft"}
    assert not warned(named, {})
    assert not warned({}, named)
    assert not warned({"draft": "pair/draft"}, {"target": "other"})
    assert not warned({"target": "pair/target", "draft": str(tmp_path / "pair/draft")}, named)
    assert warned({"draft": "other"}, named)


def test_a_trace_that_turns_out_too_short_names_the_options(run: Run, pair: list[object]) -> None:
    st.plan(st.Acceptance.by_rank([0.9]), st.Latency.constant(draft_seconds=0.01), max_budget=8).save("plan.json")
    short = ("--count", 4, "--prompt-tokens", 16, "--new-tokens", 25, "--plan", "plan.json")
    status, _, err = run("trace", *pair, *short, "--out", "trace")
    assert status == 2
    assert "usable positions, but acceptance rates need at least 100: raise --count or --new-tokens" in err


def test_a_folder_and_an_empty_file_hold_no_prompts(tmp_path: Path) -> None:
    refuses("is a folder: name a JSON Lines file", load_prompts, tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    refuses("holds no prompt: give it a JSON object", load_prompts, tmp_path / "empty.jsonl", 3)


def test_a_finished_trace_is_all_that_is_not_recorded_anew(run: Run) -> None:
    said = " ".join(run("trace", "--help")[1].replace("│", " ").split())
    assert "A finished trace is reused" in said
