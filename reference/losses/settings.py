"""A loss from its name and from settings given as text, such as "k=2" or "token_loss.passes=3"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from reference.losses.needs import Loss
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown


def with_settings(loss: Loss, settings: Iterable[str]) -> Loss:
    """The loss with other settings, each as `name=number`; a dot leads into a loss that is a setting itself.

    Raises:
        InputError: the loss has no setting of a name, or a value is not a number or out of range.

    >>> from reference.losses import Eagle3, Gto
    >>> with_settings(Eagle3(), ["passes=3"]).passes
    3
    >>> with_settings(Gto(), ["token_loss.passes=4"]).token_loss.passes
    4
    """
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"set must be NAME=VALUE, such as passes=3, got {setting!r:.60}")
        loss = _changed(loss, name.split("."), value, loss.name)
    return loss


def _changed(holder: Any, names: list[str], value: str, loss: str) -> Any:
    known = {field.name: getattr(holder, field.name) for field in fields(holder)}
    name, *deeper = names
    if name not in known or bool(deeper) != is_dataclass(known[name]):
        raise InputError(unknown(f"setting of the loss {loss}", ".".join(names), _paths(holder)))
    return replace(holder, **{name: _changed(known[name], deeper, value, loss) if deeper else _number(name, value)})


def _paths(holder: Any) -> list[str]:
    """The names of all settings."""
    found = []
    for field in fields(holder):
        value = getattr(holder, field.name)
        found += [f"{field.name}.{path}" for path in _paths(value)] if is_dataclass(value) else [field.name]
    return found


def _number(name: str, value: str) -> int | float:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{name} must be a number, got {value!r:.40}") from None
