"""`compare_texts`: rounding is told from a planted wrong token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from reference.divergence import SLACK, TextComparison, compare_texts
from tests.helpers import known, refuses

SAMPLES = Path(__file__).parents[2] / "spectheory" / "data" / "samples"
IDS: dict[str, list[int]] = {
    name: json.loads((SAMPLES / f"{name}.json").read_text()) for name in ("prompt", "plain", "speculative", "wrong")
}


def compare(other: str, **given: object) -> TextComparison:
    return compare_texts(IDS["prompt"], IDS["plain"], IDS[other], **given)  # pyrefly: ignore[bad-argument-type]


def test_texts_that_differ_by_rounding_are_told_from_a_wrong_token() -> None:
    rounded, wrong, same = compare("speculative"), compare("wrong"), compare("plain")
    assert (rounded.verdict, wrong.verdict, same.verdict) == ("rounding", "not explained", "equal")
    assert same.divergence is None
    assert known(wrong.divergence).position == 9, "where the sample was changed"
    assert known(wrong.divergence).margin == pytest.approx(wrong.shortfall, abs=1e-4)
    divergence = known(rounded.divergence)
    assert IDS["plain"][: divergence.position] == IDS["speculative"][: divergence.position]
    assert divergence.tokens == (IDS["plain"][divergence.position], IDS["speculative"][divergence.position])
    assert divergence.logits[0] > divergence.logits[1], "the float32 text has the larger logit"
    for found in (rounded, wrong, same):
        assert 0 < found.rounding < 1
        assert (found.shortfall > SLACK * found.rounding) == (found.verdict == "not explained")


def test_texts_without_tokens_or_with_unknown_ones_are_refused() -> None:
    refuses("prompt must have at least one token", compare_texts, [], [1], [1])
    refuses("one must have at least one token", compare_texts, [1], [], [1])
    refuses(r"other\[0\] is 2048: token ids are whole numbers from 0 to 2047", compare_texts, [1], [1], [2048])
    refuses("one must be a list of token ids, got a str", compare_texts, [1], "x", [1])
    refuses("dtype must be one of", compare_texts, [1], [1], [1], dtype=torch.int8)
    refuses(r"holds no config\.json", compare_texts, [1], [1], [1], target=SAMPLES)
    refuses("device must be", compare_texts, [1], [1], [1], device="absent")
