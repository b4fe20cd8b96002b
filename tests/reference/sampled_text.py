"""Sampled text of a pair so small that the joint distribution of three tokens can be enumerated."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from transformers import LlamaForCausalLM

from reference.decode import Decoder
from reference.models import Pair
from reference.random_streams import streams
from reference.train.target import Recipe, new_model
from tests.reference.remembered import remembered

TINY = Recipe(vocab_size=300, length=1024, layers=2, width=64, hidden=128)
TOKENS, LENGTH = 6, 3
many_texts = pytest.mark.parametrize("samples", [600, pytest.param(1500, marks=pytest.mark.deep)])


def restless(model: LlamaForCausalLM, seed: int, scale: float) -> None:
    """Add noise to all matrices: a random model whose text does not settle on one token."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data += scale * torch.randn(parameter.shape, generator=generator)


@cache
def small_vocabulary() -> Pair:
    """A pair over `TOKENS` tokens, the draft being the target with noise; both answer from memory."""
    recipe = replace(TINY, vocab_size=TOKENS)
    models = []
    for noise in (0.0, 0.2):
        torch.manual_seed(0)
        model = new_model(recipe)
        restless(model, seed=1, scale=0.3)
        restless(model, seed=2, scale=noise)
        models.append(model.eval().double())
    return remembered(Pair(models[0], models[1], tokenizer=None, names=("six", "six")))  # type: ignore[arg-type]


CELLS = list(itertools.product(range(TOKENS), repeat=LENGTH))


@cache
def law_after(prompt: tuple[int, ...]) -> np.ndarray:
    """The target's probability of each cell after a prompt; the pair has then learned the texts that decoding needs."""
    pair: Any = small_vocabulary()
    texts = torch.tensor([[*prompt, *text] for text in itertools.product(range(TOKENS), repeat=LENGTH + 1)])
    with torch.inference_mode():
        for model in (pair.target, pair.draft):
            model.learn(texts)
        p = torch.softmax(pair.target.model(torch.tensor([[*prompt, *cell] for cell in CELLS])).logits, -1)
    after = len(prompt) - 1 + torch.arange(LENGTH)
    return p[torch.arange(len(CELLS))[:, None], after, torch.tensor(CELLS)].prod(1).numpy()


def chi_square(decoder: Decoder, prompt: list[int], samples: int, seed: int) -> tuple[float, int]:
    """(p-value of the joint distribution of three tokens, rare cells pooled; number of accepted drafted tokens).

    The decoder is one of `small_vocabulary`.
    """
    expected = law_after((*prompt,)) * samples
    draft_rng, rng = streams(decoder.pair, seed)
    counts, accepted = np.zeros(len(CELLS)), 0
    for _ in range(samples):
        text = decoder.generate(prompt, LENGTH, draft_rng, rng)
        counts[CELLS.index(tuple(text.tokens))] += 1
        accepted += sum(text.accepted)
    rare = expected < 5
    seen, due = (np.append(values[~rare], values[rare].sum()) for values in (counts, expected))
    return float(chi2.sf(((seen - due) ** 2 / due).sum(), len(due) - 1)), accepted


def generated(pair: Pair, prompt: list[int], new_tokens: int, stop: int | None = None) -> list[int]:
    """What transformers' own greedy decoding of the target gives, in its precision and on its device; once for all."""
    return list(_generated(pair.target, tuple(prompt), new_tokens, stop))


@cache
def _generated(target: Any, prompt: tuple[int, ...], new_tokens: int, stop: int | None) -> list[int]:
    text = target.generate(
        torch.tensor([prompt], device=target.device),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=target.device),
        do_sample=False,
        max_new_tokens=new_tokens,
        eos_token_id=stop,
        pad_token_id=0,
    )
    return text[0, len(prompt) :].tolist()


def logits_for(likely: dict[int, list[int]], tokens: Sequence[int]) -> torch.Tensor:
    """(n, 300) logits after each of `tokens`: decreasing over its likely successors, far lower for all other tokens."""
    logits = torch.full((len(tokens), 300), -30.0)
    for row, token in enumerate(tokens):
        for rank, successor in enumerate(likely.get(token, [])):
            logits[row, successor] = -rank
    return logits
