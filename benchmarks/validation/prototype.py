"""The proposed time model: the roofline of the library with terms by engine, placement, format and experts.

    forward(n) = max(weights + experts + operations + cache + layers, eager)
    plain      = forward(1) + step + batch * sequence * vocabulary / 128256 + prefill
    cycle      = forward(nodes + 1) + step + spec_step + batch * (sequence * vocabulary / 128256 + spec_sequence)
                 + sum over levels of (draft_forward(width) + level)

`eager` is the time in which the host launches the layers; it is waited for, not added, except where layers are split
over GPUs: there the hooks of Accelerate wait at each layer, and it is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares

from benchmarks.validation.names import draft_of, gpu_of, target_of
from benchmarks.validation.parameters import ALL, OTHER, PRIOR, Key, Parameters, names, parameters_of, width
from benchmarks.validation.rows import Row
from benchmarks.validation.shipped import Seconds, widths
from spectheory import Gpu, ModelConfig

NOISE = 0.08
"""Standard deviation of the logarithm of a published rate around the model, in the fit."""
RUN_NOISE = 0.02
"""The same for the runs of a calibration."""
UNPACKED_TOKENS = 8
"""Up to this many tokens, kernels for packed weights do not use the tensor cores (llama.cpp, mul_mat_vec_q)."""
VOCABULARY = 128_256
"""The vocabulary for which `sequence_seconds` is stated, that of Llama 3."""
PROMPT = 300
"""Tokens of a prompt in the plain steps in serving; their `context` is 300 and half the mean output."""


class Place:
    """The seconds of forwards of one row's models on its GPUs."""

    def __init__(self, row: Row, parameters: Parameters):
        self.gpu: Gpu = gpu_of(row.gpu)
        self.gpus, self.placement, self.batch, self.context = row.gpus, row.placement, row.batch, row.context
        self.parameters, self.engine = parameters, parameters.engine(row.engine)

    def forward(self, model: ModelConfig, tokens: int) -> float:
        """Seconds of a forward of `tokens` tokens of each sequence."""
        device = (
            self._weights(model) + self._experts(model, tokens) + self._operations(model, tokens) + self._cache(model)
        )
        device += self._layers(model, self.batch * tokens)
        host = model.layers * self.engine.eager_seconds
        return device + host if self.placement == "layer split" else max(device, host)

    def _share(self, model: ModelConfig) -> float:
        engine = self.engine
        packed = engine.four_bit_share if model.linear_bytes < 0.8 else engine.eight_bit_share
        return engine.bandwidth_share * (packed if _packed(model) else 1.0)

    def _weights(self, model: ModelConfig) -> float:
        shape = model.shape
        read = shape.linear_parameters * model.linear_bytes + shape.other_parameters * model.other_bytes
        alike = 1 if self.placement == "expert parallel" else self._divided
        return read / alike / (self._share(model) * self.gpu.bandwidth_bytes_per_second)

    def _experts(self, model: ModelConfig, tokens: int) -> float:
        shape = model.shape
        if not shape.moe_layers:
            return 0.0
        common = self.parameters
        together = (1 + (tokens - 1) * common.text_sharing) * (1 + (self.batch - 1) * common.batch_sharing)
        used = shape.moe_layers * float(model.expected_experts(np.asarray(together)))
        size = shape.expert_linear_parameters * model.expert_bytes + shape.expert_other_parameters * model.other_bytes
        bandwidth = self._share(model) * common.expert_share * self.gpu.bandwidth_bytes_per_second
        return used * (size / bandwidth + common.expert_seconds) / self._divided

    def _operations(self, model: ModelConfig, tokens: int) -> float:
        together, peak = self.batch * tokens, self._peak(model) * self._divided
        one = model.flops_per_token(self.context) / peak
        seconds = together * one / self.parameters.flops_share
        if _packed(model) and together > 1:
            seconds = max(seconds, min(together, UNPACKED_TOKENS) * one / self.engine.packed_flops_share)
        return seconds

    def _cache(self, model: ModelConfig) -> float:
        shards = {
            "one GPU": 1,
            "layer split": 1,
            "tensor parallel": min(self.gpus, model.shape.kv_heads),
            "expert parallel": self.gpus,
        }[self.placement]
        bandwidth = self.parameters.cache_share * self.gpu.bandwidth_bytes_per_second
        return self.batch * model.kv_bytes(self.context) / (bandwidth * shards)

    def _layers(self, model: ModelConfig, together: int) -> float:
        common, shape = self.parameters, model.shape
        seconds = shape.layers * self.engine.layer_seconds + shape.moe_layers * common.moe_layer_seconds
        if self.placement == "tensor parallel":
            seconds += 2 * shape.layers * (common.reduce_seconds + self.gpus * common.reduce_gpu_seconds)
        if self.placement == "expert parallel":
            exchange = common.exchange_seconds + together * common.exchange_token_seconds
            seconds += shape.moe_layers * exchange
        return seconds

    @property
    def _divided(self) -> int:
        return 1 if self.placement in ("one GPU", "layer split") else self.gpus

    def _peak(self, model: ModelConfig) -> float:
        if model.arithmetic == "fp8" and self.gpu.fp8_flops_per_second is not None:
            return self.gpu.fp8_flops_per_second
        return self.gpu.bf16_flops_per_second / (2 if model.arithmetic == "fp32" else 1)


def _packed(model: ModelConfig) -> bool:
    return model.linear_bytes < 1.9 and model.arithmetic == "bf16"


def predict(row: Row, parameters: Parameters) -> Seconds:
    """The seconds of `row`.

    Raises:
        InputError: a model or the GPU is unknown.
    """
    target, draft = target_of(row.target), draft_of(row.draft, row.target)
    place = Place(row, parameters)
    if row.kind == "forward":
        return Seconds(place.forward(target, row.nodes))
    engine = place.engine
    sequence = engine.sequence_seconds * (target.vocabulary or VOCABULARY) / VOCABULARY
    plain = place.forward(target, 1) + engine.step_seconds + row.batch * sequence
    if row.kind == "plain":
        return Seconds(plain + _prefill(row, target, place))
    cycle = place.forward(target, row.nodes + 1) + engine.step_seconds + engine.spec_step_seconds
    cycle += row.batch * (sequence + engine.spec_sequence_seconds)
    if draft is not None:
        cycle += sum(place.forward(draft, width) + engine.level_seconds for width in widths(row))
    return Seconds(plain, cycle)


def _prefill(row: Row, target: ModelConfig, place: Place) -> float:
    """Seconds of the prompts that are read beside a plain step of a server in steady state."""
    if row.batch == 1 or row.context <= PROMPT:
        return 0.0
    prompts = row.batch * PROMPT / max(2 * (row.context - PROMPT), 100) * place.parameters.prefill_share
    peak = place.parameters.flops_share * place.gpu.bf16_flops_per_second * row.gpus
    return prompts * target.flops_per_token(0) / peak


def logarithms(row: Row, seconds: Seconds) -> list[float]:
    """log(predicted rate / measured rate) of what `row` measured: the plain rate and the speedup."""
    found = []
    if (measured := row.plain_seconds) is not None:
        found.append(float(np.log(measured / seconds.plain)))
    if (gain := seconds.gain(row.tau)) is not None and row.gain is not None:
        found.append(float(np.log(gain / row.gain)))
    return found


def fit(rows: Sequence[Row]) -> Parameters:
    """The parameters that predict `rows` best, by least squares with a soft L1 loss around the priors.

    The rows of a deployment with many rows weigh less, by the fourth root of their number.
    """
    which = _fitted(rows)
    return parameters_of(_optimum(rows, which), which)


def calibrate(rows: Sequence[Row], parameters: Parameters) -> Parameters:
    """`parameters` moved to the few `rows` of one deployment: the same fit, with `parameters` as its priors."""
    which = [key for key in _fitted(rows) if key[0] != ALL]
    return parameters_of(_optimum(rows, which, parameters, RUN_NOISE, 10), which, parameters)


def supports(rows: Sequence[Row]) -> dict[Key, dict[str, float]]:
    """For each parameter and source: how strongly the rows of the source determine it, at the fit to `rows`.

    The number is the norm of the derivatives of the weighted errors by the logarithm of the parameter, times the width
    of its prior. At 1, the source says as much as the prior.
    """
    which = _fitted(rows)
    at, sources = _optimum(rows, which), [row.source for row in rows for _ in _measured(row)]
    found: dict[Key, dict[str, float]] = {}
    for place, name in enumerate(which):
        step = np.zeros(len(at))
        step[place] = 0.01
        change = (_errors(rows, at + step, which) - _errors(rows, at - step, which)) / 0.02 * width(*name)
        squares: Counter[str] = Counter()
        for source, value in zip(sources, change, strict=True):
            squares[source] += value**2
        found[name] = {source: float(np.sqrt(value)) for source, value in squares.items()}
    return found


def _fitted(rows: Sequence[Row]) -> list[Key]:
    return names(sorted({row.engine if row.engine in PRIOR.engines else OTHER for row in rows}))


def _optimum(
    rows: Sequence[Row], which: list[Key], base: Parameters = PRIOR, noise: float = NOISE, evaluations: int = 30
) -> np.ndarray:
    wide = np.array([width(*name) for name in which])

    def residuals(x: np.ndarray) -> np.ndarray:
        return np.concatenate([_errors(rows, x, which, base, noise), x / wide])

    return least_squares(residuals, np.zeros(len(which)), loss="soft_l1", max_nfev=evaluations).x


def _errors(
    rows: Sequence[Row], x: np.ndarray, which: list[Key], base: Parameters = PRIOR, noise: float = NOISE
) -> np.ndarray:
    parameters, many = parameters_of(x, which, base), Counter(row.deployment for row in rows)
    return np.array(
        [
            error / (noise * many[row.deployment] ** 0.25)
            for row in rows
            for error in logarithms(row, predict(row, parameters))
        ]
    )


def _measured(row: Row) -> list[str]:
    gains = ["speedup"] if row.kind in ("chain", "tree") and row.gain is not None else []
    return (["plain"] if row.plain_rate is not None else []) + gains
