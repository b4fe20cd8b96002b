"""The target's own texts, on which heads are trained: traces of the target after pieces of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from reference.models import Pair, weights_hash
from reference.part_files import short_hash, stamp_of
from reference.tracing import TraceSettings, read_trace, record_trace
from spectheory.core.checks import check_counts, check_whole
from spectheory.core.errors import InputError


class TextBatch(NamedTuple):
    """B texts of at most L tokens.

    Attributes:
        tokens: (B, L) int64, prompts and continuations, and 0 after their end.
        prompts: (B,) int64, number of tokens of each prompt.
        lengths: (B,) int64, number of tokens of prompt and continuation.
    """

    tokens: Tensor
    prompts: Tensor
    lengths: Tensor

    @property
    def own(self) -> Tensor:
        """(B, L) whether a token is the target's own."""
        places = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return (places >= self.prompts[:, None]) & (places < self.lengths[:, None])


def write_own_texts(
    pair: Pair,
    corpus: Sequence[list[int]],
    folder: Path,
    *,
    rows: int = 10_240,
    prompt_tokens: int = 64,
    new_tokens: int = 192,
    temperature: float = 1.0,
    seed: int = 0,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> None:
    """Let the target continue pieces of `corpus`: a trace with the target in place of the draft.

    Args:
        pair: the target; its draft is not used.
        corpus: token ids of texts from which prompts are cut. No held-out text may be among them.
        folder: folder of the trace. After an interruption the same call continues.
        rows: number of texts.
        prompt_tokens: number of tokens of the corpus with which each text starts.
        new_tokens: maximum number of tokens that the target generates after them.
        temperature: sampling temperature.
        seed: seed of the choice of prompts and of sampling.
        done: callback, see `record_trace`.

    Raises:
        InputError: a number is out of range, no text of the corpus is long enough, or as `record_trace`.
    """
    check_counts(1, rows=rows, prompt_tokens=prompt_tokens)
    check_whole("seed", seed, 0)
    alone = replace(pair, draft=pair.target, names=(pair.names[0], pair.names[0]))
    settings = TraceSettings("pieces of a corpus", temperature, 1, new_tokens, batch=64, seed=seed)
    record_trace(alone, _pieces(corpus, rows, prompt_tokens, seed), settings, folder, done)


def _pieces(corpus: Sequence[list[int]], rows: int, length: int, seed: int) -> list[list[int]]:
    """Pieces of the corpus, each position equally likely."""
    texts = [text for text in corpus if len(text) >= length]
    if not texts:
        raise InputError(f"corpus has no text of {length} tokens: lower prompt_tokens, or add longer texts")
    starts = np.array([len(text) - length + 1 for text in texts])
    rng = np.random.default_rng([seed, 0])
    chosen = rng.choice(len(texts), size=rows, p=starts / starts.sum())
    places = rng.integers(0, starts[chosen])
    return [texts[text][place : place + length] for text, place in zip(chosen, places, strict=True)]


class OwnTexts:
    """The texts of one or several traces that `write_own_texts` recorded.

    Attributes:
        rows: number of texts.
        identity: a hash of all tokens.

    Raises:
        InputError: a folder holds no trace or a damaged one.
    """

    def __init__(self, *folders: Path) -> None:
        found = [row for folder in folders for row in read_trace(folder)]
        texts = [[*row["prompt"], *row["text"]] for row in found]
        self.folders, self.rows, self.identity = folders, len(texts), short_hash(texts)
        self._texts = TextBatch(
            pad_sequence([torch.tensor(text) for text in texts], batch_first=True),
            torch.tensor([len(row["prompt"]) for row in found]),
            torch.tensor([len(text) for text in texts]),
        )

    def require_target(self, target: PreTrainedModel) -> None:
        """Raise InputError if another target wrote a text."""
        for folder in self.folders:
            if stamp_of(folder).settings["weights"] != weights_hash(target, target):
                raise InputError(f"{folder} holds texts of another target: write texts of this target")

    def batch(self, numbers: Sequence[int], device: torch.device | str = "cpu") -> TextBatch:
        """The texts of these numbers."""
        return TextBatch(*(rows[list(numbers)].to(device) for rows in self._texts))
