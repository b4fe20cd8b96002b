"""Times beside baselines of the same run, and rates for the benchmarks of searches."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from spectheory.core.acceptance import Acceptance


class Beside:
    """Least processor seconds of baselines by name, and the lines that relate other times to them.

    Calculations are timed with `timer=process_time` too: other work on the machine lengthens such times little.
    """

    def __init__(self, lines: list[str]) -> None:
        self.seconds: dict[str, float] = {}
        self.results: dict[str, Any] = {}
        self.lines = lines

    def baseline(self, name: str, call: Callable[[], Any], rounds: int) -> Any:
        """Time a baseline, unless it was timed before; returns its result."""
        if name not in self.seconds:
            self.seconds[name], self.results[name] = min((timed(call) for _ in range(rounds)), key=lambda run: run[0])
            self.lines.append(f"{name:60} {self.seconds[name] * 1e3:10.4f} ms")
        return self.results[name]

    def time(self, benchmark: Any, name: str, call: Callable[[], Any], baseline: str) -> Any:
        """Time a call as a multiple of a baseline; returns its result. The first call compiles and is not counted."""
        call()
        result = benchmark(call)
        if benchmark.stats is not None:
            least = benchmark.stats.stats.min
            self.lines.append(f"{name:60} {least * 1e3:10.4f} ms {least / self.seconds[baseline]:11.6f} x {baseline}")
        return result


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    result = call()
    return process_time() - start, result


def measured_like(depths: int, ranks: int, noise: float) -> Acceptance:
    """(depths, ranks) rates that fall with rank as measured ones do; `noise` breaks the order."""
    rng = np.random.default_rng(0)
    table = 0.62 * 0.98 ** np.arange(depths)[:, None] * np.arange(1, ranks + 1.0) ** -1.7
    table *= np.exp(noise * rng.standard_normal(table.shape))
    return Acceptance(table / np.maximum(1, table.sum(1, keepdims=True) / 0.95))


FALLING, NOISY = measured_like(8, 16, 0), measured_like(8, 16, 0.3)
SHUFFLED = Acceptance(np.random.default_rng(0).permuted(FALLING.table, axis=1))
