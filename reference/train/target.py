"""Training of the shipped target from scratch: corpus, tokenizer, model folder, held-out prompts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.implementations import ByteLevelBPETokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from reference.library_sources import SourceFile, standard_library
from reference.train.loop import Done, fit
from spectheory.core.files import owned, write_whole

SEPARATOR = "<|endoftext|>"


@dataclass(frozen=True)
class Recipe:
    """All settings of the training: a model of the Llama architecture, with heads of width 32 and tied embeddings.

    `length` is the number of tokens of a training row, of which a step has `rows`, and the model's context; `hidden` is
    the width of the MLP, and `prompts` the number of held-out prompts.
    """

    vocab_size: int = 2048
    length: int = 1024
    layers: int = 18
    width: int = 160
    hidden: int = 320
    rows: int = 4
    steps: int = 1500
    prompts: int = 160
    seed: int = 0


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer of `vocab_size` tokens, the separator included."""
    tokenizer = ByteLevelBPETokenizer()
    options: dict[str, Any] = {"min_frequency": 0, "special_tokens": [SEPARATOR], "show_progress": False}
    tokenizer.train_from_iterator(iter(texts), vocab_size, **options)
    return Tokenizer.from_str(tokenizer.to_str())


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


def new_model(recipe: Recipe) -> LlamaForCausalLM:
    """A Llama model with fresh weights."""
    heads = max(1, recipe.width // 32)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=recipe.vocab_size,
            hidden_size=recipe.width,
            intermediate_size=recipe.hidden,
            num_hidden_layers=recipe.layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            max_position_embeddings=recipe.length,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a Hugging Face folder: config.json, model.safetensors in half precision, tokenizer.json."""
    model.half().save_pretrained(folder)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SEPARATOR, eos_token=SEPARATOR)
    wrapped.save_pretrained(folder)


def build_target(folder: Path, work: Path, recipe: Recipe, done: Done = lambda finished, total: None) -> None:
    """Train the target on the standard library and write `folder`: target, split.json and held_out.jsonl.

    The folder `work` holds the checkpoints of this recipe: after an interruption, the same call continues.
    """
    files = standard_library()
    train, held_out = ([file for file in files if file.is_held_out == held] for held in (False, True))
    tokenizer = train_tokenizer([file.text for file in train], recipe.vocab_size)
    tokens = encode(tokenizer, train)
    torch.manual_seed(recipe.seed)
    model = new_model(recipe)

    def loss(step: int) -> Tensor:
        rows = torch.from_numpy(batch(tokens, recipe.rows, recipe.length, recipe.seed, step))
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(rows, use_cache=False).logits.float()
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), rows[:, 1:].flatten())

    with owned(work, work / "writer.lock", "name another folder"):
        fit(model, loss, recipe.steps, (0.02, 0.003), work / "target.pt", done)
    export(model, tokenizer, folder / "target")
    split = {"train": [file.name for file in train], "held_out": [file.name for file in held_out]}
    write_whole(folder / "split.json", json.dumps(split, indent=0) + "\n")
    prompts = held_out_prompts(tokenizer, encode(tokenizer, held_out), recipe.prompts, recipe.seed)
    write_whole(folder / "held_out.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in prompts))
