"""Tests of traces and profiles of draft heads, whose candidates depend on how much of a cycle is drafted."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import spectheory as st
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.heads import Head, HeadConfig, ParallelHead, write_head
from reference.meter import Meter
from reference.models import Pair, load_pair
from reference.planning_loop import measured_plan
from reference.profiling import profile
from reference.random_streams import Uniforms, streams
from reference.replaying import replays
from reference.sampling import Sampling
from reference.teacher_forcing import forced_texts
from reference.trace_rows import TraceSettings, candidates_given
from reference.tracing import acceptance, by_request, ranks, record_trace
from spectheory.core.acceptance import cycle_starts
from spectheory.otlp import Naive
from spectheory.replay import Replays
from spectheory.verify import Greedy, TopDown, Traversal, Verifier
from tests.reference.played import gpu
from tests.reference.slow_heads import headed
from tests.reference.test_judge_heads import KINDS, small
from tests.reference.tiny_heads import CONFIGS, random_head
from tests.refusals import refuses

PROMPTS = [[3, 3, 5, 1], [0, 1, 2, 3], [5, 4, 3, 2], [1, 1, 2, 5], [2, 0, 4, 4]]
SETTINGS = TraceSettings("random", candidates=6, new_tokens=24, batch=2, depths=4)
TREE = st.Tree([-1, 0, 0, 0, 1, 1, 2, 4])


def traced(pair: Pair, folder: Path, settings: TraceSettings = SETTINGS) -> Path:
    record_trace(pair, PROMPTS, settings, folder)
    return folder


@KINDS
def test_greedy_cycles_of_a_head_are_those_of_the_decoder(kind: str, tmp_path: Path) -> None:
    """Cycle by cycle: by replay, by the walk through the ranks, and by the visits that rates count."""
    pair = small(kind)
    folder = traced(pair, tmp_path, replace(SETTINGS, new_tokens=16))
    recorded, accepted = ranks(folder), []
    for prompt, text in zip(PROMPTS, recorded, strict=True):
        found = Decoder(pair, PlannedTree(TREE)).generate(prompt, 16)
        starts = 1 + np.cumsum([0, *(kept + 1 for kept in found.accepted)])[:-1]
        assert cycle_starts(text, TREE).tolist() == starts.tolist()
        accepted += [kept for start, kept in zip(starts, found.accepted, strict=True) if start + 3 < 16]
    replayed = replays(folder).replay(TREE, Greedy())
    np.testing.assert_allclose(replayed.accepted, np.bincount(accepted, minlength=4), atol=1e-12)
    counted = acceptance(folder, policy=TREE, min_trials=1)
    assert counted.trials is not None
    assert counted.trials[0] == sum(len(cycle_starts(text, TREE)) for text in recorded)
    assert sum(accepted) > 4, "nothing was accepted, so nothing was tested of deeper nodes"


@pytest.mark.parametrize(("kind", "verifier"), [("eagle1", Traversal()), ("parallel", TopDown(Naive()))], ids=str)
def test_sampled_cycles_of_a_head_are_as_many_as_replay_expects(kind: str, verifier: Verifier) -> None:
    """|z| <= 4.5 over 8 texts, an error level of 7e-6 for each of 2 rows, by the normal approximation."""
    pair, sampling = small(kind), Sampling(1.0)
    prompts = [[int(token) for token in np.random.default_rng(i).integers(0, 6, 5)] for i in range(8)]
    texts, counted = [], 0
    for request, prompt in enumerate(prompts):
        text = Decoder(pair, PlannedTree(TREE), sampling, verifier).generate(prompt, 30, *streams(pair, 1, request))
        starts = 1 + np.concatenate([[0], np.cumsum(np.array(text.accepted) + 1)[:-1]])
        counted += (starts < 30 - TREE.max_depth).sum()
        texts.append(text.tokens)
    forced = list(forced_texts(pair, prompts, texts, sampling, depths=3))
    assert len(forced[0].q) == 3
    drawn = [Replays(forced, seed=s).replay(TREE, verifier, st.DrawRule.NO_REPLACEMENT) for s in range(4)]
    expected = np.array([one.cycles.sum() for one in drawn])
    variance = np.mean([one.variance.sum() for one in drawn]) + expected.var(ddof=1) / len(drawn)
    assert abs(counted - expected.mean()) <= 4.5 * np.sqrt(variance)


def test_candidates_given_a_text_are_those_that_the_naive_solver_saw() -> None:
    """Each ordered triple of 4 tokens, after each token: |z| <= 6.5, an error level of 1e-10 for each of 288 counts."""
    rng, draws = np.random.default_rng(0), 20_000
    uniforms = Uniforms(torch.Generator().manual_seed(0))
    for p, q in rng.dirichlet(np.ones(4), (3, 2)):
        for token in range(4):
            rows = (np.tile(p, (draws, 1)), np.tile(q, (draws, 1)), np.full(draws, token))
            found = candidates_given(*rows, 3, uniforms)
            for drafts in permutations(range(4), 3):
                drawn = np.prod([q[x] / (1 - q[list(drafts[:i])].sum()) for i, x in enumerate(drafts)])
                chance = drawn * Naive().distribution(p, q, list(drafts))[token] / p[token]
                count = (found == drafts).all(1).sum()
                assert abs(count - draws * chance) <= 6.5 * np.sqrt(draws * chance * (1 - chance)) + 1e-9


def test_candidates_end_where_no_token_is_left() -> None:
    certain, p = np.array([[0.0, 1.0, 0.0]] * 2), np.array([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    uniforms = Uniforms(torch.Generator().manual_seed(0))
    assert candidates_given(p, certain, np.array([1, 0]), 3, uniforms).tolist() == [[1, -1, -1], [1, -1, -1]]
    assert candidates_given(certain, certain, np.array([1, 1]), 1, uniforms).tolist() == [[1], [1]]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trace_of_a_head_continues_and_names_what_is_damaged(temperature: float, tmp_path: Path) -> None:
    pair, settings = small("eagle1"), replace(SETTINGS, temperature=temperature)
    folder = traced(pair, tmp_path / "trace", settings)
    before = [ranks(folder, top=top) for top in (False, True)]
    assert [text.shape for text in before[0]] == [(4, 24)] * 5
    (folder / "part-000002.parquet").unlink()
    refuses("lacks part-000002.parquet", ranks, folder)
    traced(pair, folder, settings)
    for one, other in zip(before, (ranks(folder, top=top) for top in (False, True)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(texts.min() >= -1 for texts in by_request(folder, "deeper_ranks"))
    refuses("another depths \\(4, here 3\\)|other depths", traced, pair, folder, replace(settings, depths=3))
    stamp = folder / "provenance.json"
    for wrong, said in (("true", "has depths True"), ("0", "has depths 0"), ("3", "does not hold the requests")):
        text = stamp.read_text()
        stamp.write_text(text.replace('"depths": 4', f'"depths": {wrong}'))
        refuses(f"{said}|does not belong to the run", ranks, folder)
        stamp.write_text(text)


def test_a_trace_of_one_depth_has_the_columns_of_a_model(tmp_path: Path) -> None:
    folder = traced(small("eagle1"), tmp_path, replace(SETTINGS, depths=1))
    assert [text.shape for text in ranks(folder)] == [(24,)] * 5


@pytest.mark.parametrize("kind", ["eagle1", "parallel"])
def test_a_head_is_profiled(kind: str) -> None:
    """A parallel head drafts all levels at once; the output layer counts as a part of each forward."""
    pair = small(kind)
    latency = profile(pair, tokens=(1, 2, 5), contexts=(1, 64), rounds=1)
    assert latency.drafting == ("at once" if isinstance(pair.draft, ParallelHead) else "levels")
    assert (latency.draft_seconds > 0).all()
    assert isinstance(pair.draft, Head)
    assert not {"forward", "logits", "marginals"} & set(vars(pair.draft)), "the meter puts back what it found"


@pytest.mark.parametrize("depths", [1, 2])
def test_a_parallel_head_of_few_depths_is_profiled_with_shallower_trees(depths: int) -> None:
    pair = headed(replace(CONFIGS["parallel"], depths=depths))
    latency = profile(pair, tokens=(1,), contexts=(16,), rounds=1, temperature=1.0)
    assert latency.overhead_seconds + latency.level_overhead_seconds > 0


def test_the_meter_times_the_output_layer_of_a_head() -> None:
    pair = small("eagle1")
    assert isinstance(pair.draft, Head)
    with Meter(pair) as meter:
        pair.draft.logits(torch.zeros(1, 32, dtype=torch.float64))
    assert [len(meter.calls[role]) for role in ("target", "draft")] == [0, 1]


@pytest.mark.parametrize(("kind", "temperature"), [("eagle3", 0.0), ("parallel", 1.0)])
def test_the_whole_loop_plans_for_a_head(kind: str, temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference.planning_loop.MAX_BUDGET", 8)
    pair, forward = small(kind), np.ones((2, 1))
    latency = replace(
        st.Latency.constant(), contexts=np.array([5, 29]), target_seconds=forward, draft_seconds=0.01 * forward
    )
    prompts = [[int(token) for token in np.random.default_rng(i).integers(0, 6, 5)] for i in range(20)]
    chosen, texts = measured_plan(pair, prompts, new_tokens=24, temperature=temperature, latency=latency)
    assert chosen.tree.budget > 0
    assert chosen.tree.max_depth <= (pair.deepest or chosen.tree.max_depth)
    assert texts.greedy == (temperature == 0)


def test_a_parallel_head_is_replayed_no_deeper_than_it_drafts(tmp_path: Path) -> None:
    texts = replays(traced(small("parallel"), tmp_path))
    assert (texts.limit, texts.deepest) == (4, 4)
    assert not texts.can_replay(st.Tree.chain(5))
    refuses(
        "shape must be at most 4 deep, the most that this draft can draft, got 5",
        texts.replay,
        st.Tree.chain(5),
        Greedy(),
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_shorter_than_the_depths_are_traced(temperature: float, tmp_path: Path) -> None:
    settings = replace(SETTINGS, temperature=temperature, new_tokens=2, depths=8)
    record_trace(small("eagle1"), [[3, 1], [2, 2]], settings, tmp_path)
    assert [text.shape for text in ranks(tmp_path)] == [(8, 2)] * 2
    refuses("prompts must have at least 2 tokens", record_trace, small("eagle1"), [[3]], settings, tmp_path)


def test_a_rank_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = traced(small("eagle1"), tmp_path)
    part = folder / "part-000002.parquet"
    table = pq.read_table(part)
    place = table.schema.get_field_index("deeper_ranks")
    values = [[None, 0, 0], *table["deeper_ranks"].to_pylist()[1:]]
    column = pa.array(values, table.schema.field(place).type)
    pq.write_table(table.set_column(place, table.schema.field(place), column), part)
    refuses("does not hold the requests from 2 on", ranks, folder)


def test_a_head_on_a_gpu_is_traced_as_on_the_host(tiny_folders: Path, tmp_path: Path) -> None:
    write_head(random_head(HeadConfig("eagle1", 64, 48, 300, 4, 2, 8)), tmp_path / "head", "eagle")
    found = []
    for device in ("cuda", "cpu"):
        with gpu() if device == "cuda" else nullcontext():
            pair = load_pair(tiny_folders / "target", tmp_path / "head", device=device, dtype=torch.float64)
            record_trace(pair, PROMPTS, replace(SETTINGS, temperature=1.0), tmp_path / device)
        found.append(np.concatenate(ranks(tmp_path / device), 1))
    assert torch.cuda.is_available() or (found[0] == found[1]).all()
