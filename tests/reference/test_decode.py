from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Generator
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from reference.candidates import child_tokens
from reference.decode import Cycle, Decoder
from reference.drafters import Drafter, Drawn, PlannedTree, Searched
from reference.drafters.dynamic import Search
from reference.host_arrays import numpy_on_host, to_host
from reference.models import Pair
from reference.random_streams import Uniforms, streams
from reference.sampling import Sampling
from spectheory import Acceptance, Draft, DrawRule, Tree, best_tree
from spectheory.core.chance import branches
from spectheory.core.world import DrawPolicy, Levels, Paths
from spectheory.otlp import RRS, Naive, SpecTr
from spectheory.search import Eagle2, OptTree, Salf, SpecExec
from spectheory.verify import Block, GreedyMultiPathBlock, TopDown
from tests.helpers import refuses
from tests.reference.sampled_text import generated

APART = DrawRule.IID_APART
TREES = [
    Tree.chain(0),
    Tree.chain(1),
    Tree.chain(5),
    Tree.k_ary(3, 3),
    Tree.from_paths([(0,), (1,), (2,), (0, 0), (1, 0), (1, 1), (1, 1, 0), (1, 1, 1), (2, 0), (2, 0, 0)]),
    Tree([-1, 0, 1, 0, 2, 3, 3, 4, 6]),
    best_tree(Acceptance.by_rank([0.65, 0.12, 0.06, 0.03]), 20),
]


def uniforms(seed: int) -> Uniforms:
    return Uniforms(Generator().manual_seed(seed))


WAYS = {True: "host", False: "device"}


@pytest.fixture(params=WAYS, ids=WAYS.get)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NumPy and compiled loops, and as on a device, on what is at hand."""
    monkeypatch.setattr(torch.Tensor, "is_cpu", request.param)


def one_way(cases: Sequence[object]) -> list[Any]:
    """Each case on the host or as on a device, in turn; deep, both ways."""
    return [
        pytest.param(way, case, marks=[pytest.mark.deep] if way == number % 2 else [], id=f"{WAYS[way]}-{case}")
        for way in (True, False)
        for number, case in enumerate(cases)
    ]


def trees(max_nodes: int = 12) -> st.SearchStrategy[Tree]:
    return st.integers(0, max_nodes).flatmap(
        lambda n: st.tuples(*(st.integers(0, u) for u in range(n))).map(lambda parents: Tree([-1, *parents]))
    )


@pytest.fixture(scope="module")
def greedy_texts(tiny: Pair) -> list[tuple[list[int], list[int]]]:
    """Prompts with the 20 tokens of transformers' generate, computed once for all trees."""
    return [(prompt, generated(tiny, prompt, 20)) for prompt in ([7], list(range(20, 50)), [3, 3, 200, 41])]


@pytest.mark.parametrize(("way", "tree"), one_way(TREES), indirect=["way"])
@pytest.mark.usefixtures("way")
def test_greedy_text_is_generates(tiny: Pair, greedy_texts: list[tuple[list[int], list[int]]], tree: Tree) -> None:
    for prompt, wanted in greedy_texts:
        assert Decoder(tiny, PlannedTree(tree)).generate(prompt, 20).tokens == wanted


@given(trees())
@settings(max_examples=15, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("way", "sampling"), one_way([Sampling(1.0), Sampling(1.0, top_k=2), Sampling(0.3, top_p=0.7)]), indirect=["way"]
)
def test_the_drafts_distribution_is_that_of_the_path(tiny: Pair, sampling: Sampling, tree: Tree) -> None:
    assert_the_drafts_distribution_is_that_of_the_path(tiny, PlannedTree(tree), sampling)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0)], ids=["greedy", "sampled"])
def test_a_planned_tree_is_cut_where_there_is_no_more_room(tiny: Pair, sampling: Sampling) -> None:
    tree = Tree([-1, 0, 0, 1, 1, 2, 5])
    with torch.inference_mode():
        drafting = PlannedTree(tree).start(tiny, sampling)
        drafting.read([9, 8, 7], torch.empty(0))
        drafting.commit([], [6])
        for room in (3, 2, 4, 1):
            draft = drafting.grow(room, uniforms(0))
            assert draft.tree.parent.tolist() == tree.parent[tree.depth <= room].tolist()
            assert len(draft.tokens) == len(draft.q) == draft.tree.budget + 1
            assert min(draft.tokens.tolist()) >= 0
            drafting.commit([], [6])


@pytest.mark.parametrize(
    "policy", [Levels((2, 2, 1)), Paths(3, 3), Paths(3, 2, trunk=2), Levels((3, 2), APART)], ids=repr
)
def test_the_distribution_of_a_drawn_draft_is_that_of_the_path(tiny: Pair, policy: DrawPolicy) -> None:
    assert_the_drafts_distribution_is_that_of_the_path(tiny, Drawn(policy))


def assert_the_drafts_distribution_is_that_of_the_path(
    pair: Pair,
    drafter: Drafter,
    sampling: Sampling = Sampling(1.0),  # noqa: B008
) -> None:
    """The distribution from which children were drawn is the draft's own after that path, cycle after cycle."""
    text = [9, 8, 7, 6]
    rng = np.random.default_rng(0)
    with torch.inference_mode():
        drafting = drafter.start(pair, sampling)
        drafting.read(text[:-1], torch.empty(0))
        drafting.commit([], text[-1:])
        for seed in range(3):
            draft = drafting.grow(1000, uniforms(seed))
            tokens = [int(token) for token in draft.tokens]
            assert tokens[0] == text[-1]
            paths = [[tokens[u] for u in np.flatnonzero(seen)] for seen in draft.tree.ancestor_mask()]
            there = [node for node, path in enumerate(paths) if min(path) >= 0]
            inner = np.intersect1d(draft.tree.parent[1:], there)
            logits = after_each(pair.draft, [text[:-1] + paths[node] for node in inner])
            for node, alone in zip(inner, logits, strict=True):
                wanted = sampling.distribution(alone.float())
                torch.testing.assert_close(torch.as_tensor(draft.q[node]), wanted, atol=1e-5, rtol=1e-4)
            end = int(rng.choice(there))
            path = [int(u) for u in np.flatnonzero(draft.tree.ancestor_mask()[end])][1:]
            emitted = [tokens[u] for u in path] + [int(rng.integers(300))]
            drafting.commit(path, emitted)
            text = text + emitted


def after_each(model: Any, texts: list[list[int]]) -> list[torch.Tensor]:
    """The logits after each of the texts, from one forward; what fills a row up comes after its text."""
    if not texts:
        return []
    longest = max(map(len, texts))
    logits = model(torch.tensor([text + [0] * (longest - len(text)) for text in texts])).logits
    return [row[len(text) - 1] for row, text in zip(logits, texts, strict=True)]


def test_a_prompt_that_does_not_fit_is_refused(tiny: Pair) -> None:
    decoder = Decoder(tiny, PlannedTree(Tree.chain(5)))
    refuses("need a context of 1025, these models have 1024: shorten the prompt", decoder.generate, [1] * 968, 57)
    refuses("need a prompt and new_tokens >= 1, got 0 prompt tokens", decoder.generate, [], 56)
    with pytest.raises(ValueError, match="sampling needs draft_rng, a torch.Generator, and rng, a numpy"):
        Decoder(tiny, PlannedTree(Tree.chain(5)), Sampling(1.0)).generate([1], 4)


@pytest.mark.parametrize(
    ("way", "search"),
    one_way([Eagle2(4, 5, 24), OptTree(12, 0.2), SpecExec(24, 4), Salf(24, 0.6, 4), SpecExec(1)]),
    indirect=["way"],
)
@pytest.mark.usefixtures("way")
def test_greedy_text_is_generates_for_any_search(tiny: Pair, search: Search) -> None:
    for prompt in ([7], list(range(20, 50))):
        assert Decoder(tiny, Searched(search)).generate(prompt, 20).tokens == generated(tiny, prompt, 20)


def test_a_verifier_for_other_drafts_is_refused(tiny: Pair) -> None:
    with pytest.raises(ValueError, match=r"SpecTr.* does not suit PlannedTree.* not lossless for NO_REPLACEMENT"):
        Decoder(tiny, PlannedTree(Tree.k_ary(2, 2)), Sampling(1.0), TopDown(SpecTr()))
    with pytest.raises(ValueError, match=r"Naive.* does not suit Searched.* not lossless for TOP_K"):
        Decoder(tiny, Searched(SpecExec(8)), Sampling(1.0), TopDown(Naive()))
    for drafter in (Drawn(Levels((2, 1))), Drawn(Levels((2, 2)))):
        with pytest.raises(ValueError, match="it verifies independent paths of one length only"):
            Decoder(tiny, drafter, Sampling(1.0), GreedyMultiPathBlock())
    for drafter in (Drawn(Levels((2, 1), APART)), PlannedTree(Tree.k_ary(2, 2))):
        refuses("it verifies chains only", Decoder, tiny, drafter, Sampling(1.0), Block())
    for drafter in (Drawn(Levels((1, 1))), Drawn(Paths(1, 2)), PlannedTree(Tree.chain(2))):
        Decoder(tiny, drafter, Sampling(1.0), Block()).generate([1], 8, *streams(tiny, 0))
    refuses("temperature 0 draws nothing: use a PlannedTree", Decoder(tiny, Drawn(Paths(2, 2))).generate, [1], 3)


def test_a_node_solver_is_no_verifier(tiny: Pair) -> None:
    for sampling in (Sampling(), Sampling(0.7)):
        with pytest.raises(ValueError, match=r"solves one node, not a tree: wrap it: TopDown\(RRS\(\)\)"):
            Decoder(tiny, PlannedTree(Tree.k_ary(2, 2)), sampling, RRS())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (
            [1, 300],
            r"prompt\[1\] is 300: token ids are whole numbers from 0 to 299, encode the prompt with this pair's",
        ),
        (torch.tensor([1, 2]), r"prompt must be a list of token ids, got a Tensor: pass prompt.tolist\(\)"),
        ({"input_ids": [1]}, "got a dict: .* what the tokenizer gives as 'input_ids'"),
    ],
)
def test_a_prompt_that_is_no_list_of_tokens_is_refused(tiny: Pair, prompt: list[int], message: str) -> None:
    refuses(message, Decoder(tiny, PlannedTree(Tree.chain(2))).generate, prompt, 5)


@cache
def chances(rule: DrawRule, q: tuple[float, ...], k: int) -> dict[tuple[int, ...], float]:
    """The probability of each sequence of drafts, by the rule itself."""
    law, found = np.array([Fraction(str(x)) for x in q]), defaultdict[tuple[int, ...], float](float)
    for tokens, chance in branches(lambda rng: tuple(rule.children(law, k, rng))):
        found[tokens] += float(chance)
    return found


@pytest.mark.parametrize("rule", DrawRule)
@pytest.mark.parametrize("q", [(0.6, 0.25, 0.15, 0.0), (0.4, 0.4, 0.1, 0.1), (0, 0, 0, 1.0)])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.usefixtures("way")
def test_candidates_are_drawn_as_the_rule_says(rule: DrawRule, q: tuple[float, ...], k: int) -> None:
    """Chi-square of the ordered draws against the exact `DrawRule.children`; level 1e-6 a case, fixed seed."""
    if k > 2 and rule is DrawRule.HUB:
        return
    rows = 20_000
    expected = {tokens: rows * chance for tokens, chance in chances(rule, q, k).items()}
    drawn = child_tokens(numpy_on_host(torch.tensor(q).expand(rows, 4)), k, rule, uniforms(3))
    assert drawn.shape == (rows, k)
    counts = dict.fromkeys(expected, 0)
    places = 5 ** np.arange(k)
    for number, count in enumerate(np.bincount((to_host(drawn) + 1) @ places).tolist()):
        if count:
            counts[tuple(token for token in (number // places % 5 - 1).tolist() if token >= 0)] += count
    statistic = sum((counts[tokens] - mean) ** 2 / mean for tokens, mean in expected.items())
    assert statistic <= chi2.ppf(1 - 1e-6, max(1, len(expected) - 1))


@pytest.mark.usefixtures("way")
def test_tokens_that_cannot_be_drawn_end_a_row() -> None:
    q = numpy_on_host(torch.tensor([[0.5, 0.0, 0.5, 0.0]]))
    for rule in (DrawRule.NO_REPLACEMENT, DrawRule.TOP_K, DrawRule.TOP_K_THEN_ONE):
        drawn = child_tokens(q, 3, rule, uniforms(0))[0].tolist()
        assert sorted(drawn[:2]) == [0, 2]
        assert drawn[2] == -1
    for law in ([1.0, 0.0], [0.0, 1.0]):
        hub = child_tokens(numpy_on_host(torch.tensor([law])), 2, DrawRule.HUB, uniforms(0))
        assert hub.tolist() == [[law.index(1), -1]]
    refuses("k must be at most 2 for HUB, got 3", child_tokens, q, 3, DrawRule.HUB, None)


@pytest.mark.usefixtures("way")
def test_a_rare_tail_of_a_large_vocabulary_is_drawn_as_often_as_it_is_probable() -> None:
    """100,000 tokens share 10% of the probability: binomial, 4.5 standard errors, level 3e-5, fixed seed."""
    q, rows = torch.full((1, 100_000), 0.1 / 99_999), 400
    q[0, 0] = 0.9
    rng = uniforms(0)
    laws = numpy_on_host(q.expand(10, -1))
    tail = sum(int((child_tokens(laws, 2, DrawRule.NO_REPLACEMENT, rng)[:, 0] != 0).sum()) for _ in range(40))
    assert abs(tail - 0.1 * rows) < 4.5 * np.sqrt(0.1 * 0.9 * rows)


@pytest.mark.parametrize(
    "sampling", [Sampling(0.7), Sampling(1.3, top_k=5), Sampling(0.6, 20, 0.9), Sampling(1, None, 0.5)]
)
def test_the_distribution_is_that_of_transformers_processors(sampling: Sampling) -> None:
    logits = 3 * torch.randn(50, 40, generator=Generator().manual_seed(0))
    warpers = (
        TemperatureLogitsWarper(float(sampling.temperature)),
        TopKLogitsWarper(sampling.top_k or 40),
        TopPLogitsWarper(sampling.top_p),
    )
    scores = logits
    for warper in warpers:
        scores = warper(torch.empty(0), scores)  # type: ignore[arg-type]
    torch.testing.assert_close(sampling.distribution(logits), scores.softmax(-1), atol=1e-7, rtol=1e-5)


def test_sampling_that_cannot_be_is_refused() -> None:
    for bad in (-1.0, 1e-42, float("inf"), float("nan")):
        refuses("temperature must be 0 .greedy. or at least 0.001, got", Sampling, bad)
    refuses("top_k must be a whole number of at least 1, or None for all tokens, got 0", Sampling, 1.0, top_k=0)
    refuses(r"top_k must be a whole number .*, got 2\.5", Sampling, 1.0, top_k=2.5)
    refuses("top_p must be above 0 and at most 1, got 0", Sampling, 1.0, top_p=0)


def test_a_node_without_a_token_left_is_left_out(tiny: Pair) -> None:
    """top_k 2 leaves two tokens at a node, the tree wants three children: each cycle drafts a smaller tree."""
    sampling, sizes = Sampling(1.0, top_k=2), set()
    decoder = Decoder(tiny, PlannedTree(Tree.k_ary(3, 2)), sampling, TopDown(RRS()))

    def look(cycle: Cycle) -> None:
        sizes.add(cycle.draft.tree.budget)
        Draft(cycle.draft.tree, cycle.draft.tokens, cycle.draft.q, cycle.draft.draws, cycle.draft.rule)
        for node, drawn in enumerate(cycle.draft.draws):
            assert all(cycle.draft.q[node][cycle.draft.tokens[child]] > 0 for child in drawn)

    decoder.generate([5, 6, 7], 60, *streams(tiny, 0), watch=look)
    assert sizes == {6}
