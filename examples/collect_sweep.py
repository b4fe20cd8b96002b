"""Sweep the acceptance rate: tau of the planned tree against tau if the true rates are lower, collected in blocks.

python examples/collect_sweep.py [FOLDER]

Interrupt it at any moment and call it again: it continues. On a cluster, start a `distributed.Client` or `ray.init()`
first and add `backend="dask"` or `backend="ray"` to `simulate.collect`; the result is the same, bit for bit.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich import print as show

import simulate
import spectheory as st
from simulate import Block, Collected, Figure, Statistics, Stop, Task

TAU = Figure("tau", "emitted", "cycles", "tokens per target call")


def walk(block: Block, *, planned: float, true: float, cycles: int = 2_000) -> Statistics:
    """Decode with the tree that was planned for one rate, while drafts are accepted at another."""
    plan = st.plan(st.Acceptance.by_rank([planned, 0.1]), st.Latency.constant(draft_seconds=0.1), max_budget=8)
    world = st.Acceptance.by_rank([true, 0.1])
    return Statistics.of_tally(simulate.run(plan, cycles=cycles, requests=2, seed=block.seed, world=world))


def main(folder: str | Path = "build/sweep", half_width: float = 0.02, workers: int = 2) -> Collected:
    """Print the table of the sweep, and write its figure beside the results."""
    tasks = [
        Task(walk, {"planned": planned, "true": true}, figures=(TAU,))
        for planned in (0.5, 0.8)
        for true in (0.4, 0.6, 0.8)
    ]
    found = simulate.collect(tasks, stop=Stop(half_width=half_width, blocks=256), folder=folder, workers=workers)
    show(found)
    (Path(folder) / "tau.svg").write_text(simulate.plot(found, "tau", along="true", by="planned"), encoding="utf-8")
    return found


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/sweep")
