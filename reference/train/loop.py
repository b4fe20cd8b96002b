"""The training loop of all models: Muon for matrices, AdamW for the rest, and checkpoints to continue from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import torch
from torch import Tensor, nn

from spectheory.core.errors import InputError
from spectheory.core.files import whole_file

Done = Callable[[int, int], None]
"""A callback with the numbers of finished steps and of all."""
CHECKPOINT_SECONDS = 15.0
"""Time between two checkpoints: what an interrupted training computes again."""


def _optimizers(model: nn.Module, rates: tuple[float, float]) -> list[torch.optim.Optimizer]:
    """Muon (torch >= 2.9) for the matrices inside the layers, AdamW for embeddings, output layers and norms."""
    if not hasattr(torch.optim, "Muon"):
        raise InputError(f"training needs torch >= 2.9 for torch.optim.Muon, found torch {torch.__version__}")
    matrices, rest = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            outer = "embed" in name or "lm_head" in name
            (rest if outer or parameter.ndim != 2 else matrices).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=rates[0], weight_decay=0.01, momentum=0.95),
        torch.optim.AdamW(rest, lr=rates[1], betas=(0.9, 0.95), weight_decay=0.0),
    ]


def fit(
    model: nn.Module,
    loss: Callable[[int], Tensor],
    steps: int,
    rates: tuple[float, float],
    checkpoint: Path,
    done: Done = lambda finished, total: None,
) -> float:
    """Train `model` in place to minimise `loss(step)`; if the file `checkpoint` exists, continue from it.

    The learning rates rise to `rates` over 50 steps and fall over the last half of the steps.

    A checkpoint is written every 15 seconds and at the end, whole or not at all. Every 10 steps a JSON line is appended
    to `checkpoint.with_suffix(".jsonl")`. After each step `done` is called with the number of steps of this call that
    are finished, and of all.

    Returns:
        The CPU time of all steps in seconds, those before an interruption included.
    """
    optimizers = _optimizers(model, rates)
    step, seconds = _resume(model, optimizers, checkpoint) if checkpoint.exists() else (0, 0.0)
    first, saved_at = step, monotonic()
    model.train()
    while step < steps:
        began = process_time()
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1.0, (step + 1) / 50, 2 * (steps - step) / steps)
        value = loss(step)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step, seconds = step + 1, seconds + process_time() - began
        if step % 10 == 0:
            with checkpoint.with_suffix(".jsonl").open("a") as log:
                log.write(json.dumps({"step": step, "loss": round(value.item(), 4)}) + "\n")
        if monotonic() - saved_at > CHECKPOINT_SECONDS or step == steps:
            state = {"step": step, "seconds": seconds, "model": model.state_dict()}
            with whole_file(checkpoint) as partial:
                torch.save(state | {"optimizers": [one.state_dict() for one in optimizers]}, partial)
            saved_at = monotonic()
        done(step - first, steps - first)
    model.eval()
    return seconds


def _resume(model: nn.Module, optimizers: list[torch.optim.Optimizer], checkpoint: Path) -> tuple[int, float]:
    try:
        state: dict[str, Any] = torch.load(checkpoint, weights_only=True)
    except Exception as error:  # whatever the unpickler stumbles over
        raise InputError(f"{checkpoint} is damaged: remove it to start this model anew") from error
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return state["step"], state["seconds"]
