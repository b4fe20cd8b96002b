"""`KernelCurve`: how the seconds of a forward grow with its tokens, as measured for a format of weights on a GPU.

The table is `data/kernel_curves.csv`, in long form: a row is T(n) / T(1), the seconds of a forward of n tokens over
those of one token, with its source. A curve was measured with one dense model and a short context. It serves for other
dense models in the same format, on the same GPU and in the same engine: kernels for packed weights differ between all
of these. Where there is no curve, the shares of `EngineCosts` serve.
"""

from __future__ import annotations

import csv
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import split
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.model_config import ModelConfig

COLUMNS = ("engine", "weight_format", "gpu", "tokens", "ratio", "source", "note")


@dataclass(frozen=True)
class KernelCurve:
    """Measured seconds of forwards of several numbers of tokens, over those of a forward of one token.

    Attributes:
        engine: the engine, without a version.
        weight_format: the format of the weights, as in `ModelConfig`.
        gpu: the key of the GPU.
        tokens: increasing numbers of tokens in a forward; the first is 1.
        ratios: T(n) / T(1) for each of them.
        source: the published measurement.
    """

    engine: str
    weight_format: str
    gpu: str
    tokens: tuple[int, ...]
    ratios: tuple[float, ...]
    source: str

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.tokens, self.tokens[1:], strict=False))
        if len(self.tokens) < 2 or self.tokens[0] != 1 or not rising:
            raise InputError(f"tokens of {self.name} must be increasing and start at 1, got {self.tokens!s:.80}")
        if len(self.ratios) != len(self.tokens) or self.ratios[0] != 1:
            raise InputError(f"{self.name} must have a ratio for each number of tokens, the first 1")
        if not all(1 <= ratio < np.inf for ratio in self.ratios):
            raise InputError(f"ratios of {self.name} must be finite and at least 1, got {self.ratios!s:.80}")

    @property
    def name(self) -> str:
        """What was measured, such as `q4_0 on rtx3090 in llama.cpp`."""
        return f"{self.weight_format} on {self.gpu} in {self.engine}"

    @property
    def last(self) -> int:
        """The largest number of tokens that was measured."""
        return self.tokens[-1]

    def at(self, tokens: np.ndarray) -> np.ndarray:
        """T(n) / T(1) for an array of numbers of tokens, float64.

        It is linear between the measured numbers, and constant after the last one.
        """
        return np.interp(tokens, self.tokens, self.ratios)

    def holds(self, model: ModelConfig, gpu: Gpu) -> bool:
        """Whether the curve holds for a model on a GPU. Experts have other kernels, so it holds for dense models."""
        return (self.weight_format, self.gpu) == (model.weight_format, gpu.name) and not model.shape.moe_layers

    @property
    def in_words(self) -> str:
        """A sentence for the assumptions of a plan."""
        return f"up to {self.last} tokens, forwards with {self.name} follow a measured curve ({self.source})"


def kernel_curves(engine: str, *, without: Container[str] = ()) -> tuple[KernelCurve, ...]:
    """The curves of the shipped table for an engine, such as `llama.cpp`. A version is not looked at.

    Args:
        engine: the engine.
        without: sources whose curves are left out, so that a prediction of a source does not rest on the source itself.

    >>> [curve.source for curve in kernel_curves("llama.cpp") if curve.weight_format == "q4_0"]
    ['llama.cpp PR 15802']
    >>> kernel_curves("vllm@0.11")
    ()

    Raises:
        InputError: the engine is not a name.
    """
    name = split(engine)[0]
    return tuple(curve for curve in _shipped() if curve.engine == name and curve.source not in without)


def usual_curves(engine: str, *, given: bool) -> tuple[KernelCurve, ...]:
    """The curves that are used unless others are stated: those of `kernel_curves`, with which the table was fitted.

    If costs were `given` there are none: their shares stand for the kernels.
    """
    return () if given else kernel_curves(engine)


def curves_parsed(text: str) -> tuple[KernelCurve, ...]:
    """The curves in the text of a table.

    Raises:
        InputError: a column is missing, a cell is not a number, a curve is impossible, or has several sources.
    """
    table = csv.DictReader(text.splitlines())
    if missing := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
        raise InputError(f"a table of kernel curves must have the columns {', '.join(COLUMNS)}: add {missing}")
    points: dict[tuple[str, str, str], list[tuple[int, float, str]]] = {}
    for number, line in enumerate(table, 2):
        points.setdefault((line["engine"], line["weight_format"], line["gpu"]), []).append(_point(line, number))
    return tuple(_curve(name, found) for name, found in points.items())


def _point(line: dict[str, str], number: int) -> tuple[int, float, str]:
    try:
        return int(line["tokens"]), float(line["ratio"]), line["source"]
    except (TypeError, ValueError) as error:
        raise InputError(f"line {number}: tokens and ratio must be numbers ({error}): correct them") from None


def _curve(name: tuple[str, str, str], points: Iterable[tuple[int, float, str]]) -> KernelCurve:
    tokens, ratios, sources = zip(*points, strict=True)
    if len(set(sources)) > 1:
        raise InputError(f"the curve of {', '.join(name)} must have one source, got {', '.join(sorted(set(sources)))}")
    return KernelCurve(*name, tokens, ratios, sources[0])


@cache
def _shipped() -> tuple[KernelCurve, ...]:
    return curves_parsed((files("spectheory") / "data" / "kernel_curves.csv").read_text(encoding="utf-8"))
