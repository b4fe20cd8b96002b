"""Training of the shipped pair from scratch: corpus, tokenizer, target, head, model folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from reference.library_sources import SourceFile, standard_library
from reference.losses import Eagle, Eagle3
from reference.model_folders import WEIGHTS
from reference.models import load_pair
from reference.part_files import STAMP
from reference.prompts import training_texts
from reference.train.head import RECORD, STARTED_RATE, HeadRecipe, head_config, train_head
from reference.train.loop import Done, LearningRates, fit
from reference.train.own_texts import OwnTexts, TextSettings, write_own_texts
from spectheory.core.errors import InputError
from spectheory.core.files import owned, read_json, whole_file, write_whole

SEPARATOR = "<|endoftext|>"


@dataclass(frozen=True)
class LayerSizes:
    """Sizes of a model of the Llama architecture, with heads of width 32 and tied embeddings."""

    layers: int
    width: int
    hidden: int


@dataclass(frozen=True)
class HeadSteps:
    """How the head is trained on the target's own texts: an EAGLE-1 head by EAGLE's loss, then by cross-entropy.

    Attributes:
        hidden: width of its MLP.
        texts: number of texts that the target writes.
        rows: number of texts in a step.
        start_steps: steps by EAGLE's loss, from random weights.
        steps: steps by cross-entropy along the text, with `passes` passes over the head's own states.
        passes: see `steps`.
    """

    hidden: int = 1536
    texts: int = 5_120
    rows: int = 16
    start_steps: int = 1000
    steps: int = 1600
    passes: int = 3


@dataclass(frozen=True)
class Recipe:
    """All settings of the training. `length` is the number of tokens of a training row, and the models' context."""

    vocab_size: int = 2048
    length: int = 1024
    rows: int = 4
    target: LayerSizes = LayerSizes(layers=18, width=160, hidden=320)
    head: HeadSteps = HeadSteps()
    target_steps: int = 1500
    prompts: int = 160
    seed: int = 0


@dataclass(frozen=True)
class Corpus:
    """The tokenizer, the token ids of training and held-out files, and the names of these files (`split`)."""

    tokenizer: Tokenizer
    train: np.ndarray
    held_out: np.ndarray
    split: dict[str, list[str]]


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


def prepare_corpus(recipe: Recipe, work: Path) -> Corpus:
    """Read, split and tokenize the standard library. Results in the folder `work` are reused."""
    tokenizer_file, tokens_file, split_file = (work / name for name in ("tokenizer.json", "tokens.npz", "split.json"))
    if not tokens_file.exists():
        files = standard_library()
        train, held_out = ([file for file in files if file.is_held_out == held] for held in (False, True))
        tokenizer = train_tokenizer([file.text for file in train], recipe.vocab_size)
        tokenizer.save(str(tokenizer_file))
        split = {"train": [file.name for file in train], "held_out": [file.name for file in held_out]}
        write_whole(split_file, json.dumps(split, indent=0) + "\n")
        with whole_file(tokens_file) as partial, partial.open("wb") as file:
            np.savez(file, train=encode(tokenizer, train), held_out=encode(tokenizer, held_out))
    tokens = np.load(tokens_file, allow_pickle=False)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    return Corpus(tokenizer, tokens["train"], tokens["held_out"], read_json(split_file))


def new_model(shape: LayerSizes, recipe: Recipe) -> LlamaForCausalLM:
    """A Llama model with fresh weights."""
    heads = max(1, shape.width // 32)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=recipe.vocab_size,
            hidden_size=shape.width,
            intermediate_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            max_position_embeddings=recipe.length,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def logits(model: LlamaForCausalLM, tokens: Tensor) -> Tensor:
    """Next-token logits (rows, length, V) in float32, from a forward in bfloat16."""
    with torch.autocast(tokens.device.type, torch.bfloat16):
        return model(tokens, use_cache=False).logits.float()


def train_target(recipe: Recipe, corpus: Corpus, work: Path, done: Done) -> LlamaForCausalLM:
    """Train the target by next-token cross-entropy on the training files."""
    torch.manual_seed(recipe.seed)
    model = new_model(recipe.target, recipe)

    def loss(step: int) -> Tensor:
        tokens = torch.from_numpy(batch(corpus.train, recipe.rows, recipe.length, recipe.seed, step))
        predicted = logits(model, tokens)[:, :-1].flatten(0, 1)
        return torch.nn.functional.cross_entropy(predicted, tokens[:, 1:].flatten())

    fit(model, loss, LearningRates(recipe.target_steps), work / "target.pt", done)
    return model


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a Hugging Face folder: config.json, model.safetensors in half precision, tokenizer.json."""
    model.half().save_pretrained(folder)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SEPARATOR, eos_token=SEPARATOR)
    wrapped.save_pretrained(folder)


@contextmanager
def said(stage: str) -> Iterator[Done]:
    """Context with a callback that prints how far a stage is, once a minute and at its end."""
    begun, last = monotonic(), monotonic()

    def done(finished: int, total: int) -> None:
        nonlocal last
        if monotonic() - last > 60 or finished == total:
            last = monotonic()
            print(f"{stage}: {finished:,} of {total:,}, {last - begun:.0f} s", flush=True)

    yield done


def build_pair(folder: Path, work: Path, recipe: Recipe | None = None) -> None:
    """Train the models and write `folder`: target, head, split.json and held_out.jsonl.

    The folder `work` holds the checkpoints: after an interruption, the same call continues.
    """
    recipe, remember = recipe or Recipe(), work / "recipe.json"
    with owned(work, work / "writer.lock", "name another folder"):
        if remember.exists() and read_json(remember) != asdict(recipe):
            raise InputError(f"{work} holds the work of another recipe: name an empty folder or remove this one")
        write_whole(remember, json.dumps(asdict(recipe), indent=1) + "\n")
        corpus = prepare_corpus(recipe, work)
        with said("target") as done:
            target = train_target(recipe, corpus, work, done)
        export(target, corpus.tokenizer, folder / "target")
        write_whole(folder / "split.json", json.dumps(corpus.split, indent=0) + "\n")
        prompts = held_out_prompts(corpus.tokenizer, corpus.held_out, recipe.prompts, recipe.seed)
        write_whole(folder / "held_out.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in prompts))
        train_shipped_head(folder, work, recipe)


def train_shipped_head(folder: Path, work: Path, recipe: Recipe) -> None:
    """Train the head for the target in `folder` on the target's own texts, and write it there as `head`.

    An EAGLE-1 head by EAGLE's loss, then by cross-entropy along the text.
    """
    how, pair = recipe.head, load_pair(folder / "target", folder / "target")
    prompt, new = min(64, recipe.length // 4), min(192, recipe.length // 2)
    settings = TextSettings(rows=how.texts, prompt_tokens=prompt, new_tokens=new, seed=recipe.seed)
    with said("texts") as done:
        write_own_texts(pair, training_texts(pair), settings, work / "texts", done)
    texts, config = OwnTexts(work / "texts"), head_config(pair.target, "eagle1", intermediate_size=how.hidden)
    first = HeadRecipe(Eagle(), how.start_steps, how.rows, recipe.seed)
    with said("start of the head") as done:
        train_head(pair, texts, work / "start", first, config, done)
    chained = HeadRecipe(Eagle3(passes=how.passes), how.steps, how.rows, recipe.seed, STARTED_RATE)
    with said("head") as done:
        train_head(load_pair(folder / "target", work / "start"), texts, work / "head", chained, done=done)
    (folder / "head").mkdir(exist_ok=True)
    for name in ("config.json", WEIGHTS, STAMP, RECORD):
        shutil.copyfile(work / "head" / name, folder / "head" / name)
