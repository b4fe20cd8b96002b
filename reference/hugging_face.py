"""transformers' own decoding of the same pair, timed from outside: plain, assisted, and prompt lookup."""

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
    """Continue `prompt` with `target.generate`; stop tokens are ignored. Both models keep their generation settings.

    Args:
        pair: target and draft.
        prompt: token ids.
        new_tokens: length of the text.
        sampling: passed in full, so that defaults of a model's folder have no effect.
        chain: for assisted generation: tokens that the draft model drafts in every cycle.
        lookup: for prompt lookup: tokens that are copied from an earlier occurrence of the text's end.
        seed: of torch's global generator, the only one that transformers draws from; its state is restored afterwards.

    Raises:
        LogitsError: a model returns logits that are not a distribution.
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
    """Set generation settings for a while: `generate` fills gaps from the models' own settings, and changes those."""
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
    """Silence transformers: assisted generation warns of the way in which it calls `generate` itself."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


class _Watch(BaseStreamer):
    """A streamer that counts tokens: transformers passes it the prompt, then what each target call emitted.

    Attributes:
        emitted: number of tokens of each call, that of the prompt first.
        started: when the first tokens were emitted.
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
