"""What `explain` says about texts, against enumeration and against walks through small texts; and the command."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_check.replay.enumerated import decoded, drafts, random_world, text_of, texts
from reference.models import Pair
from reference.tracing import TraceSettings, record_trace
from spectheory.core.chance import branches
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.core.world import Levels, World
from spectheory.otlp import NSS, RRS, Naive, SpecTr
from spectheory.replay import ChainText, Explained, GreedyText, Replays, TargetText, explain
from spectheory.replay.explained import MOST_RANKS, RECENT, ranks_of
from spectheory.replay.shape import shape_of
from spectheory.replay.top_down import edges, passed_top_down
from spectheory.replay.traversal import passed_by_traversal
from spectheory.report.explained import explained_page, explained_rows, explained_words
from spectheory.results.tally import Tally
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier, name_of
from tests.command_line import Run, refused
from tests.replay.inputs import prompts
from tests.replay.test_replays import random_text, trees

NO_REPLACEMENT = DrawRule.NO_REPLACEMENT
UNEVEN = Tree([-1, 0, 0, 1])
RANKS = np.array([0, 1, 0, -1, 0, 0, 3, 1, 0, 0, 2, 0, 0, -1, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, -1, 0, 0, 0])
BUSHY = Tree([-1, 0, 0, 1, 1, 2, 3])


def ends_by_path(world: World, tokens: tuple[int, ...], tree: Tree, verifier: Verifier) -> dict[Any, Fraction]:
    """W of a cycle at the start of a text by the path of ranks at which it ends, over all drafts and coins."""
    found: defaultdict[Any, Fraction] = defaultdict(Fraction)
    for draft, chance in drafts(world, tree, NO_REPLACEMENT):
        outcome, paths = verifier.outcome(draft, world.target(draft)), [(), *draft.tree.to_paths()]
        for node, (stop, following) in enumerate(zip(outcome.stop, outcome.next_token, strict=True)):
            context = draft.context(node)
            if tokens[: len(context)] == context:
                target = np.prod([world.p(tokens[:place])[tokens[place]] for place in range(len(context) + 1)])
                found[paths[node]] += chance * stop * following[tokens[len(context)]] / target
    return found


@pytest.mark.parametrize("verifier", [TopDown(RRS()), Traversal()], ids=str)
def test_the_chance_to_keep_a_node_is_that_of_all_drafts_and_coins(verifier: Verifier) -> None:
    """By equality of Fractions, with the mean over everything that the sampler of siblings can draw."""
    world, shape = random_world(3, seed=1), shape_of(UNEVEN, NO_REPLACEMENT)
    paths = [(), *UNEVEN.to_paths()]

    def passed(text: TargetText, rng: object) -> np.ndarray:
        if isinstance(verifier, TopDown):
            solver = verifier.solver
            return passed_top_down(
                text, UNEVEN, shape, lambda k, depth: edges(text, solver, NO_REPLACEMENT, k, rng, depth=depth)
            )
        return passed_by_traversal(text, UNEVEN, shape, rng)

    for tokens in texts(3, 3):
        text, ends = text_of(world, tokens), ends_by_path(world, tokens, UNEVEN, verifier)
        rows = [chance * row for row, chance in branches(lambda rng, text=text: passed(text, rng)[0])]
        assert [sum(column) for column in zip(*rows, strict=True)] == [
            sum(chance for path, chance in ends.items() if path[: len(node)] == node) for node in paths
        ]


def test_depths_and_contexts_are_those_of_all_runs_of_the_decoder_that_give_the_text() -> None:
    """Block verification of a chain of 2 on a text of 4 tokens: expected counts over all runs, given the text."""
    world, length = random_world(2, seed=5), 4
    runs = decoded(world, length + 2, Levels((1, 1)), Block())
    for tokens in [(0, 1, 0, 1, 1, 0), (1, 1, 0, 0, 0, 1)]:
        kept, total = np.zeros(3), sum(chance for (text, _), chance in runs.items() if text == tokens)
        for (text, starts), chance in runs.items():
            for start, following in itertools.pairwise((*starts, len(text))):
                if text == tokens and start < length:
                    kept[following - start - 1] += float(chance / total)
        exact = text_of(world, tokens)
        text = TargetText(exact.tokens, exact.p.astype(float), exact.q.astype(float))
        found = explain(Replays([text], first=0), Tree.chain(2), Block())
        assert np.allclose(found.replayed.accepted, kept)
        assert np.allclose(found.reached, kept[::-1].cumsum()[::-1] / kept.sum())
        assert np.allclose(found.ended_by_miss, [*kept[:2] / kept.sum(), 0])
        assert np.allclose(found.ended_at_leaf, [0, 0, kept[2] / kept.sum()])
        assert np.isclose(sum(group.cycles for group in found.contexts), 1)
        assert np.isclose(sum(group.cycles * group.tau for group in found.contexts), found.replayed.tau)


def walked(ranks: list[int], tree: Tree, perfect: int | None = None) -> list[tuple[int, tuple[int, ...]]]:
    """(Start, path) of each whole cycle of greedy decoding, by a walk."""
    paths, found, position = {(), *tree.to_paths()}, [], 1
    while position + tree.max_depth < len(ranks):
        path: tuple[int, ...] = ()
        while True:
            below = (*path, 0 if len(path) == perfect else ranks[position + len(path)])
            if below not in paths:
                break
            path = below
        found.append((position, path))
        position += len(path) + 1
    return found


greedy_ranks = st.lists(st.integers(-1, 4), min_size=12, max_size=40)


@settings(deadline=None, max_examples=30)
@given(trees.filter(lambda tree: tree.budget > 0), greedy_ranks)
def test_greedy_losses_are_those_of_a_walk_through_the_text(tree: Tree, ranks: list[int]) -> None:
    found = explain(Replays([GreedyText(np.array(ranks))]), tree)
    cycles, paths = walked(ranks, tree), {(), *tree.to_paths()}
    missed, following = np.zeros((2, MOST_RANKS + 1)), np.zeros(tree.max_depth)
    for start, path in cycles:
        rank, leaf = ranks[start + len(path)], (*path, 0) not in paths
        missed[int(leaf), rank] += 1 / len(cycles)
        following[len(path) : len(path) + 1] += (not leaf and rank == sum(p[:-1] == path for p in paths if p)) / len(
            cycles
        )
    assert np.allclose(found.missed, missed)
    assert np.allclose(found.next_child, following)
    for depth, tau in enumerate(found.perfect):
        kept = [len(path) for _, path in walked(ranks, tree, depth)]
        assert np.isclose(tau, 1 + np.mean(kept))


@pytest.mark.parametrize("verifier", [TopDown(Naive()), TopDown(RRS()), Traversal(), Block()], ids=str)
def test_a_draft_without_misses_at_a_depth_predicts_what_the_target_predicts_there(verifier: Verifier) -> None:
    """The same siblings at depth 0, and q = p at depth 1."""
    text = random_text(3, n=30, depths=1)
    other = TargetText(text.tokens, text.p, np.array([text.q[0], text.p, text.q[0]]))
    tree = Tree.chain(2) if isinstance(verifier, Block) else Tree.k_ary(2, 2)
    rule = verifier.rules[0] if isinstance(verifier, Block) else NO_REPLACEMENT
    perfect = Replays([text], seed=4).replay(tree, verifier, rule, perfect=1)
    assert np.allclose(perfect.accepted, Replays([other], seed=4).replay(tree, verifier, rule).accepted)


@pytest.mark.parametrize(
    ("verifier", "rule"),
    [
        *((TopDown(solver), DrawRule.IID) for solver in (NSS(), RRS(), SpecTr())),
        *((Traversal(), rule) for rule in Traversal().rules),
        (TopDown(NSS()), DrawRule.TOP_K),
    ],
    ids=str,
)
def test_without_misses_at_the_root_every_cycle_of_a_tree_of_one_level_keeps_a_token(
    verifier: Verifier, rule: DrawRule
) -> None:
    found = Replays([random_text(5, n=6, depths=1)]).replay(Tree.k_ary(2, 1), verifier, rule, perfect=0)
    assert np.allclose(found.accepted, [0, found.cycles.sum()])


@pytest.mark.parametrize("tree", [Tree.chain(3), BUSHY], ids=repr)
def test_a_closer_draft_of_sampled_text_is_a_mixture(tree: Tree) -> None:
    text = random_text(2, n=30, depths=1)
    mixed = TargetText(text.tokens, text.p, 0.75 * text.q + 0.25 * text.p)
    rule = DrawRule.IID if tree.is_chain else NO_REPLACEMENT
    found, wanted = (
        Replays([one], seed=9).replay(tree, Traversal(), rule, closer=closer)
        for one, closer in ((text, 0.25), (mixed, 0.0))
    )
    assert found.to_dict() == wanted.to_dict()
    assert Replays([text]).replay(tree, Traversal(), rule, closer=1).tau == pytest.approx(tree.max_depth + 1)


@pytest.mark.parametrize("tree", [Tree.chain(3), BUSHY], ids=repr)
def test_a_closer_draft_of_greedy_text_is_a_mean_over_drafts(tree: Tree) -> None:
    """Every token is ranked first with probability 1/4, over all 2^12 ways."""
    ranks, closer = RANKS[:12], 0.25
    expected = Replays([GreedyText(ranks)]).replay(tree, Greedy(), closer=closer)
    emitted = cycles = 0.0
    for coins in itertools.product((False, True), repeat=len(ranks)):
        chance = closer ** sum(coins) * (1 - closer) ** (len(coins) - sum(coins))
        one = Replays([GreedyText(np.where(coins, 0, ranks))]).replay(tree, Greedy())
        emitted, cycles = emitted + chance * one.emitted[0], cycles + chance * one.cycles[0]
    assert np.allclose([expected.emitted[0], expected.cycles[0]], [emitted, cycles])


def test_the_context_of_a_cycle_is_what_single_drafts_kept_before() -> None:
    """Hits and misses in two halves: hard cycles start after misses."""
    ranks = np.array([-1] * 40 + [0] * 40)
    found = explain(Replays([GreedyText(ranks)]), Tree.chain(1))
    hard, easy = found.contexts[0], found.contexts[-1]
    assert (hard.lowest, easy.highest) == (0, 1)
    assert hard.tau < easy.tau == 2
    assert RECENT == 8
    assert sum(group.positions for group in found.contexts) == pytest.approx(1)


def test_other_choices_are_replayed_on_the_same_texts() -> None:
    replays = Replays([random_text(seed, n=40, depths=1) for seed in range(4)])
    found = explain(replays, Tree.chain(3), Block())
    by_change = {(choice.change, choice.verifier): choice for choice in found.what_if}
    deeper = by_change["one level more", "Block"]
    assert deeper.tau == replays.replay(Tree.chain(4), Block(), DrawRule.IID).tau
    assert deeper.difference == deeper.tau - found.replayed.tau
    same = by_change["another verifier", "Traversal"]
    assert abs(same.difference) < 1e-12 > abs(same.difference_high or 1)
    wider = by_change["one more child of the root", "Traversal"]
    assert wider.tau == replays.replay(Tree(wider.parent), Traversal(), NO_REPLACEMENT).tau
    assert sorted(Tree(wider.parent).to_paths()) == [(0,), (0, 0), (0, 0, 0), (1,)]
    assert ("another verifier", "Block") not in by_change


def test_the_interval_of_a_difference_is_that_of_the_jackknife() -> None:
    """Leaving out one text at a time; both are first-order, so they agree to a few percent."""
    every = [random_text(seed, n=60, depths=1) for seed in range(12)]
    found = explain(Replays(every), Tree.chain(2), Block())
    (choice,) = [one for one in found.what_if if one.change == "one level more"]
    gains = []
    for out in range(len(every)):
        rest = Replays(text for place, text in enumerate(every) if place != out)
        longer, shorter = (rest.replay(Tree.chain(length), Block(), DrawRule.IID).tau for length in (3, 2))
        gains.append(longer - shorter)
    from scipy.stats import t

    error = np.sqrt(11 * np.var(gains))
    assert choice.difference_high is not None
    assert choice.difference_high - choice.difference == pytest.approx(t.ppf(0.975, 11) * error, rel=0.1)


@pytest.mark.parametrize(
    ("replays", "tree", "left_out"),
    [
        (
            Replays([GreedyText(np.where(RANKS < 2, RANKS, -1), candidates=2)]),
            Tree.k_ary(2, 1),
            "one more child of the root",
        ),
        (Replays([GreedyText(RANKS[:8])]), Tree.chain(6), "one level more"),
        (Replays([ChainText(np.array([0, 2, 1, 0, 1, 0, 2, 1, 0]), 2)]), Tree.chain(2), "one level more"),
    ],
    ids=["too wide", "too deep", "not recorded"],
)
def test_what_the_texts_cannot_judge_is_left_out(replays: Replays, tree: Tree, left_out: str) -> None:
    assert left_out not in [choice.change for choice in explain(replays, tree).what_if]


def test_ranks_of_sampled_text_are_places_in_the_order_of_q() -> None:
    q = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [1.0, 0.0, 0.0]])
    text = TargetText(np.array([0, 0, 1, 1]), np.full((4, 3), 1 / 3), q)
    assert ranks_of(text).tolist() == [[2, 0, 1, -1]]


EXAMPLES: dict[str, Callable[[], Explained]] = {
    "greedy": lambda: explain(Replays([GreedyText(RANKS), GreedyText(RANKS[::-1])]), BUSHY),
    "sampled": lambda: explain(Replays([random_text(seed, n=30) for seed in range(3)]), BUSHY, Traversal()),
    "recorded": lambda: explain(Replays([ChainText(np.maximum(RANKS, 0) % 3, 2)]), Tree.chain(2)),
    "other rule": lambda: explain(Replays([random_text(1, n=8)]), Tree.k_ary(2, 1), TopDown(SpecTr())),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_record_comes_back_and_has_a_report(name: str, tmp_path: Path) -> None:
    found = EXAMPLES[name]()
    found.save(tmp_path / "explained.json")
    assert Explained.load(tmp_path / "explained.json").to_dict() == found.to_dict()
    assert f"tau {found.replayed.tau:.3f}" in explained_words(found)[0]
    assert np.isclose(found.reached.sum(), found.replayed.tau)
    assert np.isclose(found.kept_by_rank.sum(), found.replayed.tau - 1)
    assert explained_page("Why", found).count("<svg") == 3
    assert all(len(row) == len(table.header) for table in explained_rows(found) for row in table.rows)


def tally_like(found: Explained, **stamp: Any) -> Tally:
    """Whole cycles: as many requests as texts, one cycle each that keeps nothing."""
    ones = np.ones(len(found.replayed.cycles), int)
    return Tally(
        emitted=ones, cycles=ones, accepted_histogram=np.array([len(ones)]), provenance=Provenance("test", **stamp)
    )


def test_measured_requests_are_laid_beside_the_replayed_ones() -> None:
    replays = Replays([GreedyText(RANKS), GreedyText(RANKS[::-1])])
    tally = tally_like(explain(replays, BUSHY), tree=BUSHY.identity, verifier="Greedy(solver=ArgMax())")
    found = explain(replays, BUSHY, measured=tally)
    assert found.measured_tau is not None
    assert found.measured_tau.tolist() == [1, 1]
    assert "Measured: tau 1.000" in " ".join(explained_words(found))
    assert explained_rows(found)[-1].header[-1] == "measured"


TEXTS = Replays([GreedyText(RANKS), GreedyText(RANKS[::-1])])
SAMPLED = Replays([random_text(0), random_text(1)])
RECORDED = Replays([ChainText(np.array([0, 2, 1, 0, 1, 0, 2, 1, 0]), 2)])
ONE = Tally(emitted=np.array([1]), cycles=np.array([1]), accepted_histogram=np.array([1]))
REFUSED: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: explain(TEXTS, Tree.chain(0)), ("tree", "at least one drafted node", "root")),
    (lambda: explain(TEXTS, BUSHY, measured=ONE), ("measured", "each of the 2 texts", "got 1", "--skip")),
    (
        lambda: explain(TEXTS, BUSHY, measured=tally_like(explain(TEXTS, BUSHY), tree="other")),
        ("measured", "another tree", "that was decoded"),
    ),
    (
        lambda: explain(
            SAMPLED,
            Tree.chain(2),
            Block(),
            measured=tally_like(explain(SAMPLED, Tree.chain(2)), verifier="GreedyMultiPathBlock()"),
        ),
        ("measured", "by Block", "GreedyMultiPathBlock()"),
    ),
    (lambda: TEXTS.replay(BUSHY, Greedy(), closer=1.5), ("closer", "between 0", "1.5")),
    (lambda: TEXTS.replay(BUSHY, Greedy(), perfect=3), ("perfect", "depth", "got 3")),
    (lambda: SAMPLED.replay(Levels((2,)), TopDown(Naive()), perfect=0), ("perfect", "static tree")),
    (lambda: RECORDED.replay(Tree.chain(2), Greedy(), closer=0.5), ("ranks or probabilities", "recorded lengths")),
    (lambda: ranks_of(RECORDED.texts[0]), ("text", "recorded lengths")),
]


@pytest.mark.parametrize(("call", "named"), REFUSED)
def test_bad_input_is_refused_with_its_name_and_value(call: Callable[[], Any], named: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert all(word in str(error.value) for word in named), error.value


@pytest.fixture
def records(tmp_path: Path) -> Path:
    file = tmp_path / "records.jsonl"
    rows = [[1, 3, 2, 1, 1, 2, 1, 4, 3, 2, 1, 1], [2, 1, 1, 1, 3, 2, 1, 1, 1, 1]]
    file.write_text("".join(json.dumps({"acc_eagle": {"acc_len": row}}) + "\n" for row in rows))
    return file


def test_the_command_explains_recorded_lengths(run: Run, records: Path) -> None:
    shown = run("explain", records)
    assert shown.exit_code == 0, shown.output
    assert "on 2 texts: chain of 3." in shown.stdout
    assert "one level less" in shown.stdout
    data = json.loads(run("explain", records, "--json").stdout)
    assert Explained.from_dict(data).tree == Tree.chain(3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_command_explains_a_trace(tiny: Pair, run: Run, tmp_path: Path, temperature: float) -> None:
    record_trace(tiny, prompts(3), TraceSettings("random", temperature=temperature, new_tokens=20), tmp_path / "trace")
    plan = {"tree": [-1, 0, 0, 1], "verifier": "Traversal" if temperature else "Greedy", "rule": "NO_REPLACEMENT"}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    arguments = "explain", tmp_path / "trace", "--tree", tmp_path / "plan.json"
    shown = run(*arguments, "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    found = Explained.load(tmp_path / "out" / "explained.json")
    assert (found.verifier, found.tree) == (plan["verifier"], Tree(plan["tree"]))
    made = {"explained.json", "index.html", "depths.svg", "choices.svg", "requests.svg"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == made
    assert all(choice.verifier in shown.stdout for choice in found.what_if if choice.verifier)
    if temperature:
        named = json.loads(run(*arguments, "--verifier", "RRS", "--json").stdout)
        assert named["verifier"] == name_of(TopDown(RRS()))
    else:
        refused(run(*arguments, "--verifier", "RRS"), "--verifier must be left out for greedy text")
