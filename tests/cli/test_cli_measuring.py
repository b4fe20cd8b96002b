"""Warnings and errors of `trace`, `decode`, `compare` and `clock` for inputs that do not fit together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reference.measuring
import simulate
import spectheory as st
from reference import wall_clock as clocking
from reference.decode import Decoder
from reference.measuring import measure
from reference.models import Pair
from reference.prompts import load_prompts
from reference.wall_clock import entrants
from tests.cli.test_cli import Run, pair, records, run
from tests.reference.test_clock import CORPUS
from tests.refusals import refuses

__all__ = ["pair", "run"]

FEW = ("--skip", 1, "--count", 2, "--prompt-tokens", 16, "--new-tokens", 20)
OTHER = "the plan's rates were measured at temperature 0, while decoding is at temperature 1"


def warnings(err: str) -> list[str]:
    """The warnings on standard error, where a slow machine also reads how long a command takes."""
    return [line.removeprefix("warning: ") for line in err.splitlines() if line.startswith("warning: ")]


def greedy_plan() -> st.Schedule:
    """A plan whose rates are known to come from greedy text. It is also saved to plan.json."""
    stamp = st.Provenance("made here", temperature=0.0)
    rates = st.Acceptance(np.array([[0.6, 0.2], [0.5, 0.1]]), provenance=stamp)
    found = st.plan(rates, st.Latency.constant(draft_seconds=0.1), max_budget=6)
    found.save("plan.json")
    return found


def test_rates_of_another_temperature_are_said_and_marked(run: Run, pair: list[object]) -> None:
    greedy_plan()
    decode = ("decode", *pair, *FEW, "--plan", "plan.json", "--temperature")
    status, out, err = run(*decode, 1, "--out", "measured.json")
    assert (status, warnings(err)) == (0, [OTHER])
    assert f"But {OTHER}." in " ".join(out.split())
    compare = ("compare", "--plan", "plan.json", "--measured", "measured.json")
    assert f"But {OTHER}." in " ".join(run(*compare)[1].split())
    assert json.loads(run(*compare, "--json")[1])["caveats"] == [f"But {OTHER}."]
    status, out, err = run(*decode, 0)
    assert (status, warnings(err)) == (0, [])
    assert "while decoding" not in out


def test_a_clocking_at_another_temperature_is_said(
    run: Run, pair: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocking, "library", lambda pair: CORPUS)
    monkeypatch.setattr(clocking, "entrants", lambda *given: entrants(*given)[:1])
    greedy_plan()
    clock = ("clock", *pair, *FEW, "--rounds", 1, "--plan", "plan.json", "--temperature", 1)
    status, out, err = run(*clock)
    assert (status, warnings(err)) == (0, [OTHER])
    assert f"But {OTHER}." in " ".join(out.split())


def test_records_of_other_models_are_said_and_marked(run: Run, pair: list[object]) -> None:
    target, draft = pair[1], pair[3]
    stamp = st.Provenance("made here", target=str(target), draft="elsewhere")
    st.Acceptance(np.array([[0.6, 0.2], [0.5, 0.1]]), provenance=stamp).save("acceptance.json")
    times = st.Latency.constant(draft_seconds=0.1)
    replace(times, provenance=stamp.replace(target="big", draft="small")).save("latency.json")
    plan = ("plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--max-budget", 6)
    status, _, err = run(*plan, "--out", "plan.json")
    said = f"the rates are for target {target} and draft elsewhere, while the times are for target big and draft small"
    assert (status, warnings(err)) == (0, [said])
    status, _, err = run("decode", *pair, *FEW, "--plan", "plan.json", "--out", "measured.json")
    said = f"the plan's rates were measured with draft elsewhere, while decoding uses draft {draft}"
    assert (status, warnings(err)) == (0, [said])
    compare = ("compare", "--plan", "plan.json", "--measured", "measured.json", "--json")
    assert json.loads(run(*compare)[1])["caveats"] == [f"But {said}."]


def test_records_of_the_same_models_or_of_none_are_not_warned_of(run: Run, tmp_path: Path) -> None:
    def warned(rates: dict[str, Any], used: dict[str, Any]) -> bool:
        st.Acceptance(np.array([[0.6]]), provenance=st.Provenance("made here", **rates)).save("a.json")
        times = st.Latency.constant(draft_seconds=0.1)
        replace(times, provenance=st.Provenance("made here", **used)).save("l.json")
        status, _, err = run("plan", "--acceptance", "a.json", "--latency", "l.json", "--max-budget", 2)
        assert status == 0
        return "warning" in err

    named = {"target": "pair/target", "draft": "pair/draft"}
    assert not warned(named, {})
    assert not warned({}, named)
    assert not warned({"draft": "pair/draft"}, {"target": "other"})
    assert not warned({"target": "pair/target", "draft": str(tmp_path / "pair/draft")}, named)
    assert warned({"draft": "other"}, named)


def test_tallies_given_for_each_other_are_refused(run: Run) -> None:
    planned = greedy_plan()
    played = simulate.run(planned, cycles=100)
    played.save("simulated.json")
    replace(played, provenance=replace(played.provenance, source="spectheory decode")).save("measured.json")
    replace(played, provenance=st.Provenance("an engine")).save("other.json")
    compare = ("compare", "--plan", "plan.json")
    for option, other, source in (
        ("simulated", "measured", "spectheory decode"),
        ("measured", "simulated", "simulate.run"),
    ):
        file = f"{other}.json"
        status, out, err = run(*compare, f"--{option}", file)
        assert (status, out) == (2, "")
        said = f"--{option} {file} is a {other} tally from '{source}': give it as --{other} {file}"
        assert " ".join(err.split()) == f"error: {said}"
        assert run(*compare, f"--{option}", f"{option}.json")[0] == 0
        assert run(*compare, f"--{option}", "other.json")[0] == 0


def test_a_tally_knows_its_tree_its_verifier_and_its_prompts(run: Run, pair: list[object]) -> None:
    records(run)
    status, out, _ = run("decode", *pair, *FEW, "--plan", "plan.json", "--out", "measured.json", "--temperature", 1)
    assert status == 0
    assert "TopDown(Naive)" in out
    stamp = st.Tally.load("measured.json").provenance
    assert stamp.verifier == "TopDown(solver=Naive())"
    assert (stamp.requests, stamp.settings["skip"]) == (2, 1)
    assert stamp.tree == st.Schedule.load("plan.json").tree.identity != st.Tree.chain(1).identity
    chain = st.plan(st.Acceptance.by_rank([0.9]), st.Latency.constant(draft_seconds=0.1), max_budget=2)
    chain.save("chain.json")
    status, _, err = run("compare", "--plan", "chain.json", "--measured", "measured.json")
    assert status == 2
    assert err.startswith("error: the measured tally was counted with a different tree")


def test_both_modes_of_decode_sample_with_one_verifier(
    run: Run, pair: list[object], tiny: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    records(run)
    seen, generate = [], Decoder.generate

    def watched(self: Decoder, *given: object, **settings: object) -> object:
        seen.append(str(self.verifier))
        return generate(self, *given, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoder, "generate", watched)
    sampled = ("--new-tokens", 8, "--temperature", 1)
    assert run("generate", "import json", *pair[:4], "--plan", "plan.json", *sampled)[0] == 0
    next(measure(tiny, st.Tree.chain(2), [[1, 2, 3]], new_tokens=4, temperature=1.0))
    assert set(seen) == {"TopDown(solver=Naive())"}
    assert "TopDown(Naive())" in run("decode", "--help")[1]


def test_an_interrupted_decode_is_shown_as_a_part(
    run: Run, pair: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    records(run)
    whole = reference.measuring.measure

    def interrupted(*given: object, **settings: object) -> Iterator[object]:
        yield next(iter(whole(*given, **settings)))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(reference.measuring, "measure", interrupted)
    assert run("decode", *pair, *FEW, "--plan", "plan.json", "--out", "measured.json")[0] == 130
    tally = st.Tally.load("measured.json")
    assert (len(tally.cycles), tally.wanted) == (1, 2)
    status, out, _ = run("compare", "--plan", "plan.json", "--measured", "measured.json")
    said = " ".join(out.split())
    assert status == 0
    assert "1 of 2" in out
    assert "The decode was interrupted: 1 of 2 requests are counted." in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "", "--plan", "plan.json"], "TEXT is empty"),
        (
            ["trace", "--out", "t", "--count", 2, "--new-tokens", 8],
            "can have at most 16 positions, but acceptance rates need at least 100: raise --count or --new-tokens",
        ),
        (
            ["matrix", "--out", "m", "--skip", 2, "--new-tokens", 8],
            "can have at most 16 positions, but acceptance rates need at least 30: raise --skip or --new-tokens",
        ),
        (
            ["decode", "--plan", "plan.json", "--new-tokens", 1, "--out", "m.json"],
            "new_tokens must be at least 2, got 1",
        ),
        (["clock", "--new-tokens", 1], "new_tokens must be at least 2, got 1"),
        (["matrix", "--out", "m", "--new-tokens", 1], "new_tokens must be at least 2, got 1"),
        (["clock", "--skip", 0], "--skip 0 leaves no prompts to measure a plan on: raise --skip, or give a plan"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_runs(run: Run, arguments: list[object], message: str) -> None:
    records(run)
    files = sorted(Path().iterdir())
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "min_trials" not in err
    assert len(err.splitlines()) == 1
    assert sorted(Path().iterdir()) == files


def test_a_trace_that_turns_out_too_short_names_the_options(run: Run, pair: list[object]) -> None:
    st.plan(st.Acceptance.by_rank([0.9]), st.Latency.constant(draft_seconds=0.01), max_budget=8).save("plan.json")
    short = ("--count", 4, "--prompt-tokens", 16, "--new-tokens", 25, "--plan", "plan.json")
    status, _, err = run("trace", *pair, *short, "--out", "trace")
    assert status == 2
    assert "usable positions, but acceptance rates need at least 100: raise --count or --new-tokens" in err


def test_prompts_are_numbered_as_in_their_file(run: Run, pair: list[object], tmp_path: Path) -> None:
    records(run)
    status, _, err = run("decode", *pair, *FEW[:4], "--prompt-tokens", 900, "--plan", "plan.json")
    assert status == 2
    assert "prompt 1 of the file, counted from 0, has" in err
    assert "lower --prompt-tokens or use longer prompts" in err
    there = len(load_prompts(tmp_path / "prompts.jsonl"))
    status, _, err = run("decode", *pair, *FEW[:2], "--count", 100_000, "--plan", "plan.json")
    assert status == 2
    assert f"prompts must be between 1 and {there - 1} (" in err
    assert "1 are skipped), got 100000" in err


def test_a_file_of_few_prompts_names_what_there_is(run: Run, pair: list[object]) -> None:
    records(run)
    Path("short.jsonl").write_text('{"text": "import os, sys, json"}\n' * 3)
    short = (*pair[:4], "--prompts", "short.jsonl", "--prompt-tokens", 4, "--new-tokens", 8)
    for command, repair in (
        (("decode", *short, "--plan", "plan.json"), "give --skip 0 --count 3"),
        (("clock", *short, "--plan", "plan.json"), "give --skip 0 --count 3"),
        (("clock", *short), "give --skip 1 --count 2"),
        (("matrix", *short, "--out", "matrix"), "give --skip 1 --count 2"),
        (("trace", *short, "--out", "trace"), "give --count 3"),
    ):
        status, _, err = run(*command)
        assert (status, err.strip().endswith(f", got 40 (given, or the default): {repair}")) == (2, True), err
    assert run("decode", *short, "--plan", "plan.json", "--skip", 0, "--count", 3)[0] == 0


def test_a_folder_and_an_empty_file_hold_no_prompts(tmp_path: Path) -> None:
    refuses("is a folder: name a JSON Lines file", load_prompts, tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    refuses("holds no prompt: give it a JSON object", load_prompts, tmp_path / "empty.jsonl", 3)


def test_a_finished_trace_is_all_that_is_not_recorded_anew(run: Run) -> None:
    said = " ".join(run("trace", "--help")[1].replace("│", " ").split())
    assert "A finished trace is reused" in said
