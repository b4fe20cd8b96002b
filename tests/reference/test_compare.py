"""Comparisons on a tiny random pair: who is there, what they write, what is predicted, resuming, bad input, command."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
import spectheory.verify as verifying
from reference import hugging_face, planning_loop
from reference.compare import RECORD, CompareSettings, Entrant, compare, entrants, lossless
from reference.decode import Decoder
from reference.drafters import PlannedTree, PromptLookup, drafters
from reference.meter import Meter
from reference.models import Pair
from reference.part_files import ForeignFolderError
from reference.planning_loop import RATES, measured_plan
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from reference.tracing import read_trace
from spectheory import otlp
from spectheory.otlp import Solver
from spectheory.report.comparison import decoder_rows, decoder_words
from spectheory.results.comparison import Compared, Comparison
from spectheory.verify import Verifier, name_of
from tests.cli.test_cli import Run, pair, printed, run
from tests.helpers import known, refuses
from tests.reference.sampled_text import generated

__all__ = ["pair", "run"]

MANY = [[10 * i + j for j in range(8)] for i in range(14)]
PROMPTS = MANY[1:3]
FLAT = st.Latency(np.array([1, 128]), np.array([8, 68]), np.array([[1, 1.01]] * 2), np.array([[1, 1.01]] * 2) / 1e4)
"""Forwards of 128 tokens take 1% longer than those of one."""
PLAN = st.plan(st.Acceptance.by_rank([0.6, 0.2, 0.1]), st.Latency.constant(draft_seconds=0.05), max_budget=6)
SETTINGS = CompareSettings((0.0, 1.0), new_tokens=16)


@pytest.fixture(autouse=True)
def small_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans draft at most 8 nodes, so that they need fewer traced texts and less search."""
    monkeypatch.setattr(planning_loop, "MAX_BUDGET", 8)


@pytest.fixture(scope="module")
def folder(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a comparison of every decoder at both temperatures."""
    folder = tmp_path_factory.mktemp("compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning_loop, "MAX_BUDGET", 8)
        compare(folder, tiny, MANY, PROMPTS, SETTINGS)
    return folder


def test_every_decoder_writes_the_same_greedy_texts(folder: Path) -> None:
    record = Comparison.load(folder / RECORD)
    assert (record.equal == 1).all()
    assert (record.tokens <= 15).all()
    greedy = [str(one) for one in record.decoders if one.temperature == 0]
    assert greedy[:4] == ["HF plain", "HF prompt lookup", "HF assisted, 5", "plain, Greedy"]
    assert {f"{name}, Greedy" for name in ("chain of 5", "OPT-Tree", "prompt lookup", "datastore")} <= set(greedy)
    assert record.tau[[0, 3]] == pytest.approx(1)
    assert (record.tau >= 1).all()
    for one, tau in zip(record.decoders, record.tau, strict=True):
        if one.tau is not None:  # tiny texts: the replayed tau is of other prompts
            assert known(one.tau_low) - 1e-9 <= one.tau <= known(one.tau_high) + 1e-9
            assert 0.4 < one.tau / tau < 2.5
    predicted = {str(one) for one in record.decoders if one.tau is not None}
    assert {f"{name}, Greedy" for name in ("chain of 5", "SpecExec", "Goose")} <= predicted
    assert {"token recycling, NSS", "3 paths of 4, SpecTr", "binary tree 2x2x2, Traversal"} <= predicted
    assert {str(one) for one in record.decoders if one.speed is not None} <= predicted


def test_no_verifier_and_no_drafter_is_left_out(tiny: Pair) -> None:
    """Every verifier and solver of the package that suits a real vocabulary runs wherever it is lossless."""
    running = entrants(tiny, PLAN, Sampling(1.0))
    named = {name_of(known(one.verifier)) for one in running if one.drafter}
    kinds = [*vars(otlp).items(), *vars(verifying).items()]
    every = {name for name, kind in kinds if inspect.isclass(kind) and issubclass(kind, Solver | Verifier)}
    small = {type(one).__name__ for one in otlp.solvers() if one.small_vocabulary_only}
    assert every - small - {"ArgMax", "Solver", "TopDown", "BottomUp", "Verifier", "Greedy"} == named
    variants = {name for kind in drafters() for name in kind.compared(Sampling(1.0), PLAN)}
    assert {one.name for one in running if one.drafter} == variants | {"plain", "datastore"}
    assert len({str(one) for one in running}) == len(running)
    chain = PlannedTree(st.Tree.chain(2))
    assert len(lossless(chain, Sampling(1.0))) > len(lossless(PlannedTree(st.Tree.k_ary(2, 2)), Sampling(1.0))) > 1


def test_a_target_alone_runs_the_decoders_that_need_no_draft(tiny: Pair, tmp_path: Path) -> None:
    """Their tau is predicted from texts of the target alone, to the same number as beside a draft."""
    alone = replace(tiny, draft=None, names=("tiny", "no draft"))
    ours = {"plain", "prompt lookup", "token recycling", "Goose", "datastore"}
    assert {one.name for one in entrants(alone, None, Sampling(0.0))} == ours | {"HF plain", "HF prompt lookup"}
    settings = CompareSettings((0.0,), new_tokens=16, only="prompt lookup|datastore")
    found = compare(tmp_path / "alone", alone, MANY, [*PROMPTS, MANY[0]], settings)
    assert found.equal.all()
    assert found.provenance.draft is None
    lookup = next(one for one in found.decoders if one.name == "prompt lookup")
    texts = [row["text"] for row in read_trace(tmp_path / "alone" / "temperature-0" / "trace")]
    stored = [one.name for one in found.decoders].index("datastore")
    assert found.decoders[stored].tau is None
    assert found.cycles[-1, stored] <= 3, "the text after a traced prompt is in the datastore"
    assert lookup.tau == replay_drafter(tiny, PromptLookup(), MANY, texts, Sampling(0.0)).tau
    refuses("tiny is alone and this needs a draft", Decoder(alone, PlannedTree(st.Tree.chain(2))).generate, [1], 4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_transformers_texts_are_whole_and_its_cycles_are_seen(tiny: Pair, temperature: float) -> None:
    sampling, prompt, state = Sampling(temperature), PROMPTS[0], torch.random.get_rng_state()
    configs = [model.generation_config for model in tiny.models]
    before = [config.to_dict() for config in configs]
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
        if temperature == 0:
            assert text.tokens == generated(tiny, prompt, 20)
    assert torch.equal(state, torch.random.get_rng_state())
    assert [model.generation_config for model in tiny.models] == configs
    assert [config.to_dict() for config in configs] == before


def test_an_interrupted_comparison_goes_on_after_the_last_prediction_or_whole_prompt(
    tiny: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = CompareSettings((1.0,), new_tokens=16, only="chain of 5, B")

    def compared(name: str, settings: CompareSettings = settings, prompts: Any = PROMPTS, **more: Any) -> Any:
        return compare(tmp_path / name, tiny, MANY, prompts, settings, **more)

    def interrupted(one: Entrant, *known: Any) -> Compared:
        if one.name == "plain":
            return Compared("kept", "NSS", 1.0)
        raise KeyboardInterrupt

    def stop(finished: int, total: int) -> None:
        assert total == 4 or finished < total == 2
        if finished == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("reference.compare._predicted", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compared("two")
    with pytest.raises(KeyboardInterrupt):
        compared("two", done=stop)
    half = Comparison.load(tmp_path / "two" / RECORD)
    assert (len(half.cycles), *map(str, half.decoders)) == (1, "kept, NSS", "chain of 5, Block")
    found, whole = compared("two"), compared("one")
    assert (found.seconds[0] == half.seconds[0]).all()
    for name in ("emitted", "cycles", "tokens"):
        assert (getattr(found, name) == getattr(whole, name)).all()
    assert compared("two").to_dict() == found.to_dict()
    refuses(r"begun with other rounds \(1, here 2\)", compared, "two", replace(settings, rounds=2))
    refuses("begun with other prompts", compared, "two", prompts=PROMPTS[:1])
    with pytest.raises(ForeignFolderError, match=r"new_tokens \(16, here 17\)"):
        compared("two", replace(settings, new_tokens=17))
    refuses("no decoder's name contains 'nobody': a valid name is", compared, "one", replace(settings, only="nobody"))
    refuses("need prompts to trace and to decode, got 14 and 0", compared, "one", prompts=[])
    refuses("need a context of 5008", compared, "one", replace(settings, new_tokens=5000))
    refuses("new_tokens must be at least 2, got 1", replace, settings, new_tokens=1)


def made_up(ratios: Sequence[Sequence[float]]) -> Comparison:
    """Four decoders at these speeds beside the first, with 100 tokens in a second."""
    seconds = 1 / np.array(ratios)
    whole = np.ones_like(seconds, int)
    decoders = (
        Compared("HF plain", None, 0.0),
        Compared("plain", "Greedy", 0.0, 1.0, 1.0, 1.0, 120.0),
        Compared("chain of 2", "Greedy", 0.0, 2.1, 2.0, 2.2, 190.0),
        Compared("Goose", "Greedy", 0.0),
    )
    cycles = np.tile([100, 100, 50, 40], (len(ratios), 1))
    return Comparison(decoders, 100 * whole, cycles, 100 * whole, seconds, whole)


THREE = [[1, 1.2, 1.8, 2.4], [1, 1, 2, 4], [1, 1, 2, 1]]


def test_numbers_are_medians_and_ratios(tmp_path: Path) -> None:
    record = made_up(THREE)
    assert record.speed.tolist() == pytest.approx([100, 100, 200, 240])
    assert record.ratio(3, 2) == pytest.approx((4 / 3, 0.5, 2.0))
    assert replace(made_up(THREE * 2), sources=tuple("abc") * 2).ratio(3, 2) == record.ratio(3, 2)
    assert record.tau.tolist() == [1, 1, 2, 2.5]
    assert record.error_percent(2) == pytest.approx(5)
    assert record.error_percent(3) is record.agrees(3) is None
    assert record.agrees(2) is True
    assert decoder_rows(record).rows[2] == (
        *("chain of 2", "0", "2.10 ±0.1", "2.00 ±0", "+5.0%", "190.0", "200.0", "3/3"),
    )
    fastest, accuracy, equal = decoder_words(record)
    assert accuracy == "Predicted tau: median error 5.0% of 1 decoders, within the joint 95% interval for 1 of 1."
    assert equal == "Greedy text equals that of plain decoding for 12 of 12 texts."
    assert fastest.startswith(
        "At temperature 0 speculation may pay or not. The fastest on these prompts (Goose) has "
        "2.00 (95% 1.00 to 4.00) times the speed of plain decoding"
    )
    assert fastest.endswith("2.40 (95% 1.00 to 4.00) times the speed of HF plain, transformers' fastest.")
    assert "1 prompt x" in decoder_rows(made_up(THREE[:1])).title
    record.save(tmp_path / RECORD)
    assert Comparison.load(tmp_path / RECORD).to_dict() == record.to_dict()
    refuses("cycles must be numbers >= 0 of shape", replace, record, cycles=record.cycles[:, :2])
    refuses("seconds must be numbers >= 0", replace, record, seconds=record.seconds * np.nan)
    refuses("cycles must be at most emitted", replace, record, cycles=101 * np.ones((3, 4), int))


def test_a_plan_is_measured_once_in_a_folder(tiny: Pair, tmp_path: Path) -> None:
    """Whatever the times say: of this many positions 100 are left where cycles of a deep tree start."""
    found, _ = measured_plan(tiny, MANY, new_tokens=60, rounds=1, folder=tmp_path)
    assert found.context == 8 + 30
    assert found.acceptance.trials is not None
    assert found.tree.budget <= 8
    written = {file: file.read_bytes() for file in tmp_path.rglob("*.*") if file.name != RATES}
    again, _ = measured_plan(tiny, MANY, new_tokens=60, rounds=1, folder=tmp_path)
    assert {file: file.read_bytes() for file in written} == written
    assert again.tree == found.tree
    assert (st.Acceptance.load(tmp_path / RATES).smoothed().table == again.acceptance.table).all()
    greedily = replace(FLAT, provenance=st.Provenance("made here", temperature=0.0), overhead_seconds=9.0)
    kept, _ = measured_plan(tiny, MANY, new_tokens=60, latency=greedily, folder=tmp_path / "other")
    assert kept.latency.overhead_seconds == 9
    unknown = replace(FLAT, overhead_seconds=9.0)
    kept, _ = measured_plan(tiny, MANY, new_tokens=60, latency=unknown, folder=tmp_path / "unknown")
    assert 0 <= kept.latency.overhead_seconds < 9
    with pytest.raises(ForeignFolderError, match="holds a trace with another seed"):
        measured_plan(tiny, MANY, new_tokens=60, folder=tmp_path, seed=1)


def test_the_command(run: Run, pair: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    few = ["--skip", 3, "--count", 2, "--prompt-tokens", 8, "--new-tokens", 60, "--only", "chain of 5"]
    out = printed(run("compare", *pair, *few, "--out", "out", "--temperatures", "0"))
    assert "Greedy text equals that of plain decoding for 4 of 4 texts." in " ".join(out.split())
    for bad, said in (
        (["--temperatures", "cold"], "--temperatures must be numbers with commas between them, got 'cold'"),
        (["--temperatures", "0,0"], "temperatures must be different numbers"),
    ):
        status, _, err = run("compare", *pair, *few, "--out", "other", *bad)
        assert status == 2, bad
        assert said in err
    assert not Path("other").exists()
