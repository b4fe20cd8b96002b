"""A schedule in the words of serving engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from spectheory.engines import ChainRange, Envelope, Export, sglang, tensorrt_llm, vllm
from spectheory.records import write_whole
from spectheory.schedule import Schedule
from spectheory.search.envelope import EnvelopePlan

NEWEST = {"vllm": "0.32", "sglang": "0.5.23", "trtllm": "1.4"}
"""The newest version of each engine that its exporter was written against."""


def engine_exports(
    engines: Sequence[str],
    planned: Schedule,
    envelope: Callable[[Callable[[int, int], int] | None], EnvelopePlan],
    draft: str,
) -> Iterator[tuple[str, Export]]:
    """The plan for each of `engines`, named like `vllm` or `vllm@0.31`.

    `envelope` gives the fastest envelope at the first batch size within a bound on its nodes. One batch size with a
    tree is exported as its envelope where the engine grows trees; all else as the best chain of each batch size.

    Raises:
        ValueError: an engine is unknown, or its version cannot run the plan.
    """
    head = draft.startswith("eagle3")
    ranges = chain_ranges(planned)

    def tree_or_chains(most_nodes: Callable[[int, int], int] | None) -> Envelope | list[ChainRange]:
        found = envelope(most_nodes)
        grows = len(planned.batches) == 1 and planned.answer(0) == "tree" and found.branching > 1
        return Envelope(found.levels, found.branching, found.nodes) if grows else ranges

    for name in engines:
        engine, _, version = name.partition("@")
        if engine not in NEWEST:
            known = ", ".join(NEWEST)
            raise ValueError(f"--engine must be of {known}, each with @VERSION if not the newest, got {name!r}")
        version = version or NEWEST[engine]
        if engine == "vllm":
            method = "eagle3" if head else "draft_model"
            yield name, vllm.export(ranges, version=version, method=method, model=draft)
        elif engine == "sglang":
            algorithm = "EAGLE3" if head else "STANDALONE"
            yield name, sglang.export(tree_or_chains(None), version=version, algorithm=algorithm, model=draft)
        else:
            shape = tree_or_chains(lambda levels, branching: levels * branching)
            yield name, tensorrt_llm.export(shape, version=version, model=draft)


def chain_ranges(planned: Schedule) -> list[ChainRange]:
    """The best chain of each batch size, from 1 to the largest planned; sizes between two planned go by the smaller."""
    found = planned.chain_ranges()
    starts = [1, *(first for first, _, _ in found[1:]), found[-1][1] + 1]
    return [
        ChainRange(first, end - 1, tree.budget)
        for (first, end), (_, _, tree) in zip(pairwise(starts), found, strict=True)
    ]


def lines_of(name: str, export: Export, folder: Path) -> Iterator[str]:
    """What to run and to know; the export's files are written to `folder`."""
    yield f"{name} (written for {export.engine} {export.version}):"
    if export.args:
        yield f"  {export.command}"
    for file, text in export.files.items():
        write_whole(folder / file, text)
        yield f"  wrote {folder / file}"
    for note in export.notes:
        yield f"  note: {note}"
