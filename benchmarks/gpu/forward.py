"""A device, and forwards of a batch of sequences on a filled cache: launched from Python, or as a CUDA graph.

The models are transformers' own, with random weights in bfloat16. Two things differ from what `generate` runs, so that
copies that no engine makes are not timed. The cache has a fixed place in memory and rows are written into it. Attention
reads each key and value once for all query heads that share it, while transformers' SDPA repeats them in memory as soon
as there is a mask.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, Cache
from transformers.cache_utils import DynamicLayer

import spectheory
from reference.cuda_graphs import captured
from reference.fused_forward import ATTENTION
from spectheory import Provenance
from spectheory.core.errors import InputError

DRY_RUN = "dry run"
"""The device's name in a dry run; no GPU has this name."""
DRY_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Place:
    """A device with the driver's name of it; `memory_bytes` is its total memory."""

    device: str
    name: str
    memory_bytes: float

    @classmethod
    def found(cls, *, dry_run: bool) -> Place:
        """The first CUDA device, or the CPU for a dry run.

        Raises:
            InputError: there is no CUDA device.
        """
        if dry_run:
            torch.set_num_threads(1)  # tiny models gain nothing from threads, and on a busy machine they wait
            return cls("cpu", DRY_RUN, DRY_BYTES)
        if not torch.cuda.is_available():
            raise InputError(
                f"no CUDA device: torch {torch.__version__} sees none. Run this on a machine with a GPU, or add "
                "--dry-run, which goes through the same steps with tiny shapes on the CPU and measures nothing"
            )
        about = torch.cuda.get_device_properties(0)
        return cls("cuda", about.name, about.total_memory)

    @property
    def dry(self) -> bool:
        """Whether this is a dry run."""
        return self.name == DRY_RUN

    def stamp(self, part: str, seed: int, **settings: object) -> Provenance:
        """The provenance of a record that is made here and now."""
        return Provenance.now(
            f"python -m benchmarks.gpu {part}",
            seed=seed,
            packages=("torch", "transformers"),
            device=self.name,
            settings={
                "memory_gb": f"{self.memory_bytes / 1e9:.1f}",
                "cuda": torch.version.cuda,
                "checkout": spectheory.__version__,
                **{name: str(value) for name, value in settings.items()},
            },
        )


CONTEXT_LIMIT = 8192
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 256,
}
"""Sizes of the models in a dry run."""


def config_of(name: str, place: Place) -> dict[str, Any]:
    """The shipped config of a model; a dry run replaces its sizes by tiny ones."""
    text = (files("spectheory") / "data" / "models" / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text) | (TINY if place.dry else {})


def random_model(config: dict[str, Any], place: Place, seed: int, attention: str = ATTENTION) -> Any:
    """A model of that config with random weights in bfloat16, created on the device."""
    ours = ("source", "tokenizer", "base_model", "torch_dtype", "max_position_embeddings")
    fields = {key: value for key, value in config.items() if key not in ours}
    hf = AutoConfig.for_model(**fields, max_position_embeddings=CONTEXT_LIMIT)
    torch.manual_seed(seed)
    with torch.device(place.device):
        model = AutoModelForCausalLM.from_config(hf, dtype=torch.bfloat16, attn_implementation=attention)
    return model.eval().requires_grad_(False)


class Forward:
    """A forward of `tokens` tokens in each of `batch` sequences, after `context` filled rows of the cache."""

    def __init__(self, model: Any, batch: int, context: int, tokens: int, generator: torch.Generator) -> None:
        config = model.config
        layers, heads, rows = config.num_hidden_layers, config.num_key_value_heads, context + tokens
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        like = {"device": model.device, "dtype": model.dtype}
        self.model, self.context = model, context
        self.states = [
            torch.empty(layers, batch, heads, rows, size, **like).normal_(generator=generator) for _ in range(2)
        ]
        keys, values = self.states
        self.cache = Cache(layers=[_Layer(keys[i], values[i], context) for i in range(layers)])
        self.tokens = torch.randint(config.vocab_size, (batch, tokens), device=model.device, generator=generator)
        self.positions = torch.arange(context, rows, device=model.device)[None]
        self.mask = None
        if tokens > 1:
            hidden = torch.ones(tokens, rows, dtype=torch.bool, device=model.device).triu(context + 1)
            mask = torch.zeros(tokens, rows, **like).masked_fill(hidden, torch.finfo(model.dtype).min)
            self.mask = mask.repeat(config.num_attention_heads // heads, 1)[None, None]

    @torch.inference_mode()
    def __call__(self) -> Tensor:
        """Logits (batch, tokens, V). Each call overwrites the rows of these tokens."""
        return self.model(
            self.tokens,
            position_ids=self.positions,
            attention_mask=self.mask,
            past_key_values=self.cache,
            use_cache=True,
        ).logits

    def captured(self) -> Callable[[], object]:
        """The same forward as one CUDA graph."""
        graph, self.output = captured(self)
        return graph.replay


class _Layer(DynamicLayer):
    """One layer's rows, allocated from the start."""

    def __init__(self, keys: Tensor, values: Tensor, context: int) -> None:
        super().__init__()
        self.rows = keys, values
        self.context = context

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new states after the context; returns all rows."""
        for rows, states in zip(self.rows, (key_states, value_states), strict=True):
            rows[:, :, self.context :] = states
        return self.rows

    def get_seq_length(self) -> int:
        """Rows before the new ones."""
        return self.context


def clocked(run: Callable[[], object], place: Place, rounds: int, most_seconds: float) -> dict[str, float]:
    """Median and interquartile range of `rounds` runs; after `most_seconds` no run starts once five are done."""
    clock = _by_events if place.device == "cuda" else _by_clock
    for _ in range(3):
        clock(run)
    seconds, started = [], time.perf_counter()
    while len(seconds) < rounds and (len(seconds) < 5 or time.perf_counter() - started < most_seconds):
        seconds.append(clock(run))
    low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75])
    return {"median_seconds": float(median), "spread_seconds": float(high - low), "rounds": len(seconds)}


def _by_events(run: Callable[[], object]) -> float:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    run()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3


def _by_clock(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
