"""Traces of draft models and of draft heads: what they hold, resuming, damaged folders, and what cannot be traced."""

from __future__ import annotations

import itertools
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.forced_logits import forced_texts
from reference.heads import HeadConfig, write_head
from reference.models import Pair, load_pair
from reference.part_files import STAMP
from reference.random_streams import Uniforms, streams
from reference.sampling import Sampling
from reference.tracing import (
    TRACE_FILE,
    TraceSettings,
    acceptance,
    candidates_given,
    ranks,
    read_trace,
    record_trace,
    replays,
)
from spectheory.otlp import Naive
from spectheory.replay import Replays
from spectheory.verify import Greedy, Traversal
from tests.faults.killing import POSIX, killed
from tests.helpers import cycle_starts, refuses
from tests.reference.played import gpu
from tests.reference.tiny_heads import CONFIGS, random_head, random_target

TEXTS = [[10 * i + j for j in range(9 - i)] for i in range(1, 6)]
SETTINGS = TraceSettings("numbers", candidates=4, new_tokens=40, batch=2)
SHORT = replace(SETTINGS, new_tokens=12)
AFTER = [[3, 3, 5, 1], [0, 1, 2, 3], [5, 4, 3, 2], [1, 1, 2, 5], [2, 0, 4, 4]]
OF_HEADS = TraceSettings("random", candidates=6, new_tokens=16, batch=2, depths=4)
TREE = st.Tree([-1, 0, 0, 0, 1, 1, 2, 4])


def small(kind: str) -> Pair:
    """A target of 6 tokens with a random head, whose drafts are often right by chance."""
    config = CONFIGS[kind]
    config = replace(config, vocab_size=6, draft_vocab_size=5 if config.draft_vocab_size else None)
    if config.kind == "eagle3":
        config = replace(config, layers=(3, 0, 2))
    tokenizer: Any = None
    target = random_target(vocab_size=6)
    return Pair(target, random_head(config, dtype=torch.float64).attach(target), tokenizer, ("target", "head"))


def test_a_greedy_trace_holds_the_rank_of_the_targets_token(tiny: Pair, tmp_path: Path) -> None:
    record_trace(tiny, TEXTS, SETTINGS, tmp_path)
    rows = read_trace(tmp_path)
    for row, prompt in zip(rows, TEXTS, strict=True):
        text = Decoder(tiny, PlannedTree(st.Tree.chain(0))).generate(prompt, 40).tokens
        assert (row["prompt"], row["text"]) == (prompt, text)
        with torch.inference_mode():
            offered = tiny.require_draft()(torch.tensor([prompt + text])).logits[0]
        for place, token in enumerate(text):
            likeliest = offered[len(prompt) + place - 1].topk(4).indices.tolist()
            assert row["ranks"][0][place] == (likeliest.index(token) if token in likeliest else -1)
    rates = acceptance(tmp_path, min_trials=10)
    assert rates.trials is not None
    assert rates.trials[0] == sum(len(row["text"]) for row in rows)
    assert rates.table[0, 0] == np.mean([rank == 0 for row in rows for rank in row["ranks"][0]])
    assert rates.provenance.settings["dataset"] == "numbers"


def test_candidates_given_a_text_are_those_that_the_naive_solver_saw() -> None:
    """Each ordered triple of 4 tokens, after each token: |z| <= 6.5, an error level of 1e-10 for each of 288 counts."""
    rng, draws = np.random.default_rng(0), 20_000
    uniforms = Uniforms(torch.Generator().manual_seed(0))
    for p, q in rng.dirichlet(np.ones(4), (3, 2)):
        for token in range(4):
            rows = (np.tile(p, (draws, 1)), np.tile(q, (draws, 1)), np.full(draws, token))
            found = candidates_given(*rows, 3, uniforms)
            for drafts in itertools.permutations(range(4), 3):
                drawn = np.prod([q[x] / (1 - q[list(drafts[:i])].sum()) for i, x in enumerate(drafts)])
                chance = drawn * Naive().distribution(p, q, list(drafts))[token] / p[token]
                count = (found == drafts).all(1).sum()
                assert abs(count - draws * chance) <= 6.5 * np.sqrt(draws * chance * (1 - chance)) + 1e-9
    certain, p = np.array([[0.0, 1.0, 0.0]] * 2), np.array([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    assert candidates_given(p, certain, np.array([1, 0]), 3, uniforms).tolist() == [[1, -1, -1], [1, -1, -1]]


def test_an_interrupted_trace_goes_on_and_equals_an_uninterrupted_one(tiny: Pair, tmp_path: Path) -> None:
    sampled, file = replace(SETTINGS, temperature=1.0), tmp_path / "a" / TRACE_FILE

    def stop(finished: int, total: int) -> None:
        if file.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_trace(tiny, TEXTS, sampled, tmp_path / "a", stop)
    half = read_trace(tmp_path / "a")
    assert len(half) == 2
    assert not list(tmp_path.rglob("*.partial"))
    record_trace(tiny, TEXTS, sampled, tmp_path / "a")
    record_trace(tiny, TEXTS, sampled, tmp_path / "b")
    assert read_trace(tmp_path / "a") == read_trace(tmp_path / "b")
    assert read_trace(tmp_path / "a")[:2] == half
    differing = r"a trace with another seed \(0, here 4\), temperature \(1.0, here 0.0\): name an empty folder"
    refuses(differing, record_trace, tiny, TEXTS, replace(SETTINGS, seed=4), tmp_path / "a")
    refuses("holds a trace with other prompts:", record_trace, tiny, TEXTS[::-1], sampled, tmp_path / "a")
    swapped = replace(tiny, target=tiny.draft, draft=tiny.target)  # pyrefly: ignore[bad-argument-type]
    refuses("holds a trace with other weights:", record_trace, swapped, TEXTS, sampled, tmp_path / "a")
    stamped = tmp_path / "b" / STAMP
    stamped.write_text(stamped.read_text().replace(f'"torch": "{torch.__version__}"', '"torch": "2.0"'))
    refuses(r"a trace with another torch \(2.0, here .*\):", record_trace, tiny, TEXTS, sampled, tmp_path / "b")


@POSIX
def test_what_a_killed_writer_leaves_is_removed_by_the_next(tiny: Pair, tmp_path: Path) -> None:
    assert killed(lambda: record_trace(tiny, TEXTS, SHORT, tmp_path), write=2)
    assert len(list(tmp_path.glob("*.partial"))) == 1
    record_trace(tiny, TEXTS, SHORT, tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".parquet"]


def test_a_trace_that_cannot_be_is_refused(tiny: Pair, tmp_path: Path) -> None:
    refuses("need a context of 1040, these models have 1024", record_trace, tiny, [[1] * 1000], SETTINGS, tmp_path)
    refuses(r"need at least one prompt, .* got lengths \[1, 0\]", record_trace, tiny, [[1], []], SETTINGS, tmp_path)
    many = replace(SETTINGS, candidates=301)
    refuses("candidates must be at most the vocabulary of 300, got 301", record_trace, tiny, TEXTS, many, tmp_path)
    refuses("candidates must be at least 1, got 0", replace, SETTINGS, candidates=0)
    refuses("each of at least 2 tokens", record_trace, small("eagle1"), [[3]], OF_HEADS, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def recorded(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces") / "one"
    record_trace(tiny, TEXTS, SHORT, folder)
    return folder


@pytest.fixture
def trace(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "trace")


def test_a_damaged_trace_and_one_without_its_provenance_are_refused(trace: Path, tiny: Pair) -> None:
    held = (trace / TRACE_FILE).read_bytes()
    (trace / TRACE_FILE).write_bytes(held[: len(held) // 2])
    refuses("trace.parquet is damaged: remove it and record again", ranks, trace)
    (trace / STAMP).unlink()
    refuses("holds no trace", ranks, trace)
    refuses("without its provenance.json: name an empty folder", record_trace, tiny, TEXTS, SHORT, trace)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"source": 3}', "[" * 100_000, '{"source": "\\ud800"}', "null"])
def test_a_damaged_provenance_is_refused(trace: Path, tiny: Pair, text: str) -> None:
    (trace / STAMP).write_text(text)
    refuses("provenance.json is damaged", ranks, trace)
    refuses("provenance.json is damaged", record_trace, tiny, TEXTS, SHORT, trace)


@pytest.mark.parametrize("kind", ["eagle1", "eagle3"])
def test_greedy_cycles_of_a_head_are_those_of_the_decoder(kind: str, tmp_path: Path) -> None:
    """Cycle by cycle: by replay, by the walk through the ranks, and by the visits that rates count."""
    pair = small(kind)
    record_trace(pair, AFTER, OF_HEADS, tmp_path)
    recorded, accepted = ranks(tmp_path), []
    for prompt, text in zip(AFTER, recorded, strict=True):
        found = Decoder(pair, PlannedTree(TREE)).generate(prompt, 16)
        starts = 1 + np.cumsum([0, *(kept + 1 for kept in found.accepted)])[:-1]
        assert cycle_starts(text, TREE).tolist() == starts.tolist()
        accepted += [kept for start, kept in zip(starts, found.accepted, strict=True) if start + 3 < 16]
    replayed = replays(tmp_path).replay(TREE, Greedy())
    np.testing.assert_allclose(replayed.accepted, np.bincount(accepted, minlength=4), atol=1e-12)
    assert sum(accepted) > 4, "nothing was accepted, so nothing was tested of deeper nodes"


def test_sampled_cycles_of_a_head_are_as_many_as_replay_expects() -> None:
    """|z| <= 4.5 over 8 texts, an error level of 7e-6, by the normal approximation."""
    pair, sampling, verifier = small("eagle1"), Sampling(1.0), Traversal()
    prompts = [[int(token) for token in np.random.default_rng(i).integers(0, 6, 5)] for i in range(8)]
    texts, counted = [], 0
    for request, prompt in enumerate(prompts):
        text = Decoder(pair, PlannedTree(TREE), sampling, verifier).generate(prompt, 30, *streams(pair, 1, request))
        starts = 1 + np.concatenate([[0], np.cumsum(np.array(text.accepted) + 1)[:-1]])
        counted += (starts < 30 - TREE.max_depth).sum()
        texts.append(text.tokens)
    forced = list(forced_texts(pair, prompts, texts, sampling, depths=3))
    assert isinstance(forced[0], st.TargetText)
    assert len(forced[0].q) == 3
    drawn = [Replays(forced, seed=s).replay(TREE, verifier, st.DrawRule.NO_REPLACEMENT) for s in range(4)]
    expected = np.array([one.cycles.sum() for one in drawn])
    variance = np.mean([one.variance.sum() for one in drawn]) + expected.var(ddof=1) / len(drawn)
    assert abs(counted - expected.mean()) <= 4.5 * np.sqrt(variance)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trace_of_a_head_has_ranks_by_depth(temperature: float, tmp_path: Path) -> None:
    pair, settings = small("eagle1"), replace(OF_HEADS, temperature=temperature)
    record_trace(pair, AFTER, settings, tmp_path)
    before = ranks(tmp_path)
    assert [text.shape for text in before] == [(4, 16)] * 5
    shallower = replace(settings, depths=3)
    refuses("another depths \\(4, here 3\\)|other depths", record_trace, pair, AFTER, shallower, tmp_path)
    record_trace(pair, AFTER, replace(settings, depths=1), tmp_path / "one")
    assert [text.shape for text in ranks(tmp_path / "one")] == [(16,)] * 5
    record_trace(pair, AFTER[:2], replace(settings, new_tokens=2, depths=8), tmp_path / "short")
    assert [text.shape for text in ranks(tmp_path / "short")] == [(8, 2)] * 2


def test_a_head_on_a_gpu_is_traced_as_on_the_host(tiny_folders: Path, tmp_path: Path) -> None:
    write_head(random_head(HeadConfig("eagle1", 64, 48, 300, 4, 2, 8)), tmp_path / "head", "eagle")
    found = []
    for device in ("cuda", "cpu"):
        with gpu() if device == "cuda" else nullcontext():
            pair = load_pair(tiny_folders / "target", tmp_path / "head", device=device, dtype=torch.float64)
            record_trace(pair, AFTER, replace(OF_HEADS, temperature=1.0), tmp_path / device)
        found.append(np.concatenate(ranks(tmp_path / device), 1))
    assert torch.cuda.is_available() or (found[0] == found[1]).all()
