"""Tests of drafting with a selector of delayed trees: the choices in the decode loop, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import spectheory as st
from reference.decode import Cycle, Decoder
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.selector import ActionSpace, Labels, Selected, Selector
from reference.selector.features import Features, known_scalars
from spectheory.certify import certify_step
from spectheory.otlp import GreedyTopK, SpecInfer
from spectheory.verify import TopDown
from tests.reference.test_selector import PROMPT, SAMPLING, labels, pair, plain_rows, selector
from tests.refusals import refuses

__all__ = ["labels"]


def test_the_loop_chooses_by_the_text_alone(labels: Labels) -> None:
    """The tree of each cycle is the one that plain forwards of the text so far choose, whatever was drawn before."""
    cycles: list[Cycle] = []
    decoder = Decoder(pair(), Selected(selector()), SAMPLING, TopDown(SpecInfer()))
    text = decoder.generate(PROMPT, 40, *streams(pair(), 3), watch=cycles.append).tokens
    chosen, at = [], len(PROMPT) + 1
    for cycle in cycles:
        so_far = [*PROMPT, *text][:at]
        features = plain_features(so_far)
        tree = selector().tree(features, SAMPLING)
        chosen.append(tree)
        assert cycle.draft.tree.max_depth == tree.trunk + tree.length
        widths = [len(draws) for draws in cycle.draft.draws]
        assert max(widths) == (tree.paths if tree.length else min(1, tree.trunk))
        assert cycle.draft.tokens[0] == so_far[-1]
        at += len(cycle.emitted)
        if at > len(PROMPT) + len(text):
            break
    assert len(set(chosen)) > 2


@torch.inference_mode()
def plain_features(tokens: list[int]) -> Features:
    """The features at the last of some tokens, from forwards without a cache."""
    models: Any = (pair().target, pair().draft)
    outs = [model(torch.tensor([tokens]), output_hidden_states=True) for model in models]
    p, q = (SAMPLING.distribution(out.logits[0]) for out in outs)
    target, draft = (out.hidden_states[-1][0] for out in outs)
    scalars = known_scalars(p[-2:-1], q[-2:-1], q[-1:], [len(tokens) - 1])
    return Features(target[-2:-1], draft[-2:-1], draft[-1:], scalars)


@pytest.mark.parametrize(
    ("sampling", "runs"),
    [(SAMPLING, 100), pytest.param(Sampling(1.0), 3000, marks=pytest.mark.deep)],
)
def test_a_selected_tree_keeps_the_targets_distribution(sampling: Sampling, runs: int) -> None:
    """Texts of 3 tokens are closer to the target's than 8 / runs^0.5 in total variation: level 1e-3 by betting."""
    decoder = Decoder(pair(), Selected(selector()), sampling, TopDown(SpecInfer()))
    draft_rng = streams(pair(), 5)[0]
    known = cache(lambda context: plain_rows("target", [*PROMPT, *context], sampling))
    found = certify_step(
        lambda context, rng: decoder.generate([*PROMPT, *context], 3, draft_rng, rng).tokens,
        lambda context: known(tuple(context)),
        subject="selected trees", length=3, vocab_size=4, alpha=1e-3, tv=1e-3, max_samples=runs, seed=0,
    )  # fmt: skip
    assert found.verdict is not st.Verdict.LOSSY
    assert found.tv_bound < 8 / runs**0.5


def test_a_selector_of_another_pair_sampling_or_folder_is_refused(labels: Labels, tmp_path: Path) -> None:
    one = selector()
    others: dict[str, Any] = {"target_hidden": 64, "draft_hidden": 32, "vocabulary": 9, "weights": "abc"}
    for field, value in others.items():
        foreign = replace(one, card=replace(one.card, pair=replace(one.card.pair, **{field: value})))
        refuses(f"{field} {value}", Selected(foreign).start, pair(), SAMPLING)
    refuses("temperature 0 draws nothing", Selected(one).start, pair(), Sampling(0.0))
    refuses("not for temperature 1 and top-p 0.9", Selected(one).start, pair(), Sampling(1.0, top_p=0.9))
    one.save(tmp_path)
    replace(one.card, space=ActionSpace(3, 1, 2), static=(0, 0)).save(tmp_path / "selector.json")
    refuses("actions or hidden sizes", Selector.load, tmp_path)
    refuses(r"selector\.json", Selector.load, tmp_path / "nothing")


def test_a_verifier_for_other_draws_is_refused() -> None:
    refuses("not lossless for IID", Decoder, pair(), Selected(selector()), SAMPLING, TopDown(GreedyTopK()))
