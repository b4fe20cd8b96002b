"""Provenance: where a record came from, as typed fields."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any, Self

from spectheory.core.checks import check_types
from spectheory.core.errors import InputError
from spectheory.core.record import hints_of, plain, typed

Setting = bool | int | float | str | None
LEAST = {"seed": 0, "temperature": 0, "top_k": 1, "top_p": 0, "batch": 1, "gpus": 1, "requests": 0}
"""The smallest allowed value of each number."""
SHIPPED_ROLES = ("target", "head", "draft")
SHIPPED_PAIR = ("reference", "pair")
"""The last two folders around the shipped models."""


@dataclass(frozen=True)
class Provenance:
    """Where a record came from. A field is None if it is unknown.

    Attributes:
        source: the command or the function that made the record.
        created: when it was made (UTC, ISO 8601).
        seed: the seed of all random streams.
        machine: operating system, processor and cores.
        versions: package versions by package name.
        target, draft: name or folder of each model.
        temperature: sampling temperature of the text; 0 is greedy decoding.
        top_k, top_p: how many of the most probable tokens, and how much of their probability, sampling keeps; None
            keeps all.
        batch: number of sequences that run together in a forward.
        gpu, gpus: key of the GPU, and number of GPUs that share a forward.
        device, dtype, attention: device, number type and attention implementation with which the models ran.
        tree: `Tree.identity` of the tree that every cycle drafted.
        verifier: the verifier of every cycle.
        requests: number of requests that the run should count. An interrupted run has counted fewer.
        smoothed: whether measured values were replaced by the nearest monotone ones.
        assumptions: what was assumed because it was not measured, one sentence each.
        settings: all other settings of the run. They are shown, and a resumed run must have the same ones; nothing else
            depends on them.

    Raises:
        InputError: a number is out of range.
    """

    source: str
    created: str = ""
    seed: int | None = None
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    draft: str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    batch: int | None = None
    gpu: str | None = None
    gpus: int | None = None
    device: str | None = None
    dtype: str | None = None
    attention: str | None = None
    tree: str | None = None
    verifier: str | None = None
    requests: int | None = None
    smoothed: bool = False
    assumptions: tuple[str, ...] = ()
    settings: dict[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(Provenance, vars(self))
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise InputError(f"{name} of the provenance must be at least {least} and finite, got {value!r}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p of the provenance must be above 0 and at most 1, got {self.top_p!r}")

    @classmethod
    def now(cls, source: str, *, packages: Iterable[str] = (), **fields: Any) -> Self:
        """The provenance of a record made now. It lists the versions of spectheory and of `packages`."""
        return cls(
            source=source,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            versions={name: _installed(name) for name in ("spectheory", *packages)},
            **fields,
        )

    @classmethod
    def from_dict(cls, data: Any, where: str = "provenance") -> Self:
        """The provenance from the output of `to_dict`. Raises InputError for an unknown, missing or mistyped field."""
        if not isinstance(data, Mapping) or "source" not in data:
            raise InputError(f"{where} must be an object with the field 'source', got {data!r:.80}")
        if unknown := sorted(set(data) - set(_HINTS)):
            raise InputError(f"{where} has the unknown fields {unknown}: remove them")
        return cls(**{name: typed(f"{name} of the provenance", _HINTS[name], value) for name, value in data.items()})

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values. Unknown and empty fields are left out."""
        values = {name: plain(getattr(self, name)) for name in _HINTS}
        return {name: value for name, value in values.items() if value not in (None, "", [], {}) and value is not False}

    def replace(self, **fields: Any) -> Self:
        """A copy of the provenance with new values for these fields."""
        return dataclasses.replace(self, **fields)

    def assuming(self, *sentences: str) -> Self:
        """A copy of the provenance with more assumptions. A sentence is never repeated."""
        return self.replace(assumptions=tuple(dict.fromkeys((*self.assumptions, *sentences))))

    @property
    def sampling(self) -> str:
        """Temperature, top-k and top-p in words; "" if the temperature is unknown."""
        if self.temperature is None:
            return ""
        kept = {"top-k": self.top_k, "top-p": self.top_p}
        limits = [f"{name} {value:g}" for name, value in kept.items() if value is not None]
        return " and ".join([f"temperature {self.temperature:g}", *limits])

    @property
    def placement(self) -> dict[str, str]:
        """Device, dtype and attention by name. Unknown ones are left out."""
        named = {"device": self.device, "dtype": self.dtype, "attention": self.attention}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def facts(self) -> dict[str, Setting]:
        """All known fields and settings by name, except source, date, seed, machine, versions and assumptions.

        Shipped models are named as such, not by their folders.
        """
        apart = ("source", "created", "seed", "machine", "versions", "assumptions", "settings")
        known = {name: value for name, value in self.to_dict().items() if name not in apart}
        models = {name: model_name(known[name]) for name in ("target", "draft") if name in known}
        return {**known, **models, **self.settings}

    @property
    def identity(self) -> dict[str, Setting]:
        """Everything that decides the result of a run, by name: models, settings, package versions and seed."""
        left_out = ("source", "created", "machine", "versions", "settings", "assumptions", "requests")
        own = {name: getattr(self, name) for name in _HINTS if name not in left_out}
        return {**self.versions, **self.settings, **{name: value for name, value in own.items() if value is not None}}

    @classmethod
    def merged(cls, stamps: Sequence[Self]) -> Self:
        """The provenance of a record made from several: all sources, machines and versions, and the equal fields."""
        agreed = _shared([vars(stamp) for stamp in stamps]) | {
            "source": " and ".join(dict.fromkeys(stamp.source for stamp in stamps)),
            "created": max(stamp.created for stamp in stamps),
            "machine": "; ".join(dict.fromkeys(stamp.machine for stamp in stamps if stamp.machine)),
            "versions": {name: value for stamp in stamps for name, value in stamp.versions.items()},
            "settings": _shared([stamp.settings for stamp in stamps]),
        }
        return cls(**agreed)


def _shared(held: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entries that all of these have, with the same value."""
    return {name: value for name, value in held[0].items() if all(name in one and one[name] == value for one in held)}


def model_name(name: str) -> str:
    """The name of a model to show: "shipped head" for one that comes with this package, or `name`."""
    *_, package, folder, role = (None, None, None, *PurePath(name).parts)
    return f"shipped {role}" if (package, folder) == SHIPPED_PAIR and role in SHIPPED_ROLES else name


_HINTS = hints_of(Provenance)


@cache
def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


UNKNOWN = Provenance("made by hand")
