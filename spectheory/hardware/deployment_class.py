"""Classes of deployments, by which the errors of computed times were judged, and the errors of each class.

The errors are in `data/validated_classes.json`. The command `python -m benchmarks.validation FILE --classes-to JSON`
writes it, from published measurements, each predicted with costs that were fitted to all other sources.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from spectheory.hardware.engine_costs import ON_TRANSFORMERS, split
from spectheory.hardware.model_config import ModelConfig

POOL = "16 and 4 bits, one GPU"
"""The class of all rows of one GPU without experts, for formats without speedups of their own."""


def deployment_class(engine: str, target: ModelConfig, gpus: int, batch: int, *, plain: bool = False) -> str:
    """The class of a deployment, by its engine, its target's formats and experts, its GPUs and its batch.

    Args:
        engine: the engine, such as `vllm` or `vllm@0.11`.
        target: the target with the bytes of its formats.
        gpus: the number of GPUs that share the target.
        batch: the number of sequences that run together.
        plain: whether only plain decoding is judged; several requests of it on one GPU are a class of their own.

    >>> from spectheory.hardware.models import model
    >>> deployment_class("vllm", model("llama-3.1-8b"), gpus=1, batch=16)
    'dense, batch 2 to 64'
    """
    if split(engine)[0] in ("hf", *ON_TRANSFORMERS):
        return "Hugging Face eager"
    if gpus > 1:
        return "several GPUs"
    if plain and batch > 1:
        return "plain steps in serving"
    if target.linear_bytes < 0.8:
        return "4-bit kernels"
    if target.shape.moe_layers:
        return "MoE, one GPU"
    if target.linear_bytes < 2 or batch > 64:
        return "other"
    return "dense 16-bit, one request" if batch == 1 else "dense, batch 2 to 64"


@dataclass(frozen=True)
class LogErrors:
    """Sizes of the errors of several predictions: of |log(predicted / measured)|.

    Attributes:
        median, most: the median, and the 80% quantile.
        rows, sources: the number of judged measurements, and of the sources that published them.
        batches: the batch sizes of the judged measurements, increasing.
    """

    median: float
    most: float
    rows: int
    sources: int
    batches: tuple[int, ...]

    def judged(self, batch: int) -> bool:
        """Whether measurements were judged at this batch size, or at a smaller one and at a larger one."""
        return self.batches[0] <= batch <= self.batches[-1]


@dataclass(frozen=True)
class ClassErrors:
    """How far predictions of a class were off: of speedups, and of the seconds of plain steps; None if none was judged.

    Attributes:
        name: the class, see `deployment_class`.
        engines: the engines of the judged speedups; those of the plain steps if no speedup was judged.
        calibrated: whether each deployment was calibrated on its own runs before.
    """

    name: str
    speedup: LogErrors | None
    plain: LogErrors | None
    engines: tuple[str, ...]
    calibrated: bool = False

    @classmethod
    def of(cls, name: str, *, calibrated: bool = False) -> ClassErrors:
        """The errors of a class in the shipped table; both are None if the table does not have the class."""
        return _shipped().get((name, calibrated), cls(name, None, None, (), calibrated))


def classes_parsed(text: str) -> dict[tuple[str, bool], ClassErrors]:
    """The errors in the text of a table, by the name of the class and whether deployments were calibrated."""
    rows = []
    for row in json.loads(text)["classes"]:
        speedup, plain = (_log_errors(row[what]) for what in ("speedup", "plain"))
        rows.append(ClassErrors(row["name"], speedup, plain, tuple(row["engines"]), row["calibrated"]))
    return {(row.name, row.calibrated): row for row in rows}


def _log_errors(row: dict[str, Any] | None) -> LogErrors | None:
    return None if row is None else LogErrors(**row | {"batches": tuple(row["batches"])})


@cache
def _shipped() -> dict[tuple[str, bool], ClassErrors]:
    return classes_parsed((files("spectheory") / "data" / "validated_classes.json").read_text(encoding="utf-8"))
