"""Training of heads: objectives against slow renderings, resuming, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reference.heads import Head, read_head
from reference.losses import Eagle, Eagle3, Gto, Hass, Kl, Loss, Talf, Tv, beam_trees, longest_accepted, unroll_tree
from reference.models import Pair, with_draft
from reference.train import head as training
from reference.train.forests import HeadForest, HeadPaths, TargetForest
from reference.train.head import HeadRecipe, frequent_tokens, fresh_head, train_head
from reference.train.objectives import Batching, DraftTrees, GroupObjective, Lesson, TreeObjective, objective_of
from reference.train.own_texts import OwnTexts
from spectheory import Tree
from tests.reference.train_heads import config, head, own_texts
from tests.refusals import refuses

LOSSES: list[Loss] = [Eagle(), Hass(), Eagle3(passes=2), Talf(k=2, depth=2), Gto(group=2, token_loss=Eagle3(passes=2))]
KIND = {"eagle": "eagle1", "hass": "eagle1"}
TREES = DraftTrees(k=2, depth=2, groups=2)


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


def alone(one: Head, features: Tensor, tokens: Tensor) -> Callable[[Tensor], Tensor]:
    """The head's distributions after paths from one root, computed without a cache."""

    def expand(paths: Tensor) -> Tensor:
        return torch.stack([chain(one, features, tokens, path).softmax(-1) for path in paths[0].tolist()])[None]

    return expand


def at_root(lesson: Lesson, one: Head, row: int, place: int) -> tuple[Tensor, Tensor]:
    return one.fuse(lesson.states)[row, : place + 1], lesson.tokens[row, : place + 1]


def objective(tiny: Pair, texts: OwnTexts, loss: Loss, seed: int = 0) -> Any:
    one, start = (head(tiny, KIND.get(loss.name, "eagle3"), seed) for seed in (seed, 9))  # type: ignore[arg-type]
    return objective_of(loss, one, tiny.target, Batching(texts, 3, 0), start=start, roots=4, trees=TREES)


@torch.no_grad()
def test_rows_of_a_lesson_predict_the_token_after_the_one_they_read(tiny: Pair, texts: OwnTexts) -> None:
    """The target's distribution at row r is that of token r + 2, up to the half precision of the stored states."""
    made = objective(tiny, texts, Eagle3(passes=1))
    batch = texts.batch([0, 2])
    lesson, model = made.lesson(batch), tiny.target
    logits: Tensor = model(batch.tokens).logits
    torch.testing.assert_close(lesson.target.double(), logits[:, 1:].softmax(-1), rtol=0, atol=2e-3)
    assert lesson.tokens.equal(batch.tokens[:, 1:])
    for row, length in enumerate(batch.lengths.tolist()):
        assert lesson.mask[row].tolist() == [8 <= r + 2 < length for r in range(19)]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["eagle1", "eagle3"])
def test_a_head_at_trees_on_many_roots_equals_whole_sequences(tiny: Pair, texts: OwnTexts, kind: Any) -> None:
    one, batch = head(tiny, kind), texts.batch([0, 3])
    made = objective_of(Kl(), one, tiny.target, Batching(texts, 2, 0))
    lesson = made.lesson(batch)  # type: ignore[attr-defined]
    roots = torch.tensor([[3, 7, 11], [2, 8, 16]])
    known = lesson.target.gather(1, roots[..., None].expand(-1, -1, lesson.target.shape[-1]))
    trees = beam_trees(TargetForest(tiny.target, batch.tokens, roots + 1, known), 6, 2, 3)
    forest = HeadForest(one, one.fuse(lesson.states), lesson.tokens, roots)
    logits = unroll_tree(forest, *forest.at_roots, trees)
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


@torch.no_grad()
def test_a_draft_grows_the_trees_that_it_would_grow_alone(tiny: Pair, texts: OwnTexts) -> None:
    one, batch = head(tiny, "eagle3"), texts.batch([0, 3])
    lesson = objective_of(Kl(), one, tiny.target, Batching(texts, 2, 0)).lesson(batch)  # type: ignore[attr-defined]
    roots = torch.tensor([[3, 7], [2, 8]])
    forest = HeadForest(one, one.fuse(lesson.states), lesson.tokens, roots)
    grown = beam_trees(HeadPaths(forest), 4, 2, 3)
    for number, (row, place) in enumerate(((0, 3), (0, 7), (1, 2), (1, 8))):
        expected = beam_trees(alone(one, *at_root(lesson, one, row, place)), 1, 2, 3)
        assert grown.parent[number].equal(expected.parent[0])
        assert grown.token[number].equal(expected.token[0])


def test_talf_reads_all_nodes_at_chosen_roots(tiny: Pair, texts: OwnTexts) -> None:
    """With one node in a tree TALF is the cross-entropy of the first pass at the chosen roots: here at all of them."""
    made = objective(tiny, texts, Talf(k=1, depth=1))
    assert isinstance(made, TreeObjective)
    made.roots = 19
    plain = objective(tiny, texts, Eagle3(passes=1))
    torch.testing.assert_close(made(0), plain(0))


def test_gto_starts_at_the_token_level_loss_and_its_gradient(tiny: Pair, texts: OwnTexts) -> None:
    """While the trees are those of the frozen start, all advantages are 0 (claim T-START)."""
    loss = Gto(group=2, token_loss=Eagle3(passes=2), weight=7.0)
    one = head(tiny, "eagle3")
    batching = Batching(texts, 3, 0)
    made = objective_of(loss, one, tiny.target, batching, start=head(tiny, "eagle3"), trees=TREES)
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
    groups = made._groups(lesson.mask, made.batching.rng(0))
    assert groups.shape[1] == 2
    assert (groups[:, 1] == groups[:, 0] + 1).all()
    rewards, accepted = made._grown(made.head, batch, lesson, groups)
    assert rewards.shape == groups.shape
    assert rewards.isfinite().all()
    for group, flags in zip(groups.tolist(), accepted.tolist(), strict=True):
        for place, ours in zip(group, flags, strict=True):
            row, root = divmod(place, 19)
            grown = beam_trees(alone(made.head, *at_root(lesson, made.head, row, root)), 1, 2, 3)
            ahead = batch.tokens[row, root + 2 : root + 4].tolist()
            tree = Tree(grown.parent[0].tolist())
            same = [
                bool(depth) and token == ahead[depth - 1]
                for token, depth in zip(grown.token[0].tolist(), tree.depth.tolist(), strict=True)
            ]
            assert sum(ours) == len(longest_accepted(tree, same))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_every_weight_of_a_head_learns_from_every_loss(tiny: Pair, texts: OwnTexts, loss: Loss) -> None:
    made = objective(tiny, texts, loss)
    made(0).backward()
    assert all(bool(weight.grad.any()) for weight in made.head.parameters())


@pytest.mark.parametrize("loss", [*LOSSES[1:], Tv()], ids=lambda loss: loss.name)
def test_a_training_that_was_interrupted_equals_one_that_was_not(
    tiny: Pair, texts: OwnTexts, loss: Loss, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, sizes = HeadRecipe(loss, steps=4, rows=3, roots=4, trees=TREES), None
    if loss.name != "tv":
        sizes = config(tiny, KIND.get(loss.name, "eagle3"))  # type: ignore[arg-type]
    if loss.name == "gto":
        train_head(tiny, texts, tmp_path / "start", HeadRecipe(Eagle3(passes=1), steps=2, rows=3), sizes)
        tiny, sizes = with_draft(tiny, tmp_path / "start"), None
    train_head(tiny, texts, tmp_path / "whole", recipe, sizes)
    make = training._objective

    def failing(*arguments: Any, **given: Any) -> Callable[[int], Tensor]:
        real = make(*arguments, **given)

        def at(step: int) -> Tensor:
            if step == 2:
                raise KeyboardInterrupt
            return real(step)

        return at

    with monkeypatch.context() as patch:
        patch.setattr(training, "_objective", failing)
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


def test_a_new_eagle3_head_starts_with_the_targets_output_layer(tiny: Pair, texts: OwnTexts) -> None:
    made: Any = fresh_head(config(tiny, "eagle3"), tiny.target, texts, 0)
    output: Any = tiny.target.get_output_embeddings()
    torch.testing.assert_close(made.lm_head.weight, output.weight)


def test_losses_that_do_not_suit_the_draft_are_refused(tiny: Pair, texts: OwnTexts, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="loss must have one pass and compare no features to train a draft model"):
        train_head(tiny, texts, tmp_path / "a", HeadRecipe(Eagle3(), rows=3))
    with pytest.raises(ValueError, match="loss must be tv, kl, lk_alpha or lk_lambda to train a draft model, got talf"):
        train_head(tiny, texts, tmp_path / "b", HeadRecipe(Talf(), rows=3))
    with pytest.raises(ValueError, match="start must be given for the loss gto: it compares with a frozen start"):
        train_head(tiny, texts, tmp_path / "c", HeadRecipe(Gto(), rows=3), config(tiny, "eagle3"))
    with pytest.raises(ValueError, match="depth of the draft trees must be at most 2"):
        objective_of(
            Gto(token_loss=Eagle3(passes=2)), head(tiny, "eagle3"), tiny.target, Batching(texts, 3, 0),
            start=head(tiny, "eagle3"), trees=DraftTrees(depth=3),
        )  # fmt: skip
    refuses("rows must be", Batching, texts, 7, 0)
