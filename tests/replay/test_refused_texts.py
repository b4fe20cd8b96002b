"""Texts, records and arguments that cannot be replayed are refused by name; texts at the edge of rounding are not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
from reference.decode import Decoder
from reference.drafters import PlannedTree, PromptLookup
from reference.forced_logits import forced_texts
from reference.models import Pair, load_pair
from reference.random_streams import streams
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from spectheory.core.world import Levels, Paths
from spectheory.otlp import RRS, Naive
from spectheory.replay import ChainText, GreedyText, Replays, TargetText, read_chain_records
from spectheory.replay.kernels import kept_by_ratio
from spectheory.verify import Block, GreedyMultiPathBlock, TopDown, Traversal, Verifier

NO_REPLACEMENT, IID = st.DrawRule.NO_REPLACEMENT, st.DrawRule.IID
PROMPTS = np.random.default_rng(3).integers(0, 300, (12, 6)).tolist()


def text_with(tmp_path: Path, line: str) -> Path:
    file = tmp_path / "records.jsonl"
    file.write_text('{"a": {"acc_len": [1, 2]}}\n' + line, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"a": {"acc_len": [[1, 2]]}}', "got [[1, 2]]"),
        ('{"a": {"acc_len": [1, "2"]}}', "got [1, '2']"),
        ('{"a": {"acc_len": [1, true]}}', "got [1, True]"),
        ('{"a": {"acc_len": [1, 2.0]}}', "got [1, 2.0]"),
        ('{"a": {"acc_len": []}}', "got []"),
        ('{"a": {"acc_len": null}}', "got None"),
        (f'{{"a": {{"acc_len": [1, {2**63 - 1}]}}}}', "below 2**31"),
        ('{"a": {"acc_len": [1, NaN]}}', "NaN is not a JSON number"),
        ("[" * 100_000, "is damaged: not JSON"),
        ('{"a": {"acc_len": [1]}, "a": {"acc_len": [2]}}', "records.jsonl, line 2"),
        ('{"a": {"acc_len": [1]}} {}', "is damaged: not JSON"),
        ('{"a": [1]}', "must have one drafter, got none"),
        ("null", "must have one drafter, got none"),
    ],
    ids=range(13),
)
def test_lines_that_are_no_records_are_refused_by_line(tmp_path: Path, line: str, named: str) -> None:
    with pytest.raises(st.InputError, match="records.jsonl, line 2") as refusal:
        read_chain_records(text_with(tmp_path, line))
    assert named in str(refusal.value)


WIDE = np.full((3, 4), 0.25)


target: Any = TargetText
greedy: Any = GreedyText
chain: Any = ChainText


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: target([[0], [1, 2]], WIDE, WIDE), "tokens must be an array"),
        (lambda: target([True, False, True], WIDE, WIDE), "tokens must be a row of whole numbers, got bool"),
        (lambda: target([0, 1, 2], WIDE.astype(complex), WIDE), "p must be an array of float64 or of Fractions"),
        (lambda: target([0], [[None, 1]], [[0, 1]]), "p must be an array of float64 or of Fractions, got object"),
        (lambda: target([0, 1, 2], WIDE, WIDE[None, :0]), "got (3, 4) and (1, 0, 4)"),
        (lambda: target([1], [[1.0, 5e-324]], [[0.5, 0.5]]), "tokens[0] is 1, which p gives probability 4.94e-324"),
        (lambda: greedy([True]), "ranks must be whole numbers"),
        (lambda: greedy([0, 1], candidates=2.0), "candidates must be a whole number, got 2.0"),
        (lambda: greedy([0, 3], candidates=3), "ranks must be below candidates=3"),
        (lambda: chain([0, 1], "3"), "longest must be a whole number, got '3'"),
        (lambda: chain([False], 3), "accepted must be a row of whole numbers"),
    ],
    ids=range(11),
)
def test_what_is_no_text_is_refused(make: Callable[[], object], named: str) -> None:
    with pytest.raises(st.InputError) as refusal:
        make()
    assert named in str(refusal.value)


RARE = 1e-45
"""About the smallest probability that the softmax of float32 gives."""


def rare_text(n: int = 12) -> TargetText:
    """The target gives its tokens 0 and 1 in turn, at probability `RARE`; the draft never drafts the last four."""
    tokens = np.arange(n) % 2
    p, q = np.full((n, 3), RARE), np.full((n, 3), 0.25)
    p[:, 2], q[:, 2] = 1, 0.5
    q[n - 4 :] = [0, 0, 1]
    return TargetText(tokens, p, q)


@pytest.mark.parametrize(
    ("shape", "verifier", "rule"),
    [
        (st.Tree.chain(10), Block(), IID),
        (st.Tree.chain(10), Traversal(), IID),
        (st.Tree.chain(10), TopDown(Naive()), IID),
        (st.Tree.chain(10), TopDown(RRS()), IID),
        (st.Tree.k_ary(2, 3), Traversal(), NO_REPLACEMENT),
        (st.Tree.k_ary(2, 3), TopDown(RRS()), NO_REPLACEMENT),
        (Paths(2, 10), GreedyMultiPathBlock(), None),
        (Levels((1,) * 10), Traversal(), None),
    ],
    ids=lambda value: str(value),
)
def test_ratios_to_tiny_probabilities_stay_numbers(
    shape: st.Tree | st.core.world.DrawPolicy, verifier: Verifier, rule: st.DrawRule | None
) -> None:
    """Products of them are above the largest float64, and a q of 0 after them must give 0, not NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (kept,) = Replays([rare_text()]).kept(shape, verifier, rule)
    assert np.isfinite(kept).all()
    assert (kept >= 0).all()
    assert (kept[8:, 1:] == 0).all(), "the draft drafts none of the last tokens"


def test_products_of_ratios_are_exact_where_they_count() -> None:
    """Against the same products in Fractions."""
    text = rare_text()
    drafted, target = text.at_tokens(text.q[0]).tolist(), text.at_tokens(text.p).tolist()
    exact = [Fraction(q) / Fraction(p) for q, p in zip(drafted, target, strict=True)]
    ratios = np.array([[exact[(start + depth) % 12] for depth in range(10)] for start in range(12)], dtype=object)
    assert (kept_by_ratio(ratios.astype(np.float64)) == kept_by_ratio(ratios).astype(np.float64)).all()


SAMPLINGS = [Sampling(1.0, top_p=0.8), Sampling(1.0, top_k=3), Sampling(0.7, 40, 0.9), Sampling(0.005)]
AT_EDGES = [(8, 9), (3, 7), (0, 1), (0, 1)]
"""Of texts after `PROMPTS`, for each sampling: those of the first three hold tokens that rounding excludes.

Another processor may round otherwise: the deep cases have all texts.
"""


@pytest.fixture(scope="module")
def rounded(tiny_folders: Path) -> Pair:
    return load_pair(tiny_folders / "target", tiny_folders / "draft", dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("sampling", "requests"),
    [
        *zip(SAMPLINGS, AT_EDGES, strict=True),
        *(pytest.param(sampling, range(12), marks=pytest.mark.deep) for sampling in SAMPLINGS),
    ],
    ids=repr,
)
def test_texts_that_were_sampled_in_bfloat16_are_replayed(
    rounded: Pair, sampling: Sampling, requests: Sequence[int]
) -> None:
    """The decoder's cached forwards round differently from one forward of the whole text."""
    decoder = Decoder(rounded, PlannedTree(st.Tree.k_ary(2, 2)), sampling, TopDown(RRS()))
    prompts = [PROMPTS[i] for i in requests]
    texts = [
        decoder.generate(prompt, 60, *streams(rounded, 1, i)).tokens
        for i, prompt in zip(requests, prompts, strict=True)
    ]
    for text, tokens in zip(forced_texts(rounded, prompts, texts, sampling), texts, strict=True):
        assert (text.at_tokens(text.p) > 0).all()
        assert np.allclose(text.p.sum(1), 1)
        assert text.tokens.tolist() == tokens


@pytest.mark.parametrize("sampling", SAMPLINGS[:3], ids=repr)
def test_only_the_rows_that_exclude_their_token_are_changed(rounded: Pair, sampling: Sampling) -> None:
    """And a token far from the boundary is refused: the least probable of the vocabulary."""
    decoder = Decoder(rounded, PlannedTree(st.Tree.chain(0)), sampling)
    text = decoder.generate(PROMPTS[0], 40, *streams(rounded, 1)).tokens
    (found,) = forced_texts(rounded, PROMPTS[:1], [text], sampling)
    with torch.inference_mode():
        logits = rounded.target(torch.tensor([PROMPTS[0] + text])).logits[0, 5:-1].float()
    plain = sampling.distribution(logits).double().numpy()
    kept = plain[np.arange(40), text] > 0
    assert np.allclose(found.p[kept], plain[kept], atol=1e-6)
    wrong = [*text[:20], int(logits[20].argmin()), *text[21:]]
    with pytest.raises(st.InputError, match=r"tokens\[20\] is .* probability 0: the target cannot have generated"):
        list(forced_texts(rounded, PROMPTS[:1], [wrong], sampling))


def test_a_token_at_the_boundary_enters_and_one_beyond_it_does_not() -> None:
    """By hand: with units of 1/32 relative to a largest logit of 4, logits move by at most 1/8."""
    from reference.forced_logits import UNITS, _keep_tokens

    move = UNITS * torch.finfo(torch.bfloat16).eps * 4
    for gap, enters in ((1.9 * move, True), (2.1 * move, False)):
        logits = torch.tensor([[4.0, 2.0, 2.0 - gap, -3.0]])
        sampling = Sampling(1.0, top_k=2)
        p = sampling.distribution(logits)
        _keep_tokens(p, logits, [2], sampling, torch.bfloat16)
        assert bool(p[0, 2] > 0) is enters
        assert float(p.sum()) == pytest.approx(1)


BAD_TEXTS: list[tuple[Any, Any, str]] = [
    (PROMPTS[:2], [[1, 2]], "got 2 prompts and 1 texts"),
    ([], [], "got 0 prompts and 0 texts"),
    (PROMPTS[:1], [[]], "texts[0] must hold at least one token"),
    (PROMPTS[:1], [[1, 300]], "texts[0][1] is 300: token ids are whole numbers from 0 to 299"),
    (PROMPTS[:1], [[1, True]], "texts[0][1] is True"),
    (PROMPTS[:1], [torch.tensor([1, 2])], "texts[0] must be a list of token ids, got a Tensor"),
    ("ab", [[1], [2]], "prompts must be a list of lists of token ids, got a str"),
    (PROMPTS[:1], [[1] * 1019], "prompts[0] of 6 tokens and its text of 1019 need a context of 1025"),
]


@pytest.mark.parametrize(("prompts", "texts", "named"), BAD_TEXTS, ids=range(len(BAD_TEXTS)))
def test_prompts_and_texts_of_other_models_are_refused(tiny: Pair, prompts: Any, texts: Any, named: str) -> None:
    for replay in (
        lambda: forced_texts(tiny, prompts, texts, Sampling(1.0)),
        lambda: replay_drafter(tiny, PromptLookup(), prompts, texts, Sampling(1.0)),
    ):
        with pytest.raises(st.InputError) as refusal:
            replay()
        assert named in str(refusal.value)
