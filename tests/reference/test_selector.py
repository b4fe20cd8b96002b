"""Tests of the selector of delayed trees: labels, objective, training, choices and comparison."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
from examples.certify_decoder import few_tokens
from reference.decode import Decoder
from reference.judging import HeldOutTexts
from reference.models import DRAFT, Pair, load_pair
from reference.part_files import ForeignFolderError
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.selector import (
    ActionSpace,
    Labels,
    LabelSettings,
    Selected,
    Selector,
    SelectorCard,
    SelectorComparison,
    SelectorTraining,
    evaluate_selector,
    read_labels,
    train_selector,
    write_labels,
)
from reference.selector.choices import best_by_root, best_static
from reference.selector.evaluation import CROSS, NAIVE, OTHER, PLAIN, ROOTED, SAME, SELECTOR
from reference.selector.features import SCALARS, known_scalars
from reference.selector.network import objective, throughput
from reference.selector.pair_facts import PairFacts
from reference.selector.selector import network_of
from spectheory.core.errors import InputError
from spectheory.otlp import SpecInfer
from spectheory.verify import TopDown
from tests.refusals import refuses

SPACE = ActionSpace(paths=2, trunk=1, length=2)
SAMPLING = Sampling(0.8)
LATENCY = st.Latency(
    np.array([1, 9]), np.array([0, 100]), np.array([[5.0, 7], [6, 9]]), np.array([[0.3, 0.4], [0.4, 0.6]])
)
PROMPT = [0, 1, 2, 3, 2, 0]
SETTINGS = LabelSettings(("SpecInfer", "Naive"), every=4, draws=2, space=SPACE)


@cache
def pair() -> Pair:
    """The shipped pair on four tokens and two layers of the target."""
    whole = load_pair(draft=DRAFT)
    return few_tokens(whole, [whole.tokenizer.encode(word)[0] for word in ("n", "-", " is", "#")], 2)


@cache
def texts(count: int = 12, seed: int = 0) -> HeldOutTexts:
    rng = np.random.default_rng(seed)
    prompts = [[*rng.integers(4, size=5).tolist(), seed] for _ in range(count)]
    decoder = Decoder(pair(), Selected(selector()), SAMPLING, TopDown(SpecInfer()))
    found = [decoder.generate(one, 9, *streams(pair(), i)).tokens for i, one in enumerate(prompts)]
    return HeldOutTexts(pair(), prompts, found, SAMPLING)


@cache
def selector(seed: int = 5, spread: float = 3.0) -> Selector:
    """A network of random weights, whose choices differ from root to root."""
    facts = PairFacts.of(pair())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = network_of(facts, SPACE).eval().requires_grad_(False)
        for weight in network.parameters():
            weight.add_(spread * torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    ones = np.ones(len(SCALARS))
    card = SelectorCard(SPACE, "SpecInfer", facts, (SAMPLING, Sampling(1.0)), LATENCY, (1, 1), ones, ones, ("0",))
    return Selector(card, network)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    folder = tmp_path_factory.mktemp("labels")
    write_labels(texts(), SETTINGS, folder)
    return read_labels(folder)


def other_prompts(labels: Labels) -> Labels:
    """The labels as if they were of other prompts."""
    return replace(labels, prompts=np.array([f"other {prompt}" for prompt in labels.prompts]))


@torch.inference_mode()
def plain_rows(role: str, tokens: list[int], sampling: Sampling = SAMPLING) -> np.ndarray:
    """The distribution after the last token, from a forward without a cache."""
    return sampling.distribution(getattr(pair(), role)(torch.tensor([tokens])).logits[0, -1]).double().numpy()


def test_labels_have_the_mean_of_eq_3_in_the_models_own_world(tmp_path: Path) -> None:
    """With 150 draws the mean of each label is within 5 standard errors of the exact one: error level below 1e-4."""
    one = HeldOutTexts(pair(), texts().prompts[:2], [texts().texts[0][:4], texts().texts[1][:3]], SAMPLING)
    write_labels(one, replace(SETTINGS, draws=150), tmp_path)
    found = read_labels(tmp_path)
    assert found.prompts.tolist() == one.hashes[:1], "the second text is too short for a root"
    text = [*one.prompts[0], *one.texts[0]]
    rows = {
        context: (plain_rows("target", [*text, *context]), plain_rows("draft", [*text, *context]))
        for length in range(3)
        for context in itertools.product(range(4), repeat=length)
    }
    world = st.World.table(rows)
    for tree, values in zip(SPACE.trees, found.of("SpecInfer")[0].T, strict=True):
        exact = st.delayed_block_efficiency(SpecInfer(), world, tree.paths, tree.length, tree.trunk).value
        error = values.std(ddof=1) / 150**0.5
        assert abs(values.mean() - exact) < 5 * error + 1e-5, tree


def test_features_are_of_the_root_and_the_token_before(labels: Labels) -> None:
    assert labels.contexts.tolist() == [9, 13] * 12
    tokens = [*texts().prompts[0], *texts().texts[0]]
    p, q = (plain_rows(role, tokens[:9]) for role in ("target", "draft"))
    there = plain_rows("draft", tokens[:10])
    expected = [-(row @ np.log(row)) for row in (p, q, there)]
    expected += [p @ np.log(p / q), q @ np.log(q / p), abs(p - q).sum(), 9]
    assert labels.features.scalars[0].tolist() == pytest.approx(expected, rel=1e-4)
    with torch.inference_mode():
        model: Any = pair().draft
        states = model(torch.tensor([tokens]), output_hidden_states=True).hidden_states[-1][0]
    torch.testing.assert_close(labels.features.draft[0], states[8], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(labels.features.root[0], states[9], rtol=1e-4, atol=1e-5)


def test_divergences_stay_finite_where_top_p_leaves_other_tokens() -> None:
    rows = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = known_scalars(rows[:1], rows[1:2], rows[2:], [3])[0].tolist()
    assert found == pytest.approx([0, 0, 0, 9 * log(10), 9 * log(10), 2, 3])


def test_labels_continue_after_an_interruption_and_refuse_another_folder(labels: Labels, tmp_path: Path) -> None:
    write_labels(texts(), SETTINGS, tmp_path)
    parts = sorted(tmp_path.glob("part-*"))
    assert len(parts) == 2
    before = parts[1].read_bytes()
    parts[1].unlink()
    refuses("1 of 2 parts", read_labels, tmp_path)
    write_labels(texts(), SETTINGS, tmp_path)
    assert parts[1].read_bytes() == before
    assert read_labels(tmp_path).identity == labels.identity
    with pytest.raises(ForeignFolderError, match="draws"):
        write_labels(texts(), replace(SETTINGS, draws=3), tmp_path)
    with pytest.raises(ForeignFolderError, match="length"):
        write_labels(texts(), replace(SETTINGS, space=ActionSpace(2, 1, 1)), tmp_path)


def test_roots_of_one_source_are_one_cluster(labels: Labels, tmp_path: Path) -> None:
    """The labels are the same; split and clusters are by source, and a folder holds labels of one clustering."""
    named = replace(texts(), sources=tuple("abc"[number % 3] for number in range(12)))
    write_labels(named, SETTINGS, tmp_path)
    found = read_labels(tmp_path)
    assert (found.tokens == labels.tokens).all()
    assert [len(np.unique(one.prompts)) for one in found.split(1 / 3)] == [1, 2]
    joined = comparison(found)
    assert len(joined.prompts) == 3
    assert [row.throughput for row in joined.rows] == pytest.approx([row.throughput for row in comparison(labels).rows])
    with pytest.raises(ForeignFolderError, match="clusters"):
        write_labels(texts(), SETTINGS, tmp_path)


def test_labels_are_split_by_prompt(labels: Labels) -> None:
    one, other = labels.split(0.25)
    assert len(np.unique(one.prompts)) == 3
    assert not set(one.prompts) & set(other.prompts)
    assert sorted([*one.prompts, *other.prompts]) == sorted(labels.prompts)
    place = np.flatnonzero(labels.prompts == one.prompts[0])
    assert (one.of("Naive")[one.prompts == one.prompts[0]] == labels.of("Naive")[place]).all()
    assert one.identity != other.identity
    refuses("on both sides", labels.split, 0.0)


def test_label_settings_are_checked() -> None:
    refuses("Traversal must be a node solver that is lossless", LabelSettings, verifiers=("Traversal",))
    refuses("small vocabularies", LabelSettings, verifiers=("OptimalTransport",))
    refuses("at least one", LabelSettings, verifiers=())
    refuses("draws must be at least 2", LabelSettings, draws=1)
    refuses("every must be at least 1", LabelSettings, every=0)


def test_greedy_and_short_texts_have_no_labels(tmp_path: Path) -> None:
    greedy = HeldOutTexts(pair(), texts().prompts, texts().texts, Sampling(0.0))
    refuses("temperature of the texts", write_labels, greedy, SETTINGS, tmp_path)
    refuses("every must be at most", write_labels, texts(), replace(SETTINGS, every=16), tmp_path)


def test_the_objective_by_hand() -> None:
    logits = torch.tensor([[log(3.0), 0.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[2.0, 4.0], [1.0, 2.0]], dtype=torch.float64)
    seconds = torch.tensor([[1.0, 3.0], [1.0, 1.0]], dtype=torch.float64)
    assert throughput(logits, tokens, seconds).tolist() == pytest.approx([2.5 / 1.5, 1.5])
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


TRAINING = SelectorTraining(steps=6, batch=8, every=2, held=0.25)


def test_training_continues_after_an_interruption_as_if_there_was_none(labels: Labels, tmp_path: Path) -> None:
    class Killed(Exception):  # noqa: N818
        pass

    def kill(step: int, steps: int) -> None:
        if step == 4:
            raise Killed

    whole = train_selector([labels], LATENCY, TRAINING, tmp_path / "whole")
    with pytest.raises(Killed):
        train_selector([labels], LATENCY, TRAINING, tmp_path / "killed", kill)
    with pytest.raises(InputError, match="belongs to another training"):
        train_selector([labels], LATENCY, replace(TRAINING, seed=1), tmp_path / "killed")
    seen: list[int] = []
    again = train_selector([labels], LATENCY, TRAINING, tmp_path / "killed", lambda step, steps: seen.append(step))
    assert seen == [6]
    read = Selector.load(tmp_path / "killed")
    for name, weight in whole.network.state_dict().items():
        assert torch.equal(weight, again.network.state_dict()[name])
        assert torch.equal(weight, read.network.state_dict()[name])
    later = replace(LATENCY, provenance=LATENCY.provenance.replace(created="2031-01-01T00:00:00+00:00"))
    assert train_selector([labels], later, TRAINING, tmp_path / "killed").card.static == whole.card.static
    with pytest.raises(InputError, match="selector of another training"):
        train_selector([labels], LATENCY, replace(TRAINING, steps=7), tmp_path / "killed")


def test_training_learns_which_tree_is_best_where_a_feature_says_so(labels: Labels, tmp_path: Path) -> None:
    """Half of the roots are marked by their state and gain from the deepest chain, the others from no draft."""
    marked = np.arange(len(labels.prompts)) % 2 == 0
    deep = SPACE.trees.index(SPACE.trees[3])
    tokens = np.ones((1, len(marked), 2, len(SPACE.trees)), np.float32)
    tokens[:, marked, :, deep] = 4
    states = torch.zeros_like(labels.features.target)
    states[:, 0] = torch.from_numpy(np.where(marked, 5.0, -5.0))
    easy = replace(labels, verifiers=("SpecInfer",), tokens=tokens, features=replace(labels.features, target=states))
    trained = train_selector([easy], LATENCY, replace(TRAINING, steps=60, rate=0.01, held=0), tmp_path)
    chosen = trained.chosen(easy.features, SAMPLING).numpy()
    assert (chosen == np.where(marked, deep, 0)).all()


def test_training_settings_are_checked() -> None:
    refuses("steps must be", SelectorTraining, steps=0)
    refuses("worst must be", SelectorTraining, worst=0.0)
    refuses("dropout must be", SelectorTraining, dropout=1.0)
    refuses("rate must be", SelectorTraining, rate=-1.0)


def test_labels_of_another_pair_or_other_actions_are_refused(labels: Labels, tmp_path: Path) -> None:
    wider = replace(labels, pair=replace(labels.pair, target_hidden=64), sampling=Sampling(1.0))
    refuses("target_hidden 160, one of the labels has 64", train_selector, [labels, wider], LATENCY, TRAINING, tmp_path)
    refuses("same actions", train_selector, [labels, replace(labels, space=ActionSpace())], LATENCY, TRAINING, tmp_path)
    refuses("different samplings", train_selector, [labels, labels], LATENCY, TRAINING, tmp_path)
    with pytest.raises(InputError, match="labels hold SpecInfer.*, not Khisti"):
        train_selector([labels], LATENCY, replace(TRAINING, verifier="Khisti"), tmp_path)
    refuses("prompt_seconds=0.5", train_selector, [labels], replace(LATENCY, prompt_seconds=0.5), TRAINING, tmp_path)
    refuses("leaves none", train_selector, [labels], LATENCY, replace(TRAINING, held=0.001), tmp_path)


def comparison(labels: Labels, *selectors: Selector) -> SelectorComparison:
    return evaluate_selector(selectors or (selector(), selector(1)), labels, other_prompts(labels))


def test_the_comparison_sums_tokens_and_seconds_by_prompt(labels: Labels) -> None:
    found = comparison(labels)
    rows = {row.name: row for row in found.rows}
    assert list(rows) == [PLAIN, ROOTED, SAME, OTHER, SELECTOR, NAIVE, CROSS]
    tokens = labels.of("SpecInfer").astype(float)
    seconds = SPACE.seconds(LATENCY, labels.contexts)
    assert rows[PLAIN].throughput == pytest.approx(len(seconds) / seconds[:, 0].sum())
    roots = np.arange(len(seconds))
    mean = []
    for one in (selector(), selector(1)):
        chosen = one.chosen(labels.features, SAMPLING).numpy()
        mean.append(tokens.mean(1)[roots, chosen].sum() / seconds[roots, chosen].sum())
    assert rows[SELECTOR].throughput == pytest.approx(np.mean(mean), rel=1e-6)
    static = max((tokens.mean(1).sum(0) / seconds.sum(0)).tolist())
    assert rows[SAME].throughput == pytest.approx(static, rel=1e-6)
    flat = [place for place, tree in enumerate(SPACE.trees) if tree.trunk == 0 and tree.length < 3]
    best = max((tokens.mean(1).sum(0) / seconds.sum(0))[flat].tolist())
    assert rows[ROOTED].throughput == pytest.approx(best, rel=1e-6)
    assert rows[SAME].difference == 0, "the other text is the same text under other names"
    assert rows[OTHER].difference is None
    picked = [best_by_root(tokens[:, other], seconds) for other in (1, 0)]
    judged = {
        NAIVE: [tokens[roots, other, chosen].sum() for other, chosen in zip((1, 0), picked, strict=True)],
        CROSS: [tokens[roots, own, chosen].sum() for own, chosen in zip((0, 1), picked, strict=True)],
    }
    time = np.mean([seconds[roots, chosen].sum() for chosen in picked])
    for name, sums in judged.items():
        assert rows[name].throughput == pytest.approx(np.mean(sums) / time, rel=1e-6)


def test_an_oracle_that_chooses_among_noise_gains_only_on_the_noise_it_chose_by(labels: Labels) -> None:
    """All trees have E[tau] = 2 and equal seconds, with noise of 0.5: the exact gain of an oracle is 0.

    The mean of the other oracle over 24 roots and 2 draws has a standard error of 0.5 / 48^0.5 = 0.07; 4 of them.
    """
    noise = 0.5 * np.random.default_rng(0).standard_normal((1, 24, 2, len(SPACE.trees)))
    noisy = replace(labels, verifiers=("SpecInfer",), tokens=(2 + noise).astype(np.float32))
    flat = replace(
        selector(), card=replace(selector().card, latency=st.Latency.constant(target_seconds=1.0, draft_seconds=0.0))
    )
    rows = {row.name: row for row in comparison(noisy, flat).rows}
    expected = float(noise.max(-1).mean())
    assert rows[NAIVE].tau == pytest.approx(2 + expected, rel=1e-6)
    assert expected > 0.5
    assert abs(rows[CROSS].tau - 2) < 0.28


def test_a_comparison_is_read_as_it_was_written(labels: Labels, tmp_path: Path) -> None:
    found = comparison(labels)
    found.save(tmp_path / "comparison.json")
    assert SelectorComparison.load(tmp_path / "comparison.json").to_dict() == found.to_dict()


def test_a_comparison_refuses_prompts_of_the_training_and_foreign_labels(labels: Labels, tmp_path: Path) -> None:
    trained = train_selector([labels], LATENCY, TRAINING, tmp_path)
    refuses("not trained", evaluate_selector, [trained], labels, other_prompts(labels))
    refuses("other must be labels of prompts that are not in labels", evaluate_selector, [selector()], labels, labels)
    refuses("not for", comparison, replace(labels, sampling=Sampling(0.3)))
    refuses("actions of the selector", comparison, replace(labels, space=ActionSpace()))
    refuses("weights", comparison, replace(labels, pair=replace(labels.pair, weights="0")))
    refuses("differ in samplings", comparison, labels, selector(), trained)
