"""Tests of the selector of delayed trees: labels, objective, training, comparison, and the decode loop."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from math import log
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
from examples.certify_decoder import few_tokens
from reference.decode import Decoder
from reference.judge import HeldOutTexts
from reference.models import DRAFT, Pair, load_pair
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.selector import (
    ActionSpace,
    Labels,
    Selected,
    Selector,
    compare_selectors,
    selector_labels,
    train_selector,
)
from reference.selector.comparison import (
    CROSS,
    NAIVE,
    OTHER,
    PLAIN,
    ROOTED,
    SAME,
    SELECTOR,
    SelectorComparison,
    best_by_root,
)
from reference.selector.network import SCALARS, SelectorNetwork, objective
from reference.selector.trees import best_static
from spectheory.certify import certify_step
from spectheory.otlp import GreedyTopK, SpecInfer
from spectheory.verify import TopDown
from tests.helpers import refuses

SPACE = ActionSpace(paths=2, trunk=1, length=2)
SAMPLING = Sampling(0.8)
LATENCY = st.Latency(
    np.array([1, 9]), np.array([0, 100]), np.array([[5.0, 7], [6, 9]]), np.array([[0.3, 0.4], [0.4, 0.6]])
)
PROMPT = [0, 1, 2, 3, 2, 0]


@cache
def pair() -> Pair:
    """The shipped pair on four tokens and two layers of the target."""
    whole = load_pair(draft=DRAFT)
    return few_tokens(whole, [whole.tokenizer.encode(word)[0] for word in ("n", "-", " is", "#")], 2)


@cache
def texts(count: int = 12, seed: int = 0) -> HeldOutTexts:
    rng = np.random.default_rng(seed)
    prompts = [[*rng.integers(4, size=5).tolist(), seed] for _ in range(count)]
    decoder = Decoder(pair(), Selected(selector()), SAMPLING, TopDown(SpecInfer()), stop_tokens=())
    found = [decoder.generate(one, 9, *streams(pair(), i)).tokens for i, one in enumerate(prompts)]
    return HeldOutTexts(pair(), prompts, found, SAMPLING)


@cache
def selector(seed: int = 5, spread: float = 3.0) -> Selector:
    """A network of random weights, whose choices differ from root to root."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        target, draft = (int(model.config.hidden_size) for model in (pair().target, pair().draft))  # type: ignore[arg-type]
        network = SelectorNetwork(target, draft, len(SPACE.trees)).eval().requires_grad_(False)
        for weight in network.parameters():
            weight.add_(spread * torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    ones = torch.ones(SCALARS)
    nothing: Any = None
    known = Labels(SPACE, SAMPLING, "SpecInfer", np.array(["0"]), nothing, nothing, pair().fingerprint)
    return Selector(known, LATENCY, ones, ones, network)


@pytest.fixture(scope="module")
def labels() -> Labels:
    return selector_labels(texts(), every=4, draws=2, space=SPACE)


def other_prompts(labels: Labels) -> Labels:
    """The labels as if they were of other prompts."""
    return replace(labels, prompts=np.array([f"other {prompt}" for prompt in labels.prompts]))


@torch.inference_mode()
def plain_rows(role: str, tokens: list[int]) -> np.ndarray:
    """The distribution after the last token, from a forward without a cache."""
    return SAMPLING.distribution(getattr(pair(), role)(torch.tensor([tokens])).logits[0, -1]).double().numpy()


def test_labels_have_the_mean_of_eq_3_in_the_models_own_world() -> None:
    """With 150 draws the mean of each label is within 5 standard errors of the exact one: error level below 1e-4."""
    one = HeldOutTexts(pair(), texts().prompts[:2], [texts().texts[0][:4], texts().texts[1][:3]], SAMPLING)
    found = selector_labels(one, every=4, draws=150, space=SPACE)
    assert found.prompts.tolist() == one.hashes[:1], "the second text is too short for a root"
    text = [*one.prompts[0], *one.texts[0]]
    rows = {
        context: (plain_rows("target", [*text, *context]), plain_rows("draft", [*text, *context]))
        for length in range(3)
        for context in itertools.product(range(4), repeat=length)
    }
    world = st.World.table(rows)
    for tree, values in zip(SPACE.trees, found.tokens[0].T, strict=True):
        exact = st.yields.delayed_block_efficiency(SpecInfer(), world, tree.paths, tree.length, tree.trunk).value
        error = values.std(ddof=1) / 150**0.5
        assert abs(values.mean() - exact) < 5 * error + 1e-5, tree


def test_features_are_of_the_root_and_the_token_before(labels: Labels) -> None:
    assert labels.contexts.tolist() == [13, 9] * 12
    tokens = [*texts().prompts[0], *texts().texts[0]]
    p, q = (plain_rows(role, tokens[:9]) for role in ("target", "draft"))
    there = plain_rows("draft", tokens[:10])
    expected = [-(row @ np.log(row)) for row in (p, q, there)]
    expected += [p @ np.log(p / q), q @ np.log(q / p), abs(p - q).sum(), 9]
    assert labels.features.scalars[1].tolist() == pytest.approx(expected, rel=1e-4)
    with torch.inference_mode():
        model: Any = pair().draft
        states = model(torch.tensor([tokens]), output_hidden_states=True).hidden_states[-1][0]
    torch.testing.assert_close(labels.features.draft[1], states[8], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(labels.features.root[1], states[9], rtol=1e-4, atol=1e-5)


def test_the_objective_by_hand() -> None:
    logits = torch.tensor([[log(3.0), 0.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[2.0, 4.0], [1.0, 2.0]], dtype=torch.float64)
    seconds = torch.tensor([[1.0, 3.0], [1.0, 1.0]], dtype=torch.float64)
    base = torch.tensor([2.0, 1.0], dtype=torch.float64)
    mean = -(log(2.5 / 1.5 / 2) + log(1.5)) / 2
    assert objective(logits, tokens, seconds, base, 3.0, 0.5).item() == pytest.approx(mean + 3 * (1 / 6) ** 2)
    assert objective(logits, tokens, seconds, base, 3.0, 1.0).item() == pytest.approx(mean + 3 * (1 / 6) ** 2 / 2)
    assert torch.autograd.gradcheck(lambda z: objective(z, tokens, seconds, base, 3.0, 0.5), (logits,))


def test_the_best_trees_by_root_have_the_highest_ratio_of_sums() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        tokens, seconds = rng.uniform(1, 4, (4, 3)), rng.uniform(1, 3, (4, 3))
        ratios = {
            chosen: tokens[range(4), chosen].sum() / seconds[range(4), chosen].sum()
            for chosen in itertools.product(range(3), repeat=4)
        }
        assert tuple(best_by_root(tokens, seconds).tolist()) == max(ratios, key=lambda chosen: ratios[chosen])
        assert best_static(tokens, seconds) == max(range(3), key=lambda tree: ratios[(tree,) * 4])


def test_training_learns_which_tree_is_best_where_a_feature_says_so(labels: Labels) -> None:
    """Half of the roots are marked by their state and gain from the deepest chain, the others from no draft."""
    marked = np.arange(len(labels.prompts)) % 2 == 0
    deep = SPACE.trees.index(SPACE.trees[3])
    tokens = np.ones((len(marked), 2, len(SPACE.trees)), np.float32)
    tokens[marked, :, deep] = 4
    states = torch.zeros_like(labels.features.target)
    states[:, 0] = torch.from_numpy(np.where(marked, 5.0, -5.0))
    easy = replace(labels, tokens=tokens, features=replace(labels.features, target=states))
    trained = train_selector(easy, LATENCY, steps=60, rate=0.01)
    chosen = trained.chosen(easy.features).numpy()
    assert (chosen == np.where(marked, deep, 0)).all()


def comparison(labels: Labels, *selectors: Selector) -> SelectorComparison:
    return compare_selectors(selectors or (selector(), selector(1)), labels, other_prompts(labels))


def test_the_comparison_sums_tokens_and_seconds_by_prompt(labels: Labels) -> None:
    found = comparison(labels)
    assert list(found.runs) == [PLAIN, ROOTED, SAME, OTHER, SELECTOR, NAIVE, CROSS]
    tokens = labels.tokens.astype(float)
    seconds = SPACE.seconds(LATENCY, labels.contexts)
    assert found.throughput(PLAIN) == pytest.approx(len(seconds) / seconds[:, 0].sum())
    roots = np.arange(len(seconds))
    mean = []
    for one in (selector(), selector(1)):
        chosen = one.chosen(labels.features).numpy()
        mean.append(tokens.mean(1)[roots, chosen].sum() / seconds[roots, chosen].sum())
    assert found.throughput(SELECTOR) == pytest.approx(np.mean(mean), rel=1e-6)
    static = max((tokens.mean(1).sum(0) / seconds.sum(0)).tolist())
    assert found.throughput(SAME) == pytest.approx(static, rel=1e-6)
    flat = [place for place, tree in enumerate(SPACE.trees) if tree.trunk == 0 and tree.length < 3]
    best = max((tokens.mean(1).sum(0) / seconds.sum(0))[flat].tolist())
    assert found.throughput(ROOTED) == pytest.approx(best, rel=1e-6)
    assert found.difference(SAME, OTHER).percent == 0, "the other text is the same text under other names"
    assert [row[0] for row in found.table().rows] == list(found.runs)
    picked = [best_by_root(tokens[:, other], seconds) for other in (1, 0)]
    judged = {
        NAIVE: [tokens[roots, other, chosen].sum() for other, chosen in zip((1, 0), picked, strict=True)],
        CROSS: [tokens[roots, own, chosen].sum() for own, chosen in zip((0, 1), picked, strict=True)],
    }
    time = np.mean([seconds[roots, chosen].sum() for chosen in picked])
    for name, sums in judged.items():
        assert found.throughput(name) == pytest.approx(np.mean(sums) / time, rel=1e-6)


@pytest.mark.parametrize("runs", [100, pytest.param(3000, marks=pytest.mark.deep)])
def test_a_selected_tree_keeps_the_targets_distribution(runs: int) -> None:
    """Texts of 3 tokens are closer to the target's than 8 / runs^0.5 in total variation: level 1e-3 by betting."""
    decoder = Decoder(pair(), Selected(selector()), SAMPLING, TopDown(SpecInfer()), stop_tokens=())
    draft_rng = streams(pair(), 5)[0]
    known = cache(lambda context: plain_rows("target", [*PROMPT, *context]))
    found = certify_step(
        lambda context, rng: decoder.generate([*PROMPT, *context], 3, draft_rng, rng).tokens,
        lambda context: known(tuple(context)),
        subject="selected trees", length=3, vocab_size=4, alpha=1e-3, tv=1e-3, max_samples=runs, seed=0,
    )  # fmt: skip
    assert found.verdict is not st.Verdict.LOSSY
    assert found.tv_bound < 8 / runs**0.5


def test_a_selector_of_another_pair_sampling_or_verifier_is_refused() -> None:
    other = replace(selector(), labels=replace(selector().labels, weights="abc"))
    refuses("pair of weights abc", Selected(other).start, pair(), SAMPLING)
    refuses("temperature 0 draws nothing", Selected(selector()).start, pair(), Sampling(0.0))
    refuses("not temperature 1 and top-p 0.9", Selected(selector()).start, pair(), Sampling(1.0, top_p=0.9))
    refuses("not lossless for IID", Decoder, pair(), Selected(selector()), SAMPLING, TopDown(GreedyTopK()))
