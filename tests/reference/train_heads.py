"""Texts of the tiny pair, and heads for them, for the tests of training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from reference.heads import Head, HeadConfig, Kind, new_head
from reference.models import Pair
from reference.prompts import load_prompts
from reference.tracing import TraceSettings, record_trace
from reference.train.head import head_config
from reference.train.own_texts import OwnTexts, corpus_pieces


def corpus(pair: Pair) -> list[list[int]]:
    """Token ids of a few held-out prompts of the shipped pair."""
    return [list(pair.tokenizer(text)["input_ids"]) for text in load_prompts(count=4)]  # type: ignore[arg-type]


def write_texts(pair: Pair, folder: Path, temperature: int) -> None:
    """Three texts of the target after pieces of these prompts."""
    prompts = corpus_pieces(corpus(pair), 3, 8, temperature)
    settings = TraceSettings("pieces", temperature, 1, 12, seed=temperature)
    record_trace(replace(pair, draft=None), prompts, settings, folder)


def own_texts(pair: Pair, folder: Path) -> OwnTexts:
    """The target's texts after pieces of these prompts, three greedy ones and three sampled ones."""
    folders = folder / "greedy", folder / "sampled"
    for temperature, one in enumerate(folders):
        write_texts(pair, one, temperature)
    return OwnTexts(*folders)


def config(pair: Pair, kind: Kind, draft_vocab_size: int | None = None) -> HeadConfig:
    made = head_config(pair.target, kind, intermediate_size=16, draft_vocab_size=draft_vocab_size)
    if kind != "eagle3":
        return made
    return replace(made, layers=(0, 1))


def head(pair: Pair, kind: Kind, seed: int = 0) -> Head:
    """A random head in the precision of the target, attached to it."""
    torch.manual_seed(seed)
    return new_head(config(pair, kind)).to(pair.target.dtype).attach(pair.target)
