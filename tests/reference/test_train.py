"""Training of heads: objectives against slow renderings, resuming, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from reference.heads import Head, read_head
from reference.library_sources import standard_library
from reference.losses import Eagle, Eagle3, Gto, Hass, Loss, Talf, beam_trees, unroll_tree
from reference.losses.gto import accepted_tokens
from reference.models import Pair, with_draft
from reference.train import __main__ as commands
from reference.train import head as training
from reference.train import loop
from reference.train import target as building
from reference.train.forests import HeadForest, TargetForest
from reference.train.head import HeadRecipe, frequent_tokens, train_head
from reference.train.objectives import Batching, GroupObjective, Lesson, objective_of
from reference.train.own_texts import OwnTexts
from reference.train.target import Recipe, build_target
from spectheory.core.errors import InputError
from tests.helpers import refuses
from tests.reference.train_heads import config, head, own_texts

GTO = Gto(group=2, passes=2, k=2, depth=2, groups=2)
LOSSES: list[Loss] = [Eagle(), Hass(), Eagle3(passes=2), Talf(k=2, depth=2, roots=4), GTO]
KIND = {"eagle": "eagle1", "hass": "eagle1"}


@pytest.fixture(scope="module")
def texts(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> OwnTexts:
    return own_texts(tiny, tmp_path_factory.mktemp("texts") / "own")


def chain(one: Head, features: Tensor, tokens: Tensor, drafted: list[int]) -> Tensor:
    """(V,) the head's logits after a text and drafted tokens, computed without a cache from whole sequences.

    `features` (n, hidden) precede `tokens` (n,); each drafted token has the head's output before it as its feature.
    """
    for token in drafted:
        outputs = one(tokens[None], features[None])[0]
        features, tokens = torch.cat([features, outputs[-1:]]), torch.cat([tokens, torch.tensor([token])])
    return one.on_vocabulary(one.logits(one(tokens[None], features[None])[0, -1]))


def alone(one: Head, features: Tensor, tokens_before: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The head's distributions at the nodes of a tree at one root, computed without a cache."""

    paths: list[list[int]] = [[]]

    def expand(tokens: Tensor, parent: Tensor) -> Tensor:
        nonlocal paths
        if (parent >= 0).all():
            paths = [
                [*paths[place], token] for place, token in zip(parent[0].tolist(), tokens[0].tolist(), strict=True)
            ]
        return torch.stack([chain(one, features, tokens_before, path).softmax(-1) for path in paths])[None]

    return expand


def at_root(lesson: Lesson, one: Head, row: int, place: int) -> tuple[Tensor, Tensor]:
    return one.fuse(lesson.states)[row, : place + 1], lesson.tokens[row, : place + 1]


def objective(tiny: Pair, texts: OwnTexts, loss: Loss, seed: int = 0) -> Any:
    one, start = (head(tiny, KIND.get(loss.name, "eagle3"), seed) for seed in (seed, 9))  # type: ignore[arg-type]
    return objective_of(loss, one, tiny.target, Batching(texts, 3, 0), start)


@torch.no_grad()
def test_rows_of_a_lesson_predict_the_token_after_the_one_they_read(tiny: Pair, texts: OwnTexts) -> None:
    """The target's distribution at row r is that of token r + 2."""
    made = objective(tiny, texts, Eagle3(passes=1))
    batch = texts.batch([0, 2])
    lesson, model = made.lesson(batch), tiny.target
    logits: Tensor = model(batch.tokens).logits
    torch.testing.assert_close(lesson.target.double(), logits[:, 1:].softmax(-1))
    assert lesson.tokens.equal(batch.tokens[:, 1:])
    for mask, length in zip(lesson.mask.tolist(), 8 + batch.own.sum(1), strict=True):
        assert mask == [8 <= r + 2 < length for r in range(19)]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["eagle1", "eagle3"])
def test_a_head_at_trees_on_many_roots_equals_whole_sequences(tiny: Pair, texts: OwnTexts, kind: Any) -> None:
    one, batch = head(tiny, kind), texts.batch([0, 3])
    made = objective_of(Eagle3(), one, tiny.target, Batching(texts, 2, 0))
    lesson = made.lesson(batch)
    roots = torch.tensor([[3, 7, 11], [2, 8, 16]])
    known = lesson.target.gather(1, roots[..., None].expand(-1, -1, lesson.target.shape[-1]))
    forest = HeadForest(one, one.fuse(lesson.states), lesson.tokens, roots)
    expand = TargetForest(tiny.target, batch.tokens, roots + 1, known, lesson.cache)
    trees = beam_trees(expand, forest.root_tokens, 2, 3)
    again = TargetForest(tiny.target, batch.tokens, roots + 1, known, lesson.cache)
    torch.testing.assert_close(again.at_once(trees, 3), trees.target)
    logits = unroll_tree(forest, trees)
    model: Any = tiny.target
    for number, (row, place) in enumerate(((0, 3), (0, 7), (0, 11), (1, 2), (1, 8), (1, 16))):
        for node in range(5):
            path, above = [], node
            while above > 0:
                path, above = [int(trees.token[number, above]), *path], int(trees.parent[number, above])
            features, tokens = at_root(lesson, one, row, place)
            torch.testing.assert_close(logits[number, node], chain(one, features, tokens, path).to(logits.dtype))
            if node:
                text = torch.cat([batch.tokens[row, : place + 2], torch.tensor(path)])
                expected = model(text[None]).logits[0, -1].softmax(-1)
                torch.testing.assert_close(trees.target[number, node].double(), expected, rtol=0, atol=1e-6)


def test_talf_reads_all_nodes_at_chosen_roots(tiny: Pair, texts: OwnTexts) -> None:
    """With one node in a tree TALF is the cross-entropy of the first pass at the chosen roots: here at all of them."""
    made = objective(tiny, texts, Talf(k=1, depth=1, roots=19))
    plain = objective(tiny, texts, Eagle3(passes=1))
    torch.testing.assert_close(made(0), plain(0))


def test_gto_starts_at_the_token_level_loss_and_its_gradient(tiny: Pair, texts: OwnTexts) -> None:
    """While the trees are those of the frozen start, all advantages are 0 (claim T-START)."""
    loss = replace(GTO, weight=7.0)
    one = head(tiny, "eagle3")
    batching = Batching(texts, 3, 0)
    made = objective_of(loss, one, tiny.target, batching, head(tiny, "eagle3"))
    plain = objective_of(loss.token_loss, one, tiny.target, batching)
    found = [torch.autograd.grad(which(0), list(one.parameters())) for which in (made, plain)]
    for ours, theirs in zip(*found, strict=True):
        assert ours.equal(theirs)


@torch.no_grad()
def test_gto_counts_the_longest_part_of_the_text_in_each_tree(tiny: Pair, texts: OwnTexts) -> None:
    made = objective(tiny, texts, LOSSES[-1])
    assert isinstance(made, GroupObjective)
    batch = texts.batch([0, 1, 2])
    lesson = made.lesson(batch)
    roots, kept = made.groups(lesson.mask, made.batching.rng(0))
    assert (roots[:, 1::2] == roots[:, ::2] + 1).all()
    assert kept.any()
    text = torch.stack([lesson.tokens[row, roots[row, :, None] + torch.arange(1, 3)] for row in range(3)])
    rewards, accepted = made.grown(made.head, batch, lesson, roots, text)
    assert rewards.isfinite().all()
    for row, place in np.ndindex(*roots.shape):
        root = int(roots[row, place])
        assert text[row, place].equal(batch.tokens[row, root + 2 : root + 4])
        grown = beam_trees(
            alone(made.head, *at_root(lesson, made.head, row, root)), lesson.tokens[row, root, None], 2, 3
        )
        assert accepted[row, place].equal(accepted_tokens(grown, text[row, place][None])[0])
        assert rewards[row, place] >= 0


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_every_weight_of_a_head_learns_from_every_loss(tiny: Pair, texts: OwnTexts, loss: Loss) -> None:
    made = objective(tiny, texts, loss)
    made(0).backward()
    assert all(bool(weight.grad.any()) for weight in made.head.parameters())


@pytest.mark.parametrize("loss", LOSSES[1:], ids=lambda loss: loss.name)
def test_a_training_that_was_interrupted_equals_one_that_was_not(
    tiny: Pair, texts: OwnTexts, loss: Loss, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = HeadRecipe(loss, steps=4, rows=3)
    sizes: Any = config(tiny, KIND.get(loss.name, "eagle3"))  # type: ignore[arg-type]
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0)
    if loss.name == "gto":
        train_head(tiny, texts, tmp_path / "start", HeadRecipe(Eagle3(passes=1), steps=2, rows=3), sizes)
        tiny, sizes = with_draft(tiny, tmp_path / "start"), None
    train_head(tiny, texts, tmp_path / "whole", recipe, sizes)
    make = training.objective_of

    def failing(*arguments: Any, **given: Any) -> Callable[[int], Tensor]:
        real = make(*arguments, **given)

        def at(step: int) -> Tensor:
            if step == 2:
                raise KeyboardInterrupt
            return real(step)

        return at

    with monkeypatch.context() as patch:
        patch.setattr(training, "objective_of", failing)
        with pytest.raises(KeyboardInterrupt):
            train_head(tiny, texts, tmp_path / "two", recipe, sizes)
    assert torch.load(tmp_path / "two" / "training.pt")["step"] == 2
    train_head(tiny, texts, tmp_path / "two", recipe, sizes)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "two"))
    assert one == two
    record = json.loads((tmp_path / "two" / "training.json").read_text())
    assert (record["steps"], record["texts"]) == (4, 12)
    train_head(tiny, texts, tmp_path / "two", recipe, sizes)  # nothing is left to do
    refuses("another seed", train_head, tiny, texts, tmp_path / "two", replace(recipe, seed=1), sizes)


def test_training_lowers_the_loss_and_writes_a_head_that_drafts_the_frequent_tokens(
    tiny: Pair, texts: OwnTexts, tmp_path: Path
) -> None:
    sizes = config(tiny, "eagle3", draft_vocab_size=200)
    train_head(tiny, texts, tmp_path / "head", HeadRecipe(Eagle3(passes=2), steps=24, rows=3), sizes)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "head" / "training.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]
    made = read_head(tmp_path / "head")
    assert made.token_ids is not None
    assert made.token_ids.tolist() == frequent_tokens(texts, tiny.target.config.vocab_size, 200).tolist()


def test_a_head_is_trained_by_two_commands(tiny_folders: Path, tmp_path: Path) -> None:
    target, corpus = ["--target", str(tiny_folders / "target")], tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps({"text": f"def f{i}(x): return x + {i}  # of json"}) for i in range(6)))

    def train(command: str, *options: object) -> None:
        found = CliRunner().invoke(commands.app, [command, *target, *map(str, options)], catch_exceptions=False)
        assert found.exit_code == 0, found.output

    sizes = "--rows", 4, "--prompt-tokens", 6, "--new-tokens", 10
    train("texts", "--corpus", corpus, *sizes, "--out", tmp_path / "texts")
    learning = "--texts", tmp_path / "texts", "--rows", 2, "--steps", 2, "--intermediate", 16
    first, second = tmp_path / "first", tmp_path / "second"
    train("head", *learning, "--loss", "eagle", "--out", first)
    train("head", *learning, "--loss", "hass", "--set", "passes=2", "--start", first, "--out", second)
    rates = [json.loads((one / "provenance.json").read_text())["settings"]["rate"] for one in (first, second)]
    assert rates == [0.02, 0.003]  # the rate of a new head makes a trained one worse
    with pytest.raises(InputError, match="another seed"):
        train("head", *learning, "--loss", "eagle", "--out", first, "--seed", 1)


def test_an_interrupted_building_of_the_target_goes_on_and_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the json package and three held-out files instead of the whole standard library."""
    everything = standard_library()
    files = [file for file in everything if file.name.startswith("json/")]
    files += [file for file in everything if file.is_held_out][:3]
    monkeypatch.setattr(building, "standard_library", lambda: files)
    recipe = Recipe(vocab_size=300, layers=2, width=32, hidden=32, rows=2, length=32, prompts=8, steps=6)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0)
    build_target(tmp_path / "whole", tmp_path / "work-whole", recipe)
    real, calls = building.batch, []

    def failing(*args: Any) -> np.ndarray:
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(building, "batch", failing)
    with pytest.raises(KeyboardInterrupt):
        build_target(tmp_path / "two", tmp_path / "work-two", recipe)
    assert torch.load(tmp_path / "work-two" / "target.pt")["step"] == 3
    build_target(tmp_path / "two", tmp_path / "work-two", recipe)
    whole, two = ((tmp_path / name / "target" / "model.safetensors").read_bytes() for name in ("whole", "two"))
    assert whole == two
    (tmp_path / "work-two" / "target.pt").write_bytes(b"half a checkpoint")
    with pytest.raises(ValueError, match="target.pt is damaged: remove it to start this model anew"):
        build_target(tmp_path / "two", tmp_path / "work-two", recipe)
    split = json.loads((tmp_path / "two" / "split.json").read_text())
    assert not set(split["train"]) & set(split["held_out"])
