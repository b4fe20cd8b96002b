"""The training loop of both models: Muon for matrices, AdamW for the rest, and checkpoints to continue from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from spectheory.core.errors import InputError

CHECKPOINT_EVERY = 100


@dataclass(frozen=True)
class LearningRates:
    """Number of steps, and learning rates, which rise over `warmup` steps and fall to 0 over the last share `decay`."""

    steps: int
    matrix_rate: float = 0.02
    vector_rate: float = 0.003
    warmup: int = 50
    decay: float = 0.5

    def factor(self, step: int) -> float:
        """The learning rate at `step` as a share of the full rate."""
        rise = (step + 1) / self.warmup
        fall = (self.steps - step) / max(1.0, self.decay * self.steps)
        return min(1.0, rise, fall)


def _optimizers(model: nn.Module, schedule: LearningRates) -> list[torch.optim.Optimizer]:
    """Muon (torch >= 2.9) for the matrices inside the layers, AdamW for embeddings and norms."""
    if not hasattr(torch.optim, "Muon"):
        raise InputError(f"training needs torch >= 2.9 for torch.optim.Muon, found torch {torch.__version__}")
    matrices, rest = [], []
    for name, parameter in model.named_parameters():
        (matrices if parameter.ndim == 2 and "embed" not in name else rest).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=schedule.matrix_rate, weight_decay=0.01, momentum=0.95),
        torch.optim.AdamW(rest, lr=schedule.vector_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def fit(
    model: nn.Module,
    loss: Callable[[int], Tensor],
    schedule: LearningRates,
    checkpoint: Path,
    label: str,
) -> None:
    """Train `model` in place to minimise `loss(step)`; if the file `checkpoint` exists, continue from it.

    A checkpoint is written whole or not at all, every 100 steps and when the training is interrupted between two
    updates of the weights. Every 10 steps a JSON line is appended to `checkpoint.with_suffix(".jsonl")`.
    """
    optimizers = _optimizers(model, schedule)
    first = 0
    if checkpoint.exists():
        try:
            state = torch.load(checkpoint, weights_only=True)
        except Exception as error:  # whatever the unpickler stumbles over
            raise InputError(f"{checkpoint} is damaged: remove it to start this model anew") from error
        if state["steps"] != schedule.steps:
            raise InputError(
                f"{checkpoint} belongs to a run of {state['steps']} steps, this one has {schedule.steps}: "
                "remove the file to start anew"
            )
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        first = state["step"]
    full = [schedule.matrix_rate, schedule.vector_rate]

    def save(step: int) -> None:
        partial = checkpoint.with_suffix(".partial")
        torch.save(
            {
                "step": step,
                "steps": schedule.steps,
                "model": model.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in optimizers],
            },
            partial,
        )
        partial.replace(checkpoint)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    step, whole = first, True
    model.train()
    with Progress(*columns) as progress, checkpoint.with_suffix(".jsonl").open("a") as log:
        bar = progress.add_task(label, total=schedule.steps, completed=first)
        try:
            while step < schedule.steps:
                for optimizer, rate in zip(optimizers, full, strict=True):
                    for group in optimizer.param_groups:
                        group["lr"] = rate * schedule.factor(step)
                value = loss(step)
                value.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                whole = False
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                step, whole = step + 1, True
                if step % 10 == 0:
                    log.write(json.dumps({"step": step, "loss": round(value.item(), 4)}) + "\n")
                    log.flush()
                    progress.update(bar, completed=step, description=f"{label} loss {value.item():.3f}")
                if step % CHECKPOINT_EVERY == 0:
                    save(step)
        finally:
            if whole:
                save(step)
    model.eval()
