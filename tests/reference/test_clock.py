"""Wall clock on a tiny random pair: who is there, what they write, resuming, bad input. No test asserts a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import spectheory as st
from reference import hugging_face, planning_loop
from reference import wall_clock as clocking
from reference.drafters import SuffixArray
from reference.meter import Meter
from reference.models import Pair
from reference.part_files import ForeignFolderError
from reference.planning_loop import RATES, TRACE, measured_plan, rivals
from reference.replaying import replays
from reference.sampling import Sampling
from reference.wall_clock import ClockSettings, clock, entrants
from spectheory.core.errors import RecordError
from spectheory.report.wall_clock import clock_rows, clock_words
from spectheory.results.wall_clock import SAME, WallClock
from tests.cli.test_cli import Run, pair, printed, run
from tests.conftest import generated
from tests.refusals import refuses

__all__ = ["pair", "run"]

MANY = [[10 * i + j for j in range(8)] for i in range(14)]
PROMPTS = MANY[1:3]
FLAT = st.Latency(np.array([1, 128]), np.array([8, 68]), np.array([[1, 1.01]] * 2), np.array([[1, 1.01]] * 2) / 1e4)
"""Forwards of 128 tokens take 1% longer than those of one."""
CORPUS = SuffixArray.build(np.random.default_rng(0).integers(300, size=(20, 400)))
PLAN = st.plan(st.Acceptance.by_rank([0.6, 0.2, 0.1]), st.Latency.constant(draft_seconds=0.05), max_budget=6)
SLOWER = st.evaluate(st.Tree.chain(2), PLAN.acceptance, PLAN.latency)
SETTINGS = ClockSettings(new_tokens=12, rounds=1)
GREEDILY = st.Provenance("made here", temperature=0.0)


def clocked(pair: Pair, settings: ClockSettings, so_far: WallClock | None = None, prompts: int = 2) -> list[WallClock]:
    running = entrants(pair, [PLAN], settings, CORPUS)
    return list(clock(pair, PROMPTS[:prompts], [PLAN], running, settings, so_far))


@pytest.fixture
def small_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans draft at most 8 nodes, so that they need fewer traced texts and less search."""
    monkeypatch.setattr(planning_loop, "MAX_BUDGET", 8)


@pytest.fixture(scope="module")
def greedy(tiny: Pair) -> list[WallClock]:
    return clocked(tiny, SETTINGS)


def test_every_decoder_writes_the_same_greedy_texts(tiny: Pair, greedy: list[WallClock]) -> None:
    assert [record.prompts for record in greedy] == [1, 2]
    record = greedy[-1]
    chain = PLAN.chain.tree.budget
    assert list(record.decoders) == [
        *("HF plain", f"HF assisted, {chain}", "HF prompt lookup", "plain", f"chain of {chain}"),
        *(f"tree of {PLAN.tree.budget}", "EAGLE-2", "OPT-Tree", "SpecExec", "SALF"),
        *("PromptLookup", "TokenRecycling", "Goose", "Lookahead", "Datastore"),
    ]
    assert (record.tokens == 12).all()
    assert (record.first_difference == SAME).all()
    assert record.tau[[0, 3]] == pytest.approx(1)
    assert (record.tau[4:10] > 1).all()
    assert (record.outside_share > 0).all()
    assert (record.target_seconds > 0).all()
    assert (record.draft_seconds[:, [0, 2, 3]] == 0).all()
    assert (record.draft_seconds[:, 4:10] > 0).all()
    assert record.predicted[4:6] == pytest.approx([PLAN.chain_speedups[0], PLAN.speedup])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_transformers_texts_are_whole_and_its_cycles_are_seen(tiny: Pair, temperature: float) -> None:
    sampling, prompt = Sampling(temperature), PROMPTS[0]
    for options in ({}, {"chain": 3}, {"lookup": 4}):
        with Meter(tiny) as meter:
            text = hugging_face.generate(tiny, prompt, 20, sampling, **options, seed=5)
        again = hugging_face.generate(tiny, prompt, 20, sampling, **options, seed=5)
        assert text.tokens == again.tokens
        assert len(text.tokens) == 20
        emitted = [accepted + 1 for accepted in text.accepted]
        assert 20 - 4 <= sum(emitted) < 20
        assert max(emitted) <= 1 + max(options.values(), default=0)
        assert 0 < sum(meter.since(text.started)) < text.seconds
        assert sum(meter.since(0)) > sum(meter.since(text.started))
        if temperature == 0:
            assert text.tokens == generated(tiny, prompt, 20)


def test_sampled_texts_are_those_of_their_seed_and_are_not_compared(tiny: Pair) -> None:
    state = torch.random.get_rng_state()
    first, second = (clocked(tiny, replace(SETTINGS, temperature=1.0, new_tokens=6), prompts=1)[-1] for _ in range(2))
    assert torch.equal(state, torch.random.get_rng_state())
    assert (first.first_difference == SAME).all()
    for name in ("tokens", "cycles", "emitted", "repeated_fourgrams"):
        assert (getattr(first, name) == getattr(second, name)).all()


def test_generation_settings_are_as_before(tiny: Pair) -> None:
    configs = tiny.target.generation_config, tiny.draft.generation_config
    before = [config.to_dict() for config in configs]  # type: ignore[union-attr]
    for chain, lookup in ((3, None), (None, 4)):
        hugging_face.generate(tiny, PROMPTS[0], 8, Sampling(1.0), chain=chain, lookup=lookup)
    with pytest.raises(ValueError, match="max_new_tokens"):
        hugging_face.generate(tiny, PROMPTS[0], 0, Sampling())
    assert (tiny.target.generation_config, tiny.draft.generation_config) == configs
    assert tiny.target.generation_config is configs[0]
    assert [config.to_dict() for config in configs] == before  # type: ignore[union-attr]


def test_a_record_comes_back_from_disk(greedy: list[WallClock], tmp_path: Path) -> None:
    file, record = tmp_path / "clock.json", greedy[-1]
    record.save(file)
    assert WallClock.load(file).to_dict() == record.to_dict()
    assert {"threads", "cpu", "device", "dtype", "attention"} <= set(record.provenance.facts)
    assert (record.seconds > record.decode_seconds).all(), "the prompt is read within one of them alone"
    damaged = record.to_dict() | {"cycles": [[1, 2]]}
    with pytest.raises(RecordError, match="cycles must have shape"):
        WallClock.from_dict(damaged)
    refuses("seconds must be finite and at least 0", replace, record, seconds=record.seconds * np.nan)


def test_an_interrupted_clocking_goes_on(tiny: Pair, greedy: list[WallClock], tmp_path: Path) -> None:
    greedy[0].save(tmp_path / "clock.json")
    so_far = WallClock.load(tmp_path / "clock.json")
    rest = clocked(tiny, SETTINGS, so_far)
    assert [record.prompts for record in rest] == [2]
    assert (rest[-1].seconds[0] == greedy[0].seconds[0]).all()
    assert (rest[-1].emitted == greedy[-1].emitted).all()
    assert clocked(tiny, SETTINGS, rest[-1]) == []
    for other, differing in (
        (replace(SETTINGS, seed=1), r"seed \(0, here 1\)"),
        (replace(SETTINGS, rounds=2), r"rounds \(1, here 2\)"),
    ):
        refuses(rf"begun with (another|other) {differing}: name a new file", clocked, tiny, other, so_far)
    refuses("begun with other prompts: name a new file or remove it", clocked, tiny, SETTINGS, so_far, prompts=1)
    refuses("need at least one prompt", clocked, tiny, SETTINGS, prompts=0)


def made_up(ratios: Sequence[Sequence[float]]) -> WallClock:
    """Four decoders, at these speeds beside the first, with 100 tokens in a second."""
    seconds = 1 / np.array(ratios)
    whole = np.ones_like(seconds, int)
    return WallClock(
        ("HF plain", "HF assisted, 2", "plain", "chain of 2", "tree of 4"),
        ("HF", "HF", "plain", "chain", "static tree"),
        (None, None, None, SLOWER, PLAN),
        PLAN,
        (),
        tokens=100 * whole,
        seconds=seconds,
        decode_seconds=seconds,
        target_seconds=0.7 * seconds,
        draft_seconds=0.2 * seconds,
        cycles=50 * whole,
        emitted=100 * whole,
        fourgrams=97 * whole,
        repeated_fourgrams=0 * whole,
        first_difference=SAME * whole,
        margin=0.0 * whole,
    )


THREE = [[1, 1.5, 1.2, 1.8, 2.4], [1, 1, 1, 2, 4], [1, 2, 1, 2, 1]]


def test_numbers_are_medians_and_ratios() -> None:
    record = made_up(THREE)
    assert record.speed.tolist() == pytest.approx([100, 150, 100, 200, 240])
    assert record.ratio(4)[0] == pytest.approx(2.4)
    assert record.ratio(4, 1) == pytest.approx((1.6, 0.5, 4.0))
    assert record.loop_speedup.tolist() == pytest.approx([1, 1.25, 1, 2, 2])
    assert record.outside_share.tolist() == pytest.approx([0.1] * 5)
    assert record.tau.tolist() == [2.0] * 5
    assert record.fastest("HF", "chain") == 3
    assert record.fastest("model-free") is None
    record = made_up(2 * THREE)
    words = " ".join(clock_words(replace(record, first_difference=np.where(record.seconds == 0.25, 7, SAME))))
    assert "The chain of 2 runs at 1.20 (95% 1.00 to 2.00) times HF assisted, 2." in words
    beside = "1.60 (95% 0.50 to 4.00) times HF assisted, 2, the fastest of transformers here"
    assert f"The fastest tree, tree of 4, runs at {beside}" in words
    assert "tree of 4 on prompt 1 at token 7" in words
    assert clock_rows(record).rows[4][:4] == ("tree of 4", "240", "2.40", "1.00-4.00")
    assert clock_rows(record).rows[4][6:8] == ("2.00", f"{PLAN.speedup:.2f}")
    assert "slower" not in words


def test_a_choice_by_replay_is_laid_beside_the_choice_of_the_rates() -> None:
    """Medians over prompts: the tree runs at 2.4 times HF plain, 1.6 times HF assisted, 1.33 times the chain."""
    words = " ".join(clock_words(replace(made_up(2 * THREE), rivals=(SLOWER,))))
    predicted = PLAN.speedup / SLOWER.speedup
    assert "The plan's choice, tree of 4, runs at 1.33 (95% 0.50 to 2.00) times chain of 2, the choice" in words
    assert f"replay and the measured times predict {predicted:.2f}" in words
    assert "Of 2 chains and trees with their verifiers, tree of 4 is the fastest: tree of 4 is 0.0% slower" in words
    assert "Tree of 4 runs at 1.60 (95% 0.50 to 4.00) times HF assisted, 2" in words
    words = " ".join(clock_words(replace(made_up(2 * THREE), plan=SLOWER, rivals=(PLAN,))))
    assert "tree of 4 is the fastest: chain of 2 is 25.0% slower (aim below 3%)" in words
    assert "The plan's choice, chain of 2, runs at 0.75 (95% 0.50 to 2.00) times tree of 4" in words


@pytest.mark.usefixtures("small_plans")
def test_rivals_of_a_plan_for_sampled_text(tiny: Pair, tmp_path: Path) -> None:
    """The rates' choice comes first; then the plan's own tree with each verifier that was not chosen."""
    chosen, texts = measured_plan(tiny, MANY, new_tokens=48, temperature=1.0, latency=FLAT, folder=tmp_path)
    by_rates, *others = rivals(chosen, texts)
    assert chosen.replayed is not None
    assert by_rates.verifier in (None, "Naive")
    assert {plan.tree for plan in others} <= {chosen.tree}
    named = [plan.verifier for plan in (chosen, *others)]
    assert len(set(named)) == len(named)
    assert set(named) | {by_rates.verifier} >= {"Naive", "RRS", "Traversal"}
    running = entrants(tiny, (chosen, by_rates, *others), replace(SETTINGS, temperature=1.0), CORPUS)
    assert len({entrant.name for entrant in running}) == len(running)


@pytest.mark.usefixtures("small_plans")
def test_a_plan_for_text_with_top_k_is_traced_replayed_and_timed_with_it(tiny: Pair, tmp_path: Path) -> None:
    drawing = {"temperature": 0.8, "top_k": 5, "top_p": 0.9}
    given = {"new_tokens": 48, "latency": FLAT, "folder": tmp_path}
    chosen, _ = measured_plan(tiny, MANY, **drawing, **given)
    for record in (chosen.acceptance, chosen.latency):
        assert record.provenance.sampling == "temperature 0.8 and top-k 5 and top-p 0.9"
    texts = replays(tmp_path / TRACE, tiny)
    rows = np.concatenate([text.p for text in texts.texts if isinstance(text, st.TargetText)])
    assert (rows > 0).sum(1).max() <= 5
    assert not any("overheads were measured at" in one for one in chosen.provenance.assumptions)
    other = st.evaluate(chosen.tree, chosen.acceptance, replace(chosen.latency, provenance=GREEDILY))
    said = "the overheads were measured at temperature 0, and are used for decoding at temperature 0.8 and top-k 5"
    assert any(one.startswith(said) for one in other.provenance.assumptions)
    with pytest.raises(ForeignFolderError, match=r"another top_k \(5, here not set\)"):
        measured_plan(tiny, MANY, **{**drawing, "top_k": None}, **given)
    refuses("have no effect at temperature 0", measured_plan, tiny, MANY, **{**drawing, "temperature": 0}, **given)


@pytest.mark.parametrize(("prompts", "said"), [(1, "1 prompt x"), (5, "5 prompts x"), (6, "6 prompts x")])
def test_few_prompts_have_no_interval(prompts: int, said: str) -> None:
    record = made_up((2 * THREE)[:prompts])
    table, words = clock_rows(record), " ".join(clock_words(record))
    assert said in table.title
    assert {row[3] == "-" for row in table.rows[1:]} == {prompts < 6}
    assert ("(95%" in words) == (prompts >= 6)
    assert "times HF assisted, 2" in words


def test_one_prompt_is_no_prompts() -> None:
    words = [clock_words(replace(made_up(THREE[:n]), provenance=GREEDILY))[-1] for n in (1, 2)]
    assert words == [
        f"Every decoder writes the same text as HF plain on {which}." for which in ("1 prompt", "all 2 prompts")
    ]


def test_a_plan_that_drafts_nothing_leaves_the_rest(tiny: Pair) -> None:
    off = st.plan(st.Acceptance.by_rank([0.1]), st.Latency.constant(draft_seconds=0.9), max_budget=4)
    assert off.answer == "off"
    names = [entrant.name for entrant in entrants(tiny, [off], SETTINGS, CORPUS)]
    assert "HF assisted, 1" in names
    assert "chain of 1" in names
    assert "EAGLE-2" in names
    assert not [name for name in names if name.startswith("tree of")]


def test_a_plan_is_measured(tiny: Pair, tmp_path: Path) -> None:
    """Whatever the times say: of this many positions 100 are left where cycles of a deep tree start."""
    found, texts = measured_plan(tiny, MANY, new_tokens=60, rounds=1, folder=tmp_path)
    assert found.context == 8 + 30
    assert found.acceptance.trials is not None
    assert found.tree.budget <= 64
    assert rivals(found, texts) == ()
    seconds = np.array([[1e-3, 4e-3], [1e-3, 4e-3]])
    latency = st.Latency(np.array([1, 128]), np.array([8, 68]), seconds, seconds / 20, overhead_seconds=9.0)
    kept, _ = measured_plan(tiny, MANY, new_tokens=60, latency=latency, folder=tmp_path)
    assert 0 <= kept.latency.overhead_seconds < 9
    assert (st.Acceptance.load(tmp_path / RATES).smoothed().table == kept.acceptance.table).all()
    written = [part.stat().st_mtime_ns for part in (tmp_path / TRACE).iterdir()]
    greedily = replace(latency, provenance=GREEDILY)
    kept, _ = measured_plan(tiny, MANY, new_tokens=60, latency=greedily, folder=tmp_path)
    assert kept.latency.overhead_seconds == 9
    assert [part.stat().st_mtime_ns for part in (tmp_path / TRACE).iterdir()] == written
    with pytest.raises(ForeignFolderError, match="holds a trace with another seed"):
        measured_plan(tiny, MANY, new_tokens=60, latency=latency, folder=tmp_path, seed=1)


def test_the_command(run: Run, pair: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocking, "library", lambda pair: CORPUS)
    PLAN.save("plan.json")
    few = ["--skip", 1, "--count", 2, "--prompt-tokens", 8, "--new-tokens", 6, "--rounds", 1, "--plan", "plan.json"]
    status, out, err = run("clock", *pair, *few, "--out", "clock.json")
    assert (status, [line for line in err.splitlines() if not line.startswith("clock: ")]) == (0, [])
    assert "HF prompt lookup" in out
    assert "times our plain loop for its tree" in " ".join(out.split())
    written = Path("clock.json").read_bytes()
    out = printed(run("clock", *pair, *few, "--out", "clock.json", "--json"))
    assert json.loads(out) == json.loads(written)
    status, _, err = run("clock", *pair, *few, "--out", "clock.json", "--temperature", 1)
    assert status == 2
    assert "begun with other decoders, temperature (0.0, here 1.0)" in err
    drawn = "--temperature", 1, "--top-k", 4, "--top-p", 0.9
    out = printed(run("clock", *pair, *few, "--out", "drawn.json", *drawn, "--count", 1))
    assert "Wall clock at temperature 1 and top-k 4 and top-p 0.9: 1 prompt" in " ".join(out.split())
    status, _, err = run("clock", *pair, *few, "--out", "drawn.json", "--temperature", 1, "--count", 1)
    assert status == 2
    assert "begun with other top_k (4, here not set), top_p (0.9, here not set)" in err.replace("another", "other")
    for bad, said in (
        (["--rounds", 0], "rounds must be at least 1, got 0"),
        (["--new-tokens", 1], "new_tokens must be at least 2, got 1: the first token comes with the prompt"),
        (["--temperature", -1], "temperature must be 0"),
        (["--top-k", 4], "top_k=4 and top_p=1 have no effect at temperature 0"),
        (["--plan", "absent.json"], "there is no file absent.json"),
        (["--out", "plan.json"], "holds a record of kind 'schedule', expected 'wallclock'"),
        (["--new-tokens", 5000], "need a context of 5008"),
    ):
        status, _, err = run("clock", *pair, *few, *bad)
        assert status == 2, bad
        assert said in err
