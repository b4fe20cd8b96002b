"""The target's own texts, on which heads are trained: traces without a draft, after pieces of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from reference.models import weights_hash
from reference.part_files import short_hash, stamp_of
from reference.tracing import read_trace
from spectheory.core.checks import check_counts
from spectheory.core.errors import InputError


class TextBatch(NamedTuple):
    """B texts of at most L tokens.

    Attributes:
        tokens: (B, L) int64, prompts and continuations, and 0 after their end.
        own: (B, L) whether a token is the target's own.
    """

    tokens: Tensor
    own: Tensor


def corpus_pieces(corpus: Sequence[list[int]], rows: int, length: int, seed: int = 0) -> list[list[int]]:
    """Prompts of `length` tokens from texts of a corpus, each position equally likely.

    Raises:
        InputError: a number is out of range, or no text of the corpus is long enough.
    """
    check_counts(1, rows=rows, length=length)
    texts = [text for text in corpus if len(text) >= length]
    if not texts:
        raise InputError(f"corpus has no text of {length} tokens: cut shorter prompts, or add longer texts")
    starts = np.array([len(text) - length + 1 for text in texts])
    rng = np.random.default_rng([seed, 0])
    chosen = rng.choice(len(texts), size=rows, p=starts / starts.sum())
    places = rng.integers(0, starts[chosen])
    return [texts[text][place : place + length] for text, place in zip(chosen, places, strict=True)]


class OwnTexts:
    """The texts of one or several traces that were recorded without a draft.

    Attributes:
        rows: number of texts.
        identity: a hash of all tokens.

    Raises:
        InputError: a folder holds no trace or a damaged one.
    """

    def __init__(self, *folders: Path) -> None:
        found = [row for folder in folders for row in read_trace(folder)]
        texts = [[*row["prompt"], *row["text"]] for row in found]
        own = [[False] * len(row["prompt"]) + [True] * len(row["text"]) for row in found]
        self.folders, self.rows, self.identity = folders, len(texts), short_hash(texts)
        self._texts = [pad_sequence([torch.tensor(row) for row in rows], batch_first=True) for rows in (texts, own)]

    def require_target(self, target: PreTrainedModel) -> None:
        """Raise InputError if another target wrote a text, or a trace has a draft."""
        for folder in self.folders:
            if stamp_of(folder).settings["weights"] != weights_hash(target):
                raise InputError(f"{folder} holds a trace of other models: trace this target without a draft")

    def batch(self, numbers: Sequence[int], device: torch.device | str = "cpu") -> TextBatch:
        """The texts of these numbers."""
        return TextBatch(*(rows[list(numbers)].to(device) for rows in self._texts))
