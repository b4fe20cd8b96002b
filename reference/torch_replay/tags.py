"""Tensors with entries that have no value: such an entry is a NaN whose low bits are the number of a random number.

Copies, views, gathers and everything else that moves entries keep the bits, so only arithmetic has to look at them.
An index that was drawn is a choice that nobody has looked at yet: an int64 far below 0. It is drawn when something else
than a move reads it, so that draws that are never used have one outcome only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from spectheory.core.coins import BranchError, Unknown

LAYOUTS = {
    torch.float64: (torch.int64, 0x7FF8 << 48, 51),
    torch.float32: (torch.int32, 0x7FC0 << 16, 22),
    torch.float16: (torch.int16, 0x7E00, 9),
    torch.bfloat16: (torch.int16, 0x7FC0, 6),
}
"""For each number type: the type of its bits, the bits of a NaN, and how many low bits a NaN has to itself."""


PENDING = -(1 << 62)
"""A choice that is not drawn yet is this number plus its own number."""


class Tags:
    """The random numbers of one branch, by their numbers in the bits of a NaN; 0 is a NaN of the program itself.

    Attributes:
        choices: functions that draw an index, or return it if it was drawn before.
    """

    def __init__(self) -> None:
        self.choices: list[Callable[[], int]] = []
        self.known: list[Unknown] = []
        self.numbers: dict[int, int] = {}

    def choice(self, draw: Callable[[], int]) -> int:
        """An entry of an int64 tensor for an index that `draw` draws."""
        self.choices.append(cache(draw))
        return PENDING + len(self.choices) - 1

    def is_pending(self, tensor: Any) -> bool:
        """Whether an entry is a choice that is not drawn yet."""
        if not self.choices or not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.int64:
            return False
        if tensor.device.type != "cpu" or not tensor.numel():
            return False
        return bool((tensor.detach().numpy() < PENDING // 2).any())

    def settle(self, tensor: torch.Tensor) -> None:
        """Draw all choices in a tensor, in its memory."""
        entries = tensor.detach().numpy()
        for i in zip(*np.nonzero(entries < PENDING // 2), strict=True) if entries.ndim else [()]:
            if entries[i] - PENDING < len(self.choices):
                entries[i] = self.choices[int(entries[i] - PENDING)]()

    def of(self, tensor: Any) -> np.ndarray | None:
        """The number of the random number in each entry, or 0; None if no entry has one."""
        if not self.known or not isinstance(tensor, torch.Tensor) or tensor.dtype not in LAYOUTS:
            return None
        if tensor.device.type != "cpu" or not tensor.numel():
            return None
        kind, nan, low = LAYOUTS[tensor.dtype]
        bits = tensor.detach().view(kind).numpy()
        is_nan = (bits & nan) == nan
        if not is_nan.any():
            return None
        numbers = np.where(is_nan, bits & ((1 << low) - 1), 0)
        numbers = np.where(numbers <= len(self.known), numbers, 0)
        return numbers if numbers.any() else None

    def entries(self, tensor: torch.Tensor) -> np.ndarray:
        """The entries as Python numbers, or as random numbers without a value."""
        found = np.empty(tensor.numel(), dtype=object)
        found[:] = tensor.detach().reshape(-1).tolist()
        numbers = self.of(tensor)
        if numbers is not None:
            for i in np.flatnonzero(numbers):
                found[i] = self.known[int(numbers.flat[i]) - 1]
        return found.reshape(tuple(tensor.shape))

    def tensor(self, entries: Any, dtype: torch.dtype) -> torch.Tensor:
        """A tensor with these entries.

        Raises:
            BranchError: an entry without a value cannot have this type.
        """
        flat = np.asarray(entries, dtype=object).reshape(-1)
        random = [(i, entry) for i, entry in enumerate(flat) if isinstance(entry, Unknown)]
        plain: Sequence[Any] = [0 if isinstance(entry, Unknown) else entry for entry in flat]
        made = torch.tensor(plain, dtype=dtype)
        if random:
            if dtype not in LAYOUTS:
                raise BranchError(f"a random number is turned into {dtype}")
            kind, nan, low = LAYOUTS[dtype]
            bits = made.view(kind).numpy()
            for i, entry in random:
                bits[i] = nan | self._number(entry, low)
        return made.reshape(np.shape(entries))

    def _number(self, entry: Unknown, low: int) -> int:
        number = self.numbers.get(id(entry))
        if number is None:
            self.known.append(entry)
            number = self.numbers[id(entry)] = len(self.known)
        if number >= 1 << low:
            raise BranchError("there are too many random numbers for this number type: use torch.float32")
        return number
