"""Training of the shipped models from scratch: corpus, tokenizer, target, distilled draft, head, model folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from reference.library_sources import SourceFile, standard_library
from reference.losses import Eagle, Eagle3
from reference.model_folders import WEIGHTS
from reference.models import Pair, load_pair
from reference.part_files import STAMP
from reference.prompts import training_texts
from reference.train.corpus import SEPARATOR, batch, encode, held_out_prompts, train_tokenizer
from reference.train.head import RECORD, STARTED_RATE, HeadRecipe, head_config, train_head
from reference.train.loop import Done, LearningRates, fit
from reference.train.own_texts import OwnTexts, TextSettings, write_own_texts
from reference.train.recipe import LayerSizes, Recipe
from spectheory.core.errors import InputError
from spectheory.core.files import owned, read_json, whole_file, write_whole


@dataclass(frozen=True)
class Corpus:
    """The tokenizer, the token ids of training and held-out files, and the names of these files (`split`)."""

    tokenizer: Tokenizer
    train: np.ndarray
    held_out: np.ndarray
    split: dict[str, list[str]]


Files = Callable[[], list[SourceFile]]


def prepare_corpus(recipe: Recipe, work: Path, files: Files | None = None) -> Corpus:
    """Read, split and tokenize `files`, by default the standard library. Results in the folder `work` are reused."""
    tokenizer_file, tokens_file, split_file = (work / name for name in ("tokenizer.json", "tokens.npz", "split.json"))
    if not tokens_file.exists():
        found = (files or standard_library)()
        train = [f for f in found if not f.is_held_out]
        held_out = [f for f in found if f.is_held_out]
        tokenizer = train_tokenizer([f.text for f in train], recipe.vocab_size)
        tokenizer.save(str(tokenizer_file))
        split = {"train": [f.name for f in train], "held_out": [f.name for f in held_out]}
        write_whole(split_file, json.dumps(split, indent=0) + "\n")
        with whole_file(tokens_file) as partial, partial.open("wb") as file:
            np.savez(file, train=encode(tokenizer, train), held_out=encode(tokenizer, held_out))
    tokens = np.load(tokens_file, allow_pickle=False)
    return Corpus(
        Tokenizer.from_file(str(tokenizer_file)),
        tokens["train"],
        tokens["held_out"],
        read_json(split_file),
    )


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


def overlap(p: Tensor, q: Tensor) -> Tensor:
    """Mean over positions of sum_x min(p, q), the acceptance of one draft at temperature 1."""
    return torch.minimum(p, q).sum(-1).mean()


def train_target(
    recipe: Recipe, corpus: Corpus, work: Path, device: str = "cpu", done: Done = lambda finished, total: None
) -> LlamaForCausalLM:
    """Train the target by next-token cross-entropy on the training files."""
    torch.manual_seed(recipe.seed)
    model = new_model(recipe.target, recipe).to(device)  # type: ignore[arg-type]

    def loss(step: int) -> Tensor:
        tokens = torch.from_numpy(batch(corpus.train, recipe.rows, recipe.length, recipe.seed, step)).to(device)
        predicted = logits(model, tokens)[:, :-1].flatten(0, 1)
        return torch.nn.functional.cross_entropy(predicted, tokens[:, 1:].flatten())

    fit(model, loss, LearningRates(recipe.target_steps), work / "target.pt", done)
    return model


def train_draft(
    recipe: Recipe,
    corpus: Corpus,
    target: LlamaForCausalLM,
    work: Path,
    device: str = "cpu",
    done: Done = lambda finished, total: None,
) -> LlamaForCausalLM:
    """Train the draft by the total variation between both models' next-token distributions on the training files.

    Total variation is the probability that one drafted token is rejected at temperature 1. Its gradient is small where
    the distributions are far apart, so a falling share of forward KL is added over the first half of the steps. If both
    models have the same width, the draft starts with the target's embedding.
    """
    torch.manual_seed(recipe.seed + 1)
    model = new_model(recipe.draft, recipe).to(device)  # type: ignore[arg-type]
    if recipe.draft.width == recipe.target.width:
        model.model.embed_tokens.weight.data.copy_(target.model.embed_tokens.weight.data)

    def loss(step: int) -> Tensor:
        tokens = torch.from_numpy(batch(corpus.train, recipe.rows, recipe.length, recipe.seed + 1, step)).to(device)
        with torch.no_grad():
            p = logits(target, tokens).softmax(-1)
        q = logits(model, tokens).log_softmax(-1)
        share = max(0.0, 1 - 2 * step / recipe.draft_steps)
        return 1 - overlap(p, q.exp()) - share * (p * q).sum(-1).mean()

    fit(model, loss, LearningRates(recipe.draft_steps), work / "draft.pt", done)
    return model


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a Hugging Face folder: config.json, model.safetensors in half precision, tokenizer.json."""
    model.half().save_pretrained(folder)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SEPARATOR, eos_token=SEPARATOR)
    wrapped.save_pretrained(folder)


@contextmanager
def said(stage: str, say: Callable[[str], None] = print) -> Iterator[Done]:
    """Context with a callback that says how far a stage is, once a minute and at its end."""
    begun, last = monotonic(), monotonic()

    def done(finished: int, total: int) -> None:
        nonlocal last
        if monotonic() - last > 60 or finished == total:
            last = monotonic()
            say(f"{stage}: {finished:,} of {total:,}, {last - begun:.0f} s")

    yield done


def build_pair(folder: Path, work: Path, recipe: Recipe | None = None, say: Callable[[str], None] = print) -> None:
    """Train the models and write `folder`: target, draft, head, split.json and held_out.jsonl.

    The folder `work` holds the checkpoints: after an interruption, the same call continues. At the end it says the
    losses on held-out text.
    """
    recipe = recipe or Recipe()
    corpus = train_pair(folder, work, recipe, say=say)
    train_shipped_head(folder, work, recipe, say)
    losses, accepted = on_text(load_pair(folder / "target", folder / "draft"), corpus.held_out, recipe.length)
    nats = ", ".join(f"{role} {loss:.3f}" for role, loss in losses.items())
    say(f"wrote {folder}; held-out loss in nats per token: {nats}; E[sum min(p, q)] of the draft {accepted:.3f}")


def train_shipped_head(folder: Path, work: Path, recipe: Recipe, say: Callable[[str], None] = print) -> None:
    """Train the head for the target in `folder` on the target's own texts, and write it there as `head`.

    An EAGLE-1 head by EAGLE's loss, then by cross-entropy along the text. The folder `work` holds the texts and the
    checkpoints: after an interruption, the same call continues.
    """
    how, pair = recipe.head, load_pair(folder / "target", folder / "draft")
    prompt, new = min(64, recipe.length // 4), min(192, recipe.length // 2)
    settings = TextSettings(rows=how.texts, prompt_tokens=prompt, new_tokens=new, seed=recipe.seed)
    with said("texts", say) as done:
        write_own_texts(pair, training_texts(pair), settings, work / "texts", done)
    texts, config = OwnTexts(work / "texts"), head_config(pair.target, "eagle1", intermediate_size=how.hidden)
    first = HeadRecipe(Eagle(), how.start_steps, how.rows, recipe.seed)
    with said("start of the head", say) as done:
        train_head(pair, texts, work / "start", first, config, done)
    chained = HeadRecipe(Eagle3(passes=how.passes), how.steps, how.rows, recipe.seed, STARTED_RATE)
    with said("head", say) as done:
        train_head(load_pair(folder / "target", work / "start"), texts, work / "head", chained, done=done)
    (folder / "head").mkdir(exist_ok=True)
    for name in ("config.json", WEIGHTS, STAMP, RECORD):
        shutil.copyfile(work / "head" / name, folder / "head" / name)


@torch.inference_mode()
def on_text(pair: Pair, held_out: np.ndarray, length: int, most: int = 64) -> tuple[dict[str, float], float]:
    """Loss on held-out text by role, in nats per token, and the mean of sum min(p, q), over at most `most` rows."""
    rows = min(most, len(held_out) // length)
    text = torch.from_numpy(held_out[: rows * length].astype(np.int64)).view(rows, length).to(pair.device)
    sums = np.zeros(3)
    for row in text:
        both: list[Tensor] = [model(row[None]).logits[0, :-1].float() for model in (pair.target, pair.draft)]
        sums[:2] += [float(torch.nn.functional.cross_entropy(one, row[1:])) for one in both]
        sums[2] += float(overlap(*(one.softmax(-1) for one in both)))
    target, draft, accepted = sums / rows
    return {"target": target, "draft": draft}, accepted


def train_pair(
    folder: Path,
    work: Path,
    recipe: Recipe,
    *,
    files: Files | None = None,
    device: str = "cpu",
    say: Callable[[str], None] = print,
) -> Corpus:
    """Train a target and a draft on any files and any device, and return the corpus."""
    with owned(work, work / "writer.lock", "name another folder"):
        remember = work / "recipe.json"
        if remember.exists() and read_json(remember) != asdict(recipe):
            raise InputError(f"{work} holds the work of another recipe: name an empty folder or remove this one")
        write_whole(remember, json.dumps(asdict(recipe), indent=1) + "\n")
        corpus = prepare_corpus(recipe, work, files)
        say(f"corpus: {len(corpus.train):,} training tokens, {len(corpus.held_out):,} held-out tokens")
        with said("target", say) as done:
            target = train_target(recipe, corpus, work, device, done)
        with said("draft", say) as done:
            draft = train_draft(recipe, corpus, target, work, device, done)
        export(target, corpus.tokenizer, folder / "target")
        export(draft, corpus.tokenizer, folder / "draft")
        write_whole(folder / "split.json", json.dumps(corpus.split, indent=0) + "\n")
        prompts = held_out_prompts(corpus.tokenizer, corpus.held_out, recipe.prompts, recipe.seed)
        write_whole(folder / "held_out.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in prompts))
    return corpus
