"""Steps that get batches of contexts: planted faults found, right samplers passed, rows and ids read as documented.

Statistical tests name their error level; every seed is fixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import spectheory as st
from spectheory.certify import (
    Play,
    Processing,
    StepCertificate,
    Verdict,
    certify_in_worlds,
    certify_step,
    eagle_play,
    markov_world,
    processed,
    rows_of_indices,
    rows_of_probabilities,
    sglang_play,
    spread_ids,
    vllm_play,
)
from spectheory.certify.rows import drawn, padded
from spectheory.cli import app
from tests.samplers import BLOCK, Rejection, evaluate, tree_sampler

V = 4
WORLD = markov_world(V, 3)
TREE = st.Tree([-1, 0, 0, 1, 1, 2])
LARGE = 9_001
SMALL_LEVEL = {"alpha": 1e-2, "tv": 0.05, "cycles": 2}
"""A right step is called lossy with probability at most 1e-2; the seeds are fixed."""


def certified(play: Play, max_samples: int, **options: Any) -> StepCertificate:
    return certify_in_worlds([play], max_samples=max_samples, **{"tv": 0.05, **options})


@pytest.mark.parametrize(("batch", "verdict"), [(1, Verdict.UNDECIDED), (3, Verdict.UNDECIDED), (256, Verdict.WITHIN)])
@pytest.mark.parametrize("one_hot", [False, True])
def test_a_right_sampler_is_not_condemned(one_hot: bool, batch: int, verdict: Verdict) -> None:
    """WITHIN 0.05 at level 0.01 in two cycles: rows of different lengths, some without a draft.

    The small batches have fewer runs, too few for this verdict.
    """
    contexts = ((), (1, 2)) if batch > 1 else ((),)
    play = vllm_play(
        Rejection(), WORLD, vocab_size=V, depth=2, length=3, one_hot=one_hot, contexts=contexts, batch=batch
    )
    found = certified(play, 30_000 if batch > 3 else 200, **SMALL_LEVEL)
    assert found.verdict is verdict, found.lines()
    assert found.batch == batch
    assert not found.dependence
    assert not found.example


FAULTS = {
    "placeholder read as token": 2_000,
    "ragged rows mixed up": 2_000,
    "noise shared between rows": 5_000,
    "wrong offset": 2_000,
}
"""Each with the runs that it may take at level 1e-6."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    """LOSSY at level 1e-6, with a run that shows it."""
    play = vllm_play(Rejection(fault), WORLD, vocab_size=V, contexts=((), (1, 2)), batch=64, name="markov")
    found = certified(play, FAULTS[fault])
    print(fault, found.samples)
    assert found.verdict is Verdict.LOSSY
    assert found.worst is not None
    assert found.worst.world == "markov"
    said = "\n".join(found.lines())
    assert "a run that shows it in row" in said
    assert "before it, drafted" in said
    assert "there the target's distribution is (" in said
    json.dumps(found.to_json(), allow_nan=False)


def test_a_fault_in_the_second_block_of_ids_needs_spread_ids() -> None:
    """LOSSY at level 1e-6 with ids up to 9,000; with 4 ids the second block of 4,096 is never reached."""
    sample = Rejection("second block of ids")
    spread = vllm_play(sample, WORLD, vocab_size=V, depth=2, size=LARGE, batch=64)
    assert max(spread.ids or ()) == LARGE - 1 > BLOCK
    assert certified(spread, 5_000).verdict is Verdict.LOSSY
    dense = vllm_play(sample, WORLD, vocab_size=V, depth=2, length=3, batch=256)
    assert certified(dense, 20_000, **SMALL_LEVEL).verdict is Verdict.WITHIN


def plain(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two tokens of the target of `WORLD` for each context."""
    first = drawn(MATRIX[contexts[:, -1]], rng)
    return np.stack([first, drawn(MATRIX[first], rng)], axis=1)


MATRIX = np.array([*(WORLD.p((token,)) for token in range(V)), WORLD.p(())])
"""Row t is the target after token t, the last row at the start: -1 is the placeholder of an empty context."""


def shared(contexts: np.ndarray, rng: np.random.Generator, *, distance: int = 0) -> np.ndarray:
    """As `plain`, but each row has the numbers of the first row, or of a row some rows before it."""
    rows = np.arange(len(contexts))
    edges = np.cumsum(MATRIX, axis=1)
    coins = rng.random((len(rows), 2))[rows % distance if distance else 0 * rows]
    first = (coins[:, :1] >= edges[contexts[:, -1]]).sum(axis=1)
    return np.stack([first, (coins[:, 1:] >= edges[first]).sum(axis=1)], axis=1)


def in_batches(step: Any, most: int, **options: Any) -> StepCertificate:
    given = {"vocab_size": V, "batch": 64, "tv": 0.05, "length": 2, **options}
    return certify_step(step, WORLD.p, max_samples=most, **given)


@pytest.mark.parametrize("distance", [0, 1, 16])
def test_noise_shared_between_rows_is_found_and_named(distance: int) -> None:
    """LOSSY at level 1e-6, though each row alone is right."""
    found = in_batches(partial(shared, distance=distance), 3_000, contexts=((), (2,)))
    assert found.verdict is Verdict.LOSSY
    assert "rows of a batch depend on each other" in found.dependence
    assert "the first rows emitted" in found.example[0]
    single = in_batches(lambda context, rng: plain(np.array([context or (-1,)]), rng)[0], 8_000, batch=None, alpha=0.01)
    assert single.verdict is Verdict.WITHIN


@pytest.mark.parametrize("tests", [40, pytest.param(400, marks=pytest.mark.deep)])
def test_batches_keep_the_level(tests: int) -> None:
    """Right steps at alpha = 0.05: more alarms than the bound have probability at most 1e-4 (Binomial)."""
    found = [
        in_batches(plain, 1_000, alpha=0.05, tv=1e-3, batch=16 + seed, seed=seed, contexts=((), (2,)))
        for seed in range(tests)
    ]
    alarms = sum(one.verdict is Verdict.LOSSY for one in found)
    print("alarms", alarms, "of", tests)
    assert alarms <= binom.ppf(1 - 1e-4, tests, 0.05)


def test_a_batch_gives_the_runs_of_single_contexts_to_each_context() -> None:
    seen: list[np.ndarray] = []

    def step(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen.append(contexts)
        rows = plain(contexts, rng)
        return np.where([[False, True]] * (rng.random((len(rows), 1)) < 0.5), -1, rows)

    found = in_batches(step, 500, cycles=2, length=3, contexts=((), (2,), (1, 3)), batch=50)
    assert set(found.counts.values()) == {found.samples // 3}
    assert max(len(contexts) for contexts in seen) == 50
    (first, *_), widths = seen, {contexts.shape[1] for contexts in seen}
    assert {tuple(row) for row in first.tolist()} == {(-1, -1), (-1, 2), (1, 3)}
    assert widths == {2, 4}
    assert {tuple(row)[:2] for contexts in seen for row in contexts.tolist() if len(row) == 4} >= {(-1, -1), (1, 3)}


STOP = 2


def stops(contexts: np.ndarray, rng: np.random.Generator, *, bonus: bool) -> np.ndarray:
    """As `plain`; the token after a stop token is left out unless `bonus`."""
    rows = plain(contexts, rng)
    return rows if bonus else np.where((np.arange(2) == 1) & (rows[:, :1] == STOP), -1, rows)


@pytest.mark.parametrize("batch", [64, None])
def test_a_bonus_after_a_stop_token_is_found(batch: int | None) -> None:
    """The right step is WITHIN 0.05 at level 0.01; the other one is LOSSY after a few runs."""

    def run(bonus: bool) -> StepCertificate:
        step: Callable[..., Any] = partial(stops, bonus=bonus)
        if batch is None:
            of_batch = step
            step = lambda c, rng: [t for t in of_batch(np.array([c or (-1,)]), rng)[0].tolist() if t >= 0]  # noqa: E731
        return in_batches(step, 20_000, stop_tokens=(STOP,), batch=batch, cycles=2, length=3, alpha=0.01, tv=0.07)

    assert run(bonus=False).verdict is Verdict.WITHIN
    wrong = run(bonus=True)
    assert wrong.verdict is Verdict.LOSSY
    assert "a token after the stop token 2" in wrong.failure
    assert wrong.samples < 200


RAW = st.World.markov(np.array([[0.5, 0.3, 0.15, 0.05]] * V), np.array([[0.3, 0.4, 0.1, 0.2]] * V))
TOP_P = Processing(temperature=0.8, top_p=0.8)
DRAFT_TOO = processed(RAW, TOP_P, TOP_P)


def test_top_p_for_the_draft_only_is_found() -> None:
    """The sampler gets the target's unprocessed distributions. LOSSY at level 1e-6 if it leaves them as they are."""
    play = partial(vllm_play, world=DRAFT_TOO, given=RAW.p, vocab_size=V, depth=2, length=3, batch=128)
    assert certified(play(Rejection()), 1_000).verdict is Verdict.LOSSY
    assert certified(play(Rejection(processing=TOP_P)), 20_000, **SMALL_LEVEL).verdict is Verdict.WITHIN


@pytest.mark.parametrize(
    ("processing", "expected"),
    [
        (Processing(), [0.5, 0.3, 0.15, 0.05]),
        (Processing(temperature=0), [1, 0, 0, 0]),
        (Processing(temperature=0.5), np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365),
        (Processing(top_k=2), [0.625, 0.375, 0, 0]),
        (Processing(top_p=0.79), [0.625, 0.375, 0, 0]),
        (Processing(top_p=0.81), np.array([0.5, 0.3, 0.15, 0]) / 0.95),
        (Processing(min_p=0.3), np.array([0.5, 0.3, 0.15, 0]) / 0.95),
        (Processing(min_p=0.5, top_k=1), [1, 0, 0, 0]),
        (Processing(repetition=2), np.array([0.5, 0.09, 0.15, 0.05]) / 0.79),
        (Processing(presence=np.log(2)), np.array([0.5, 0.15, 0.15, 0.05]) / 0.85),
        (Processing(frequency=np.log(2)), np.array([0.5, 0.075, 0.15, 0.05]) / 0.775),
    ],
)
def test_processed_distributions(processing: Processing, expected: Any) -> None:
    """After the context (1, 1), by hand."""
    np.testing.assert_allclose(processing(np.array([0.5, 0.3, 0.15, 0.05]), (1, 1)), expected, rtol=1e-12, atol=0)


def test_trees_in_the_layout_of_sglang() -> None:
    """The right sampler is WITHIN 0.1 at level 0.01; the wrong ones are LOSSY at level 1e-6."""
    play = partial(sglang_play, world=WORLD, vocab_size=V, tree=TREE, length=3, batch=32)
    right = certified(play(tree_sampler, size=50), 4_000, alpha=0.01, tv=0.1)
    assert right.verdict is Verdict.WITHIN, right.lines()
    for fault in ("coin reused", "correction from p"):
        found = certified(play(partial(tree_sampler, fault=fault)), 12_000)
        print(fault, found.samples)
        assert found.verdict is Verdict.LOSSY


def test_trees_in_the_layout_of_eagle() -> None:
    """The right function is WITHIN 0.12 at level 0.01; the wrong one is LOSSY at level 1e-6."""
    play = partial(eagle_play, world=WORLD, vocab_size=V, tree=TREE, length=3)
    right = certified(play(evaluate, size=40), 3_000, alpha=0.01, tv=0.12)
    assert right.verdict is Verdict.WITHIN, right.lines()
    wrong = certified(play(partial(evaluate, fault="rejected token kept")), 2_000)
    assert wrong.verdict is Verdict.LOSSY
    assert "drafted below node 0 [" in wrong.lines()[-2]


def test_the_links_and_paths_of_a_tree() -> None:
    """All rows have the whole tree: the links of SGLang and the paths of EAGLE name its nodes."""
    seen: list[Any] = []

    def keep(x: Any, rng: np.random.Generator) -> Any:
        seen.append(x)
        raise ValueError("seen")

    certified(sglang_play(keep, WORLD, vocab_size=V, tree=TREE, ragged=False, batch=2), 64)
    certified(eagle_play(keep, WORLD, vocab_size=V, tree=TREE, contexts=((3,),)), 64)
    trees, paths = seen
    assert trees.retrieve_index.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert trees.retrieve_next_token[0].tolist() == [1, 3, 5, -1, -1, -1]
    assert trees.retrieve_next_sibling[0].tolist() == [-1, 2, -1, 4, -1, -1]
    assert paths.retrieve_indices.tolist() == [[0, 1, 3], [0, 1, 4], [0, 2, 5]]
    assert paths.candidates[:, 0].tolist() == [3, 3, 3]
    np.testing.assert_allclose(np.exp(paths.logits[0, 0]), WORLD.p((3,)), rtol=1e-6)


def test_rows_are_made_of_indices_and_of_probabilities() -> None:
    flat, own = np.array([5, 6, 7, 8]), np.array([[5, 6], [7, 8]])
    assert rows_of_indices(flat, [[0, 1], [2, -1]]).tolist() == [[5, 6], [7, -1]]
    assert rows_of_indices(own, [[0, 1], [1, -1]], last=[1, 2]).tolist() == [[5, 6, 1], [8, 2, -1]]
    hot = rows_of_probabilities(own, [0, 2], np.eye(3)[[2, 1]], np.random.default_rng(0))
    assert hot.tolist() == [[2, -1, -1], [7, 8, 1]]
    assert padded([[1, 2], [3]]).tolist() == [[1, 2], [3, -1]]


@pytest.mark.parametrize(
    ("rows", "verdict", "said"),
    [
        ([[1], [0, 3]], Verdict.UNDECIDED, ""),
        ([[1], [0, 4]], Verdict.LOSSY, "token 4, which does not exist"),
        (np.array([[1, -1], [-1, 2]]), Verdict.LOSSY, "row 1 has the placeholder -1 before the token 2"),
        (np.array([[1, -1], [-1, -1]]), Verdict.UNDECIDED, "row 1 emitted no token"),
        ([[1]], Verdict.UNDECIDED, "one row for each of 2 contexts, got 1"),
        (np.array([1, 2]), Verdict.UNDECIDED, r"array of shape (contexts, tokens)"),
        (np.array([[0.5], [1.0]]), Verdict.UNDECIDED, "tokens must be whole numbers"),
        (None, Verdict.UNDECIDED, "the step must return rows of tokens"),
    ],
)
def test_rows_that_cannot_be_read_are_named(rows: Any, verdict: Verdict, said: str) -> None:
    found = certify_step(lambda *_: rows, WORLD.p, vocab_size=V, batch=2, max_samples=2)
    assert found.verdict is verdict
    assert said in found.failure


def test_ids_are_translated_both_ways() -> None:
    ids = spread_ids(V, LARGE)
    assert ids == (0, 3_000, 6_000, 9_000)

    def step(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        tokens = np.where(contexts < 0, -1, contexts // 3_000)
        return plain(tokens, rng) * 3_000

    found = in_batches(step, 20_000, ids=ids, contexts=((), (1, 2)), cycles=2, length=3, alpha=0.01, tv=0.08)
    assert found.verdict is Verdict.WITHIN
    wrong = in_batches(lambda *_: np.full((64, 1), 5), 64, ids=ids)
    assert "emitted id 5, to which the target gives probability 0" in wrong.failure
    alone = certify_step(lambda c, rng: [7_000], WORLD.p, vocab_size=V, ids=ids)
    assert "emitted id 7000" in alone.failure


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"ids": (1, 2)}, "ids must be 4 different ids"),
        ({"ids": (1, 2, 3, 3)}, "ids must be 4 different ids"),
        ({"ids": (-1, 2, 3, 4)}, "ids must be between 0 and"),
        ({"stop_tokens": (4,)}, r"stop_tokens must be tokens from 0 to 3, got \[4\]"),
    ],
)
def test_bad_input_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(st.InputError, match=said):
        in_batches(plain, 100, **changed)


def test_what_raised_is_named_with_its_line() -> None:
    def step(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise ZeroDivisionError("by design")

    found = in_batches(step, 100)
    line = step.__code__.co_firstlineno + 1
    assert found.failure == f"the step raised ZeroDivisionError: by design in step, test_certify_batches.py line {line}"
    assert found.verdict is Verdict.UNDECIDED


def test_the_example_of_a_verifier_shows_draft_and_coins() -> None:
    def accepts_all(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        rng.random()
        return 1, rng.choice(V, p=p[1])

    found = certify_step(st.as_step(accepts_all, st.Levels((1,)), WORLD), WORLD.p, vocab_size=V)
    assert found.verdict is Verdict.LOSSY
    emitted, drafted, target = found.example
    assert emitted.startswith("a run that shows it emitted [")
    assert "random numbers 0." in emitted
    assert drafted.startswith("before it, after [] drew [")
    assert target.startswith("there the target's distribution is (")
    assert found.lines()[-3:] == [*found.example]


def test_the_mode_that_can_decide_is_named() -> None:
    undecided = in_batches(plain, 500)
    assert "certify_verifier decides without sampling" in undecided.lines()[-1]

    own = np.random.default_rng(0)

    def own_generator(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        return 0, int(own.integers(len(p[0])))

    exact = st.certify_verifier(own_generator, policies=[st.Levels((1,))], cases=5)
    assert exact.verdict is Verdict.UNDECIDED
    assert "the black-box test can decide: certify_step" in "\n".join(exact.lines())


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("PLAY", 1, "LOSSY"),
        ("OfBatches", 0, "in batches of 8"),
        ("WithoutLength", 2, "has a batch but no length: add the number of tokens to compare"),
    ],
)
def test_the_command_takes_batches(name: str, status: int, said: str) -> None:
    """The first is LOSSY at level 0.01, the second WITHIN 0.2 at level 0.01."""
    result = CliRunner().invoke(app, ["certify", f"tests.samplers:{name}", "--tv", "0.2", "--alpha", "0.01"])
    assert result.exit_code == status, result.output
    assert said in result.output
