"""Settings of the training of the shipped models."""

from __future__ import annotations

from dataclasses import dataclass


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
    draft: LayerSizes = LayerSizes(layers=1, width=160, hidden=768)
    head: HeadSteps = HeadSteps()
    target_steps: int = 1500
    draft_steps: int = 6000
    prompts: int = 160
    seed: int = 0
