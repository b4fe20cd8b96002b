"""transformers' own decoding on the same pair: plain, assisted, prompt lookup; timed from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.streamers import BaseStreamer
from transformers.utils import logging

from reference.decode import Generation
from reference.logits import LogitsError, no_distribution
from reference.models import Pair
from reference.sampling import Sampling

LOOKUP_TOKENS = 10
"""Tokens that prompt lookup copies, as in the published code."""


def generate(
    pair: Pair,
    prompt: list[int],
    new_tokens: int,
    sampling: Sampling,
    *,
    chain: int | None = None,
    lookup: int | None = None,
    seed: int = 0,
) -> Generation:
    """`new_tokens` tokens by `target.generate`; stop tokens end nothing. Both models keep their generation settings.

    Args:
        pair: target and draft.
        prompt: what is continued.
        new_tokens: tokens of text.
        sampling: made explicit, so that no default of a model's folder counts.
        chain: assisted generation: the draft model drafts this many tokens in every cycle.
        lookup: prompt lookup: as many are copied from where the text's end stood before.
        seed: of torch's global generator, the only one that transformers draws from; it is set back afterwards.

    Raises:
        LogitsError: a model gives logits that nothing can be drawn from.
    """
    options: dict[str, Any] = {} if chain is None else {"assistant_model": pair.draft}
    watch = _Watch()
    drawing = {"do_sample": False} if sampling.greedy else {"do_sample": True, **_sampled(sampling)}
    ours = GenerationConfig(
        max_new_tokens=new_tokens,
        pad_token_id=0,
        use_cache=True,
        prompt_lookup_num_tokens=lookup,
        **drawing,  # type: ignore[arg-type]
    )
    assistant = GenerationConfig(
        pad_token_id=0,
        num_assistant_tokens=chain or 1,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )
    row, model = torch.tensor([prompt], device=pair.device), pair.target
    with _configured(pair, ours, assistant), _seeded(pair, seed), _quiet():
        try:
            text: Any = model.generate(  # type: ignore[operator]
                row, attention_mask=torch.ones_like(row), streamer=watch, **options
            )
        except RuntimeError as error:
            if "probability tensor" not in str(error):
                raise
            names = f"target {pair.names[0]}" + (f" or draft {pair.names[1]}" if chain else "")
            where = f"after token {sum(watch.emitted)}"
            raise LogitsError(no_distribution(names, pair.target.dtype, where)) from error
        tokens = text[0, len(prompt) :].tolist()
        seconds = time.perf_counter() - watch.started
    return Generation(tokens, [emitted - 1 for emitted in watch.emitted[2:]], watch.started, seconds)


def _sampled(sampling: Sampling) -> dict[str, float]:
    return {"temperature": sampling.temperature, "top_k": sampling.top_k or 0, "top_p": sampling.top_p}


@contextmanager
def _configured(pair: Pair, target: GenerationConfig, draft: GenerationConfig) -> Iterator[None]:
    """Other generation settings for a while. `generate` fills gaps from the models' own, and writes into those."""
    before = pair.target.generation_config, pair.draft.generation_config
    pair.target.generation_config, pair.draft.generation_config = target, draft
    try:
        yield
    finally:
        pair.target.generation_config, pair.draft.generation_config = before


@contextmanager
def _seeded(pair: Pair, seed: int) -> Iterator[None]:
    with torch.random.fork_rng([pair.device] if pair.device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' advice: assisted generation warns of the way in which it calls `generate` itself."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


class _Watch(BaseStreamer):
    """Told of the prompt, then of what each target call emitted.

    Attributes:
        emitted: tokens at a time, the prompt's number first.
        started: when the first were there.
    """

    def __init__(self) -> None:
        self.emitted: list[int] = []
        self.started = 0.0

    def put(self, value: Tensor) -> None:
        """See BaseStreamer."""
        self.emitted.append(value.numel())
        if len(self.emitted) == 2:
            self.started = time.perf_counter()

    def end(self) -> None:
        """See BaseStreamer."""
