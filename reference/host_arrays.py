"""Laws and tokens where they lie: NumPy arrays on the host, tensors on a device, and expressions that suit both.

On vectors of a few thousand numbers NumPy's operations are about six times as fast as torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Handed = Any
"""`np.ndarray | Tensor`: what `handed` gives, and what is computed of it."""


def handed(values: Tensor) -> Handed:
    """As verifiers take them: on a device as they are, on the host as a NumPy array that shares their memory."""
    return values.numpy() if values.is_cpu else values


def fetched(values: Handed) -> np.ndarray:
    """Brought to the host, if they lie elsewhere."""
    return values if isinstance(values, np.ndarray) else values.numpy(force=True)


def joined(parts: Sequence[Handed], axis: int = 0) -> Handed:
    """One after another along `axis`."""
    return np.concatenate(parts, axis) if isinstance(parts[0], np.ndarray) else torch.cat([*parts], axis)
