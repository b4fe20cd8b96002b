"""Settings of the training of the shipped pair."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerSizes:
    """Sizes of a model of the Llama architecture, with heads of width 32 and tied embeddings."""

    layers: int
    width: int
    hidden: int


@dataclass(frozen=True)
class Recipe:
    """All settings of the training. `length` is the number of tokens of a training row, and the models' context."""

    vocab_size: int = 2048
    length: int = 1024
    rows: int = 4
    target: LayerSizes = LayerSizes(layers=18, width=160, hidden=320)
    draft: LayerSizes = LayerSizes(layers=1, width=160, hidden=768)
    target_steps: int = 1500
    draft_steps: int = 6000
    prompts: int = 160
    seed: int = 0
