"""Classes of deployments, by which the errors of computed times were judged, and the errors of each class.

The errors are in `data/validated_classes.json`. The command `python -m benchmarks.validation FILE --classes-to JSON`
writes it, from published measurements, each predicted with costs that were fitted to all other sources.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from spectheory.core.files import shipped
from spectheory.hardware.engine_costs import ON_TRANSFORMERS, split
from spectheory.hardware.gpus import CUDA
from spectheory.hardware.model_config import ModelConfig

PACKED, EVERY = "4-bit kernels", "all classes"
ENOUGH = 3  # sources, for a band of its own


def deployment_class(
    engine: str, target: ModelConfig, gpus: int, batch: int, *, plain: bool = False, backend: str = CUDA
) -> str:
    """The class of a deployment, by its engine, its target's formats and experts, its GPUs and its batch.

    Args:
        engine: the engine, such as `vllm` or `vllm@0.11`.
        target: the target with the bytes of its formats.
        gpus: the number of GPUs that share the target.
        batch: the number of sequences that run together.
        plain: whether only plain decoding is judged; several requests of it on one GPU are a class of their own.
        backend: whose kernels run, see `Gpu`. Kernels that unpack weights were judged with CUDA only.

    >>> from spectheory.hardware.models import model
    >>> deployment_class("vllm", model("llama-3.1-8b"), gpus=1, batch=16)
    'dense, batch 2 to 64'
    """
    packed = target.linear_bytes < 0.8
    if packed and backend != CUDA:
        return f"{PACKED} on {backend}"
    if split(engine)[0] in ("hf", *ON_TRANSFORMERS):
        return "Hugging Face eager"
    if gpus > 1:
        return "several GPUs"
    if plain and batch > 1:
        return "plain steps in serving"
    if packed:
        return PACKED
    if target.shape.linear_layers or target.shape.moe_layers:
        return "linear attention, one GPU" if target.shape.linear_layers else "MoE, one GPU"
    if target.linear_bytes < 2 or batch > 64:
        return "other formats or batches"
    return "dense 16-bit, one request" if batch == 1 else "dense, batch 2 to 64"


@dataclass(frozen=True)
class LogErrors:
    """Sizes of the errors of several predictions: of |log(predicted / measured)|.

    Attributes:
        most: the size that an error of another source exceeds in one case of five, by the errors of these sources.
        rows, sources: the number of judged measurements, and of the sources that published them.
        batches: the batch sizes of the judged measurements, increasing.
    """

    most: float
    rows: int
    sources: int
    batches: tuple[int, ...]

    def judged(self, batch: int) -> bool:
        """Whether measurements were judged at this batch size, or at a smaller one and at a larger one."""
        return self.batches[0] <= batch <= self.batches[-1]


@dataclass(frozen=True)
class ClassErrors:
    """How far predicted speedups of a class were off; None if none was judged.

    Attributes:
        name: the class, see `deployment_class`.
        engines: the engines of the judged speedups.
        calibrated: whether each deployment was calibrated on its own runs before.
    """

    name: str
    speedup: LogErrors | None
    engines: tuple[str, ...]
    calibrated: bool = False

    @property
    def assumed(self) -> LogErrors | None:
        """The errors of the class, else of all classes; None for kernels that were judged on another backend only."""
        if self.speedup is not None or self.name.startswith(f"{PACKED} on "):
            return self.speedup
        return ClassErrors.of(EVERY, calibrated=self.calibrated).speedup

    @classmethod
    def of(cls, name: str, *, calibrated: bool = False) -> ClassErrors:
        """The errors of a class in the shipped table; None if the table does not have the class."""
        return _shipped().get((name, calibrated), cls(name, None, (), calibrated))


def classes_parsed(text: str) -> dict[tuple[str, bool], ClassErrors]:
    """The errors in the text of a table, by the name of the class and whether deployments were calibrated."""
    rows = [
        ClassErrors(
            row["name"],
            LogErrors(**row["speedup"] | {"batches": tuple(row["speedup"]["batches"])}),
            tuple(row["engines"]),
            row["calibrated"],
        )
        for row in json.loads(text)["classes"]
    ]
    return {(row.name, row.calibrated): row for row in rows}


@cache
def _shipped() -> dict[tuple[str, bool], ClassErrors]:
    return classes_parsed(shipped("validated_classes.json"))
