"""The command `decode`: what it prints, says of records that do not fit, refuses, and keeps when interrupted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from reference.compare import RECORD
from reference.decode import Decoder
from reference.tracing import replays
from spectheory.results.comparison import Comparison
from spectheory.verify import Greedy
from tests.cli.test_cli import Run, pair, printed, records, run

__all__ = ["pair", "run"]

FEW = ("--skip", 1, "--count", 2, "--prompt-tokens", 16, "--new-tokens", 20)


def test_records_of_other_models_are_said(run: Run, pair: list[object]) -> None:
    target, draft = pair[1], pair[3]
    stamp = st.Provenance("made here", target=str(target), draft="elsewhere")
    st.Acceptance(np.array([[0.6, 0.2], [0.5, 0.1]]), provenance=stamp).save("acceptance.json")
    times = st.Latency.constant(draft_seconds=0.1)
    replace(times, provenance=stamp.replace(target="big", draft="small")).save("latency.json")
    plan = ("plan", "--acceptance", "acceptance.json", "--latency", "latency.json", "--max-budget", 6)
    said = f"rates were measured with {target} and elsewhere and are used with big and small"
    assert said in " ".join(printed(run(*plan, "--out", "plan.json")).split())
    out = printed(run("decode", *pair, *FEW, "--plan", "plan.json"))
    said = f"But rates were measured with elsewhere and are used with {draft}."
    assert said in " ".join(out.split())


def test_a_tally_knows_its_tree_its_verifier_and_its_prompts(
    run: Run, pair: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sampled text of a plan without a verifier is verified by the naive solver, prompts and TEXT alike."""
    seen, generate = set(), Decoder.generate

    def watched(self: Decoder, *given: object, **settings: object) -> object:
        seen.add(str(self.verifier))
        return generate(self, *given, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoder, "generate", watched)
    rates = st.Acceptance.by_depth_and_rank([[0.6, 0.2], [0.5, 0.1]])
    rates = replace(rates, provenance=st.Provenance("made here", temperature=1.0))
    st.plan(rates, st.Latency.constant(draft_seconds=0.1), max_budget=6).save("plan.json")
    assert "TopDown(Naive)" in printed(run("decode", *pair, *FEW, "--plan", "plan.json", "--out", "measured.json"))
    stamp = st.Tally.load("measured.json").provenance
    assert (stamp.temperature, stamp.verifier) == (1.0, "TopDown(solver=Naive())")
    assert (stamp.requests, stamp.settings["skip"]) == (2, 1)
    assert stamp.tree == st.Schedule.load("plan.json").tree.identity != st.Tree.chain(1).identity
    assert printed(run("decode", "import json", *pair[:4], "--plan", "plan.json", "--new-tokens", 8))
    assert seen == {"TopDown(solver=Naive())"}
    data = json.loads(printed(run("decode", *pair, *FEW, "--plan", "plan.json", "--json")))
    assert data["emitted"] == st.Tally.load("measured.json").emitted.tolist()


def test_copies_of_a_prompt_within_its_cluster_narrow_no_interval(run: Run, pair: list[object]) -> None:
    """Of texts that are traced, decoded and compared: three, and the same three twice."""
    records(run)
    texts, found = Path(str(pair[-1])).read_text().splitlines()[:3], []
    for copies in (1, 2):
        rows, count = [json.loads(text) | {"id": i} for i, text in enumerate(texts)], 3 * copies
        Path("turns.jsonl").write_text("\n".join(map(json.dumps, rows * 2 * copies)))
        turns = (*pair[:4], "--prompts", "turns.jsonl", "--cluster", "id", "--prompt-tokens", 16, "--new-tokens", 60)
        printed(run("trace", *turns, "--count", count, "--out", f"trace-{copies}"))
        assert f"on {count} texts in 3 clusters" in printed(run("replay", f"trace-{copies}", "--chains", 1))
        after = (*turns, "--skip", count, "--count", count)
        tally = json.loads(printed(run("decode", *after, "--plan", "plan.json", "--json")))
        printed(
            run("compare", *after, "--out", f"c{copies}", "--temperatures", 0, "--only", "chain of 5|prompt lookup")
        )
        record = Comparison.load(Path(f"c{copies}") / RECORD)
        found.append([one.tau_high or 0 for one in record.decoders] + [*map(record.tau_half_width, range(4))])
        found[-1] += st.Tally.from_dict(tally).tau_interval()
        found[-1] += replays(Path(f"trace-{copies}")).replay(st.Tree.chain(2), Greedy()).tau_interval()
    assert found[1] == pytest.approx(found[0], rel=1e-9)
    trace = ("trace", *turns[:6], "--count", 6, *turns[8:])
    assert "holds a trace with other clusters" in run(*trace, "--out", "trace-2")[2]
    assert "turns.jsonl, line 1 has no field 'name': give" in run(*trace, "--cluster", "name", "--out", "other")[2]
    few = ("--skip", 0, "--count", 1, "--plan", "plan.json")
    assert "turns.jsonl has one id in these 1 prompts, '0', and an interval needs 2" in run("decode", *turns, *few)[2]


def test_an_interrupted_decode_keeps_the_finished_prompts_and_goes_on(
    run: Run, pair: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    records(run)
    save = st.Tally.save

    def interrupted(tally: st.Tally, file: Path) -> None:
        save(tally, file)
        raise KeyboardInterrupt

    decode = ("decode", *pair, *FEW, "--plan", "plan.json", "--out", "measured.json")
    monkeypatch.setattr(st.Tally, "save", interrupted)
    status, out, err = run(*decode)
    assert (status, out) == (130, "")
    assert "interrupted: all files written so far are complete" in err
    tally = st.Tally.load("measured.json")
    assert (len(tally.cycles), tally.wanted) == (1, 2)
    monkeypatch.setattr(st.Tally, "save", save)
    assert "text equal to plain" in printed(run(*decode))
    assert st.Tally.load("measured.json").emitted[0] == tally.emitted[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--new-tokens", 1, "--out", "m.json"], "new_tokens must be at least 2, got 1"),
        (["import \udcff"], "TEXT is not text in UTF-8"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_runs(run: Run, arguments: list[object], message: str) -> None:
    records(run)
    files = sorted(Path().iterdir())
    status, out, err = run("decode", "--plan", "plan.json", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(Path().iterdir()) == files
