"""Whether runs name the deployment for which they are used: models, GPU, engine, version and formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import ON_TRANSFORMERS, split
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import known_model
from spectheory.hardware.named_formats import kv_bytes_of, quantisations
from spectheory.hardware.runs import Run
from spectheory.hardware.shipped_models import model_names
from spectheory.hardware.timed_setup import TimedSetup

ALIKE = 0.05
"""Share by which the bytes of one format may differ between two sources: scales are stored in several ways."""
SIXTEEN_BITS = 1.9
"""Weights with at least this many bytes are not packed."""


@dataclass(frozen=True)
class NamedDeployment:
    """A deployment, by the names with which runs are compared.

    Attributes:
        setup: models, GPUs, and how the GPUs share a model.
        engine: the engine, with or without a version.
        plain_target: the target in the formats of its config, from which others can be made.
    """

    setup: TimedSetup
    engine: str
    plain_target: ModelConfig

    def require(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Check that what the runs name is the deployment.

        Returns:
            Sentences on names that are not known and are taken to mean the deployment.

        Raises:
            InputError: a run names another model, GPU, engine, version or format.
        """
        setup, unknown = self.setup, {}
        target, engine = setup.target, f"engine {self.engine}"
        weights = f"weights of {target.linear_bytes:.3g} bytes ({target.name})"
        cache = f"{target.kv_bytes_per_value:.3g} bytes for a number in the KV cache"
        draft = "no draft model" if setup.draft is None else f"draft {setup.draft.name}"
        # for each name: the check, what the deployment has, and what to give, if the run is right, as what
        known: dict[str, tuple[Callable[[Run], bool | None], str, str]] = {
            "model": (self._is_target, f"target {target.name}", "the model of the run as target"),
            "draft": (self._is_draft, draft, "the draft of the run as draft"),
            "gpu": (self._is_gpu, f"gpu {setup.gpu.name}", "the GPU of the run as gpu"),
            "gpus": (lambda run: run.gpus == setup.gpus, f"gpus={setup.gpus}", "the number of GPUs of the run as gpus"),
            "engine": (self._is_engine, engine, "the engine of the run as engine"),
            "version": (self._is_version, engine, "the version of the run, like ENGINE@VERSION"),
            "quantisation": (self._is_packed_so, weights, "the format of the run as quant"),
            "kv_dtype": (self._caches_so, cache, "the format of the run as kv_dtype"),
        }
        for (name, (same, own, repair)), run in product(known.items(), runs):
            if (value := getattr(run, name)) is None:
                continue
            found = same(run)
            if found is False:
                raise InputError(
                    f"{run.where}{name} is {value!r:.80}, but the runs are to calibrate a deployment with {own}: "
                    f"give {repair}, or leave out the run"
                )
            if found is None:
                unknown[f"the {name} {value!r:.80} of the runs, which is not known, is {own}"] = None
        return tuple(unknown)

    def _is_target(self, run: Run) -> bool | None:
        return _same_shape(_target_named(run.model or ""), self.setup.target)

    def _is_engine(self, run: Run) -> bool:
        return _family(split(self.engine)[0]) == _family(run.engine or "")

    def _is_draft(self, run: Run) -> bool | None:
        named = known_model(run.draft)
        if self.setup.draft is None:
            return None if named is None else False
        return _same_shape(named, self.setup.draft)

    def _is_gpu(self, run: Run) -> bool | None:
        try:
            return gpu_of(run.gpu or "").name == self.setup.gpu.name
        except InputError:
            return True if run.gpu in (self.setup.gpu.name, self.setup.gpu.full_name) else None

    def _is_version(self, run: Run) -> bool | None:
        if "@" not in self.engine:
            return True
        own, other = split(self.engine)[1], _version(run)
        return None if other is None else other[: len(own)] == own[: len(other)]

    def _is_packed_so(self, run: Run) -> bool | None:
        target, name = self.setup.target, (run.quantisation or "").lower()
        if name in quantisations() and self.plain_target.design is not None:
            other = self.plain_target.quantised(name)
            pairs = ((other.linear_bytes, target.linear_bytes), (other.expert_bytes, target.expert_bytes))
            return all(abs(a - b) <= ALIKE * b for a, b in pairs)
        if name in quantisations():
            return None
        return None if min(target.linear_bytes, target.expert_bytes) < SIXTEEN_BITS else False

    def _caches_so(self, run: Run) -> bool | None:
        try:
            return abs(kv_bytes_of(run.kv_dtype or "") / self.setup.target.kv_bytes_per_value - 1) <= ALIKE
        except InputError:
            return None


def with_version(engine: str, runs: Iterable[Run]) -> str:
    """The engine with the version that its runs name, if `engine` has none and a run names one."""
    name, _ = split(engine)
    versions = (
        run.version
        for run in runs
        if run.version and _family(run.engine or name) == _family(name) and _version(run) is not None
    )
    found = None if "@" in engine else next(versions, None)
    return engine if found is None else f"{engine}@{found}"


def _version(run: Run) -> tuple[int, ...] | None:
    try:
        return split(f"engine@{run.version}")[1]
    except InputError:
        return None


def _family(engine: str) -> str:
    return "hf" if engine in ON_TRANSFORMERS else engine


def _same_shape(named: ModelConfig | None, own: ModelConfig) -> bool | None:
    return None if named is None else named.shape == own.shape


def _target_named(name: str) -> ModelConfig | None:
    """The known model that a name or a path means: by itself, or the one with the longest name in its last part."""
    if found := known_model(name):
        return found
    last = _letters(name.replace("\\", "/").rstrip("/").rpartition("/")[2])
    within = [known for known in model_names() if _letters(known) in last]
    return known_model(max(within, key=len)) if within else None


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
