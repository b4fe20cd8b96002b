"""`Section`, a part of a quantization_config, with methods that read and check its fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spectheory.core.errors import InputError


@dataclass(frozen=True)
class Section:
    """The quantization_config of a checkpoint, or a part of it, with methods that read and check its fields."""

    values: Mapping[str, Any]
    where: str

    def choice(self, name: str, choices: Iterable[Any], default: Any = None) -> Any:
        """The value of a field that must be one of `choices`, else `default`."""
        value, known = self.values.get(name, default), list(choices)
        if isinstance(value, bool) != isinstance(known[0], bool) or value not in known:
            raise InputError(f"{self.where} must have {name} of {_listed(known)}, got {name}={value!r:.40}")
        return value

    def group(self, name: str = "group_size", default: int | None = None) -> int | None:
        """The number of inputs that share a scale; None for all of them, which is written as -1, 0 or null."""
        value = self.values.get(name, default)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value in (-1, 0)):
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 10**6:
            raise InputError(f"{self.where} must have a whole number as {name}, or -1, got {name}={value!r:.40}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """The value of a field that is true or false, else `default`."""
        return self.choice(name, (True, False), default)

    def patterns(self, *names: str) -> tuple[str, ...]:
        """The texts in the lists of these fields."""
        found = []
        for name in names:
            value = self.values.get(name)
            if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
                raise InputError(f"{self.where} must have a list of names as {name}, got {name}={value!r:.40}")
            found += value or []
        return tuple(found)

    def part(self, name: str) -> Section | None:
        """The object in a field; None if the config lacks it."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise InputError(f"{self.where} must have an object as {name}, got {name}={value!r:.40}")
        return None if value is None else Section(value, self.where)


def _listed(choices: list[Any]) -> str:
    return ", ".join(map(str, choices[:-1])) + f" or {choices[-1]}" if len(choices) > 1 else str(choices[0])
