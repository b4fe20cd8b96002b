"""The training loop of both models: Muon for matrices, AdamW for the rest, and checkpoints to continue from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, process_time

import torch
from torch import Tensor, nn

from spectheory.core.errors import InputError
from spectheory.core.files import whole_file

Done = Callable[[int, int], None]
"""A callback with the numbers of finished steps and of all."""
CHECKPOINT_SECONDS = 15.0
"""Time between two checkpoints: what a killed training computes again."""


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
    """Muon (torch >= 2.9) for the matrices inside the layers, AdamW for embeddings, output layers and norms."""
    if not hasattr(torch.optim, "Muon"):
        raise InputError(f"training needs torch >= 2.9 for torch.optim.Muon, found torch {torch.__version__}")
    matrices, rest = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            outer = "embed" in name or "lm_head" in name
            (rest if outer or parameter.ndim != 2 else matrices).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=schedule.matrix_rate, weight_decay=0.01, momentum=0.95),
        torch.optim.AdamW(rest, lr=schedule.vector_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def fit(
    model: nn.Module,
    loss: Callable[[int], Tensor],
    schedule: LearningRates,
    checkpoint: Path,
    done: Done = lambda finished, total: None,
) -> float:
    """Train `model` in place to minimise `loss(step)`; if the file `checkpoint` exists, continue from it.

    A checkpoint is written whole or not at all, every 15 seconds and when the training is interrupted between two
    updates of the weights. Every 10 steps a JSON line is appended to `checkpoint.with_suffix(".jsonl")`. After each
    step `done` is called with the number of steps of this call that are finished, and of all.

    Returns:
        The CPU time of all steps in seconds, those before an interruption included.
    """
    run = _Run(model, _optimizers(model, schedule), schedule, checkpoint)
    run.resume()
    first = run.step
    model.train()
    with checkpoint.with_suffix(".jsonl").open("a") as log:
        try:
            while run.step < schedule.steps:
                value = run.advance(loss)
                if run.step % 10 == 0:
                    log.write(json.dumps({"step": run.step, "loss": round(value, 4)}) + "\n")
                    log.flush()
                done(run.step - first, schedule.steps - first)
                if monotonic() - run.saved_at > CHECKPOINT_SECONDS:
                    run.save()
        finally:
            if run.whole and run.step > run.saved:
                run.save()
    model.eval()
    return run.seconds


@dataclass
class _Run:
    """A training between two checkpoints.

    Attributes:
        step: number of steps that are done.
        seconds: their CPU time.
        whole: whether the weights are those after `step` steps, not in the middle of an update.
        saved: number of steps in the last checkpoint.
        saved_at: when it was written, by the monotonic clock.
    """

    model: nn.Module
    optimizers: list[torch.optim.Optimizer]
    schedule: LearningRates
    checkpoint: Path
    step: int = 0
    seconds: float = 0.0
    whole: bool = True
    saved: int = 0
    saved_at: float = field(default_factory=monotonic)

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        if not self.checkpoint.exists():
            return
        try:
            state = torch.load(self.checkpoint, weights_only=True)
        except Exception as error:  # whatever the unpickler stumbles over
            raise InputError(f"{self.checkpoint} is damaged: remove it to start this model anew") from error
        if state["steps"] != self.schedule.steps:
            raise InputError(
                f"{self.checkpoint} belongs to a run of {state['steps']} steps, this one has {self.schedule.steps}: "
                "remove the file to start anew"
            )
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step = self.saved = state["step"]
        self.seconds = state["seconds"]

    def save(self) -> None:
        """Write the checkpoint."""
        state = {
            "step": self.step,
            "steps": self.schedule.steps,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        with whole_file(self.checkpoint) as partial:
            torch.save(state, partial)
        self.saved, self.saved_at = self.step, monotonic()

    def advance(self, loss: Callable[[int], Tensor]) -> float:
        """One step; the value of the loss before it."""
        began = process_time()
        full = self.schedule.matrix_rate, self.schedule.vector_rate
        for optimizer, rate in zip(self.optimizers, full, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * self.schedule.factor(self.step)
        value = loss(self.step)
        value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.whole = False
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step, self.whole = self.step + 1, True
        self.seconds += process_time() - began
        return value.item()
