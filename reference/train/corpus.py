"""The corpus as tokens: tokenizer, encoding, held-out prompts, and training batches."""

from __future__ import annotations

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from reference.library_sources import SourceFile

SEPARATOR = "<|endoftext|>"


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer of `vocab_size` tokens, the separator included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, files: list[SourceFile]) -> np.ndarray:
    """Token ids of all files in one row, with a separator before each file; shape (tokens,), uint16."""
    separator = tokenizer.token_to_id(SEPARATOR)
    rows = [[separator, *e.ids] for e in tokenizer.encode_batch([f.text for f in files])]
    return np.concatenate([np.asarray(row, dtype=np.uint16) for row in rows])


def held_out_prompts(tokenizer: Tokenizer, tokens: np.ndarray, count: int, seed: int) -> list[str]:
    """Draw `count` pieces of at least 128 tokens that begin at the start of a line, from files of over 200 tokens."""
    rng, found = np.random.default_rng(seed), []
    files = np.split(tokens, np.flatnonzero(tokens == tokenizer.token_to_id(SEPARATOR)))
    files = [file[1:] for file in files if len(file) > 200]
    while len(found) < count:
        file = files[rng.integers(len(files))]
        start = rng.integers(len(file) - 199)
        text = tokenizer.decode(file[start : start + 200].tolist()).partition("\n")[2]
        if len(tokenizer.encode(text).ids) >= 128:
            found.append(text)
    return found


def batch(tokens: np.ndarray, rows: int, length: int, seed: int, step: int) -> np.ndarray:
    """Random windows of the corpus, (rows, length). They depend only on seed and step, so resuming needs no state."""
    starts = np.random.default_rng([seed, step]).integers(0, len(tokens) - length, size=rows)
    return np.stack([tokens[s : s + length] for s in starts]).astype(np.int64)
