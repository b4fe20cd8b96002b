"""Laws and tokens where they lie: NumPy arrays on the host, tensors on a device, and expressions that suit both.

On vectors of a few thousand numbers NumPy's operations are about six times as fast as torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = Any
"""`np.ndarray | Tensor`: what `numpy_on_host` gives, and what is computed of it."""


def numpy_on_host(values: Tensor) -> Array:
    """As verifiers take them: on a device as they are, on the host as a NumPy array that shares their memory."""
    return values.numpy() if values.is_cpu else values


def to_host(values: Array) -> np.ndarray:
    """Brought to the host, if they lie elsewhere."""
    return values if isinstance(values, np.ndarray) else values.numpy(force=True)


def concatenated(parts: Sequence[Array], axis: int = 0) -> Array:
    """One after another along `axis`."""
    return np.concatenate(parts, axis) if isinstance(parts[0], np.ndarray) else torch.cat([*parts], axis)
