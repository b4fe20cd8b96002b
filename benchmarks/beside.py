"""Times beside baselines of the same run."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any


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
            least, median = benchmark.stats.stats.min, benchmark.stats.stats.median
            ratio = least / self.seconds[baseline]
            benchmark.extra_info[f"ratio to {baseline}"] = ratio
            times = f"{least * 1e3:10.4f} ms, median {median * 1e3:10.4f} ms"
            self.lines.append(f"{name:60} {times} {ratio:11.6f} x {baseline}")
        return result


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    result = call()
    return process_time() - start, result
