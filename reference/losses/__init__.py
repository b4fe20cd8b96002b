"""Training losses of draft heads, by name; each is a frozen dataclass whose fields are its settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from reference.losses.chain import ChainLoss, Eagle, Eagle3, Hass, Lk, Loss
from reference.losses.gto import Gto
from reference.losses.passes import Pass, unroll
from reference.losses.talf import BeamTrees, Talf, beam_trees, unroll_tree
from spectheory.core.errors import InputError, unknown

__all__ = [
    "ALL",
    "BeamTrees",
    "ChainLoss",
    "Eagle",
    "Eagle3",
    "Gto",
    "Hass",
    "Lk",
    "Loss",
    "Pass",
    "Talf",
    "beam_trees",
    "loss_of",
    "unroll",
    "unroll_tree",
]

ALL: tuple[Loss, ...] = (Eagle(), Hass(), Eagle3(), Lk(), Talf(), Gto())
"""Every loss, with the settings of its source."""


def loss_of(name: str, settings: Iterable[str] = ()) -> Loss:
    """The loss of that name, with the settings of its source or with others, each as text such as "passes=3".

    Raises:
        InputError: there is no such loss or setting, or a value is not a number or out of range.

    >>> loss_of("talf", ["k=2"]).k
    2
    """
    for loss in ALL:
        if loss.name == name:
            return replace(loss, **dict(_setting(loss, text) for text in settings))
    raise InputError(unknown("loss", name, (loss.name for loss in ALL)))


def _setting(loss: Loss, text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    known = [field.name for field in fields(loss)]
    if name not in known:
        raise InputError(unknown(f"setting of the loss {loss.name}", name, known))
    try:
        return name, int(value) if value.isdigit() else float(value)
    except ValueError:
        raise InputError(f"{name} must be a number, got {value!r:.40}") from None
