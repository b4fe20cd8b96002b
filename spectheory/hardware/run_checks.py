"""Whether runs name the deployment for which they are used, and whether their times are possible together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations, product

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
TOLERANCE = 0.8
"""A run that does more than another must take at least this share of its seconds; below it, they contradict."""
ORDER = ("forward", "plain", "speculative")
"""Kinds of runs of which each does what the one before does, and more."""
CONDITIONS = ("kind", "batch", "context", "tokens", "depth", "tau", "prefill_tokens")
"""The fields in which runs that repeat each other agree."""


def require_possible(runs: Sequence[Run], setup: TimedSetup) -> None:
    """Check that the seconds of runs are possible on these GPUs, and that no two runs contradict or repeat each other.

    Raises:
        InputError: a run is faster than the bandwidth or the operations of the GPUs allow, does more than another run
            in less time, or repeats the conditions of another.
    """
    for run in runs:
        _require_slower_than_peak(run, setup)
    for first, second in permutations(runs, 2):
        if all(getattr(first, name) == getattr(second, name) for name in CONDITIONS):
            raise InputError(
                f"{second.where}the run repeats the conditions of {_named(first)}: keep one of them, or replace both "
                "by one run with their mean seconds"
            )
        if _does_more(first, second) and first.seconds < TOLERANCE * second.seconds:
            raise InputError(
                f"{first.where}{_figures(first)} contradicts {_named(second)}, {_figures(second)}: it does more in "
                "less time. A throughput counts the tokens of all sequences together; correct the figures or the batch "
                "size, or leave out one of the runs"
            )


def _require_slower_than_peak(run: Run, setup: TimedSetup) -> None:
    least = setup.least_seconds(run)
    if run.seconds >= (least if setup.target.linear_bytes >= SIXTEEN_BITS else (1 - ALIKE) * least):
        return
    most, target = run.tokens_per_second * run.seconds / least, setup.target
    raise InputError(
        f"{run.where}{run.tokens_per_second:,.5g} tokens per second at batch {run.batch:g} are more than {setup.gpus} "
        f"x {setup.gpu.name} allows: reading the {target.weight_bytes / 1e9:.3g} GB of {target.name} and the caches at "
        f"the peak bandwidth, or computing at the peak rate, takes {1e3 * least:.3g} ms, so at most {most:,.5g} tokens "
        "per second. A throughput counts the tokens of all sequences together; check it, the batch size, the GPU, the "
        "number of GPUs and the format of the weights (quant)"
    )


def _does_more(first: Run, second: Run) -> bool:
    """Whether a run does all that another does."""
    sizes = ("batch", "context", "tokens", "prefill_tokens")
    more = all(getattr(first, name) >= getattr(second, name) for name in sizes)
    return more and ORDER.index(first.kind) >= ORDER.index(second.kind)


def _figures(run: Run) -> str:
    return f"{1e3 * run.seconds:.3g} ms of a {STEPS[run.kind]} at batch {run.batch:g}"


STEPS = {"plain": "plain step", "forward": "forward", "speculative": "cycle"}
"""What the seconds of a run are the time of."""


def _named(run: Run) -> str:
    return run.source or f"the {run.kind} run at batch {run.batch:g}"


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
