"""Provenance: where a record came from."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Self


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True)
class Provenance:
    """Where a record came from: what made it, with which versions and seed, on which machine, and when (UTC)."""

    source: str
    created: str = ""
    seed: int | None = None
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)

    @property
    def placement(self) -> dict[str, str]:
        """Device, dtype and attention of the models, as far as they were noted."""
        return {name: self.details[name] for name in ("device", "dtype", "attention") if name in self.details}

    @classmethod
    def now(cls, source: str, *, seed: int | None = None, packages: tuple[str, ...] = (), **details: object) -> Self:
        """A stamp for a record made here and now; `packages` are named with their versions beside spectheory's."""
        return cls(
            source=source,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            seed=seed,
            machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            versions={name: _installed(name) for name in ("spectheory", *packages)},
            details={key: str(value) for key, value in details.items()},
        )

    def noting(self, **details: object) -> Self:
        """The same stamp with more details."""
        return dataclasses.replace(self, details=self.details | {key: str(value) for key, value in details.items()})

    @property
    def assumed(self) -> tuple[str, ...]:
        """What was assumed, a sentence each, for want of a measurement."""
        return tuple(filter(None, self.details.get("assumed", "").split("; ")))

    def assuming(self, *sentences: str) -> Self:
        """The same stamp with what was assumed beside, each sentence once."""
        every = dict.fromkeys((*self.assumed, *sentences))
        return self.noting(assumed="; ".join(every)) if every else self

    @classmethod
    def merged(cls, stamps: Sequence[Self]) -> Self:
        """One stamp of what several went into: all sources, machines and versions, and the details they agree on."""
        first, versions = stamps[0], {}
        for stamp in stamps:
            versions |= stamp.versions
        return cls(
            source=" and ".join(dict.fromkeys(stamp.source for stamp in stamps)),
            created=max(stamp.created for stamp in stamps),
            seed=first.seed if all(stamp.seed == first.seed for stamp in stamps) else None,
            machine="; ".join(dict.fromkeys(stamp.machine for stamp in stamps if stamp.machine)),
            versions=versions,
            details=dict(item for item in first.details.items() if all(item in s.details.items() for s in stamps)),
        )


UNKNOWN = Provenance(source="made by hand")
