"""Decoding by transformers' own `generate`, timed: plain, assisted, and prompt lookup."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
"""Number of tokens that prompt lookup copies, as in the published code."""


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
    """Continue `prompt` with `target.generate`. The models keep their settings, of which only the stop tokens count.

    Args:
        pair: target and draft.
        prompt: token ids.
        new_tokens: number of tokens of the text.
        sampling: temperature, top-k and top-p; defaults in the model folder have no effect.
        chain: number of tokens that the draft model drafts per cycle, for assisted generation; None for no assistant.
        lookup: number of tokens that prompt lookup copies per cycle; None for no prompt lookup.
        seed: seed of torch's global generator, whose state is restored afterwards.

    Raises:
        InputError: `chain` is given and the draft is a draft head.
        LogitsError: a model returns logits that give no probabilities.
    """
    if chain is not None:
        pair.require_draft_model("assisted generation of transformers")
    options: dict[str, Any] = {} if chain is None else {"assistant_model": pair.draft}
    watch = _Watch()
    drawing: dict[str, Any] = {"do_sample": not sampling.greedy}
    if not sampling.greedy:
        drawing |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k or 0}
    ours = GenerationConfig(
        max_new_tokens=new_tokens,
        eos_token_id=sorted(pair.stop_tokens) or None,
        pad_token_id=0,
        use_cache=True,
        prompt_lookup_num_tokens=lookup,
        **drawing,
    )
    assistant = GenerationConfig(
        pad_token_id=0,
        num_assistant_tokens=chain or 1,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )
    row, model = torch.tensor([prompt], device=pair.device), pair.target
    restored = torch.random.fork_rng([pair.device] if pair.device.type == "cuda" else [])
    with _configured(pair, ours, assistant), restored:
        torch.manual_seed(seed)
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


@contextmanager
def _configured(pair: Pair, target: GenerationConfig, draft: GenerationConfig) -> Iterator[None]:
    """Set generation settings for a while, because `generate` reads and changes the models' own, and warns of that."""
    verbosity = logging.get_verbosity()
    with ExitStack() as stack:
        stack.callback(logging.set_verbosity, verbosity)
        logging.set_verbosity_error()
        for model, config in zip(pair.models, (target, draft), strict=False):
            stack.callback(setattr, model, "generation_config", model.generation_config)
            model.generation_config = config
        yield


class _Watch(BaseStreamer):
    def __init__(self) -> None:
        self.emitted: list[int] = []
        self.started = 0.0

    def put(self, value: Tensor) -> None:
        self.emitted.append(value.numel())
        if len(self.emitted) == 2:
            self.started = time.perf_counter()

    def end(self) -> None:
        """Needed by the base class; there is nothing to do at the end."""
