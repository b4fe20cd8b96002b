"""A plan in the words of the engines that are to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import typer

from spectheory.cli.output import console, errors
from spectheory.engines import (
    ChainRange,
    Envelope,
    Export,
    eagle,
    hugging_face,
    llama_cpp,
    medusa,
    mlx_lm,
    sglang,
    tensorrt_llm,
    vllm,
)
from spectheory.engines.exported import release
from spectheory.latency import Latency
from spectheory.records import write_whole
from spectheory.schedule import Schedule
from spectheory.search.envelope import Envelopes
from spectheory.tree import Tree


@dataclass(frozen=True)
class Offer:
    """What was planned, for each engine to take what it can run.

    Attributes:
        schedule: the fastest tree and the fastest chain at each batch size.
        envelopes: what engines that grow trees can verify, under the same rates.
        latency: that of the first batch size.
        draft: the draft model, empty where it has no name.
    """

    schedule: Schedule
    envelopes: Envelopes
    latency: Latency
    draft: str

    @property
    def tree(self) -> Tree:
        """The fastest tree at the first batch size, a chain also. Raises ValueError where there is none."""
        return self._drafted("nothing", self.schedule.ranges()[0][2])

    @property
    def chain(self) -> int:
        """The length of the fastest chain at the first batch size. Raises ValueError where there is none."""
        return self._drafted("no chain", self.schedule.chain_ranges()[0][2]).budget

    @property
    def chains(self) -> list[ChainRange]:
        """The fastest chain of each batch size from 1 to the largest; between two planned ones that of the smaller.

        Raises:
            ValueError: there is none at any.
        """
        found = self.schedule.chain_ranges()
        if not any(tree.budget for _, _, tree in found):
            raise ValueError("no chain beats plain decoding at any batch size: leave speculation out")
        starts = [1, *(first for first, _, _ in found[1:]), found[-1][1] + 1]
        return [
            ChainRange(first, end - 1, tree.budget)
            for (first, end), (_, _, tree) in zip(pairwise(starts), found, strict=True)
        ]

    def envelope(self, most_nodes: Callable[[int, int], int] | None = None) -> Envelope:
        """The fastest envelope at the first batch size within a bound on its nodes, by (levels, branching)."""
        found = self.envelopes.fastest(self.latency, self.schedule.context, most_nodes)
        return Envelope(found.levels, found.branching, found.nodes)

    def envelope_or_chains(self, most_nodes: Callable[[int, int], int] | None = None) -> Envelope | list[ChainRange]:
        """For one batch size that takes a tree its envelope, else the chains."""
        if len(self.schedule.batches) > 1 or self.schedule.answer(0) != "tree":
            return self.chains
        found = self.envelope(most_nodes)
        return found if found.branching > 1 else self.chains

    @property
    def model(self) -> str:
        """The draft model. Raises ValueError where it has no name."""
        if not self.draft:
            raise ValueError("the latency record does not name the draft model: give its name with --draft")
        return self.draft

    @property
    def family(self) -> str:
        """`eagle3`, `eagle` or `model`: what the draft is, by its name."""
        name = self.draft.lower().replace("-", "")
        return next((family for family in ("eagle3", "eagle") if family in name), "model")

    def _drafted(self, what: str, tree: Tree) -> Tree:
        if tree.budget == 0:
            first = self.schedule.batches[0]
            raise ValueError(f"{what} beats plain decoding at batch size {first}: leave speculation out")
        return tree


def _vllm(plan: Offer, version: str) -> Export:
    method = {"model": "draft_model"}.get(plan.family, plan.family)
    return vllm.export(plan.chains, version=version, method=method, model=plan.model)


def _sglang(plan: Offer, version: str) -> Export:
    algorithm = {"model": "STANDALONE"}.get(plan.family, plan.family.upper())
    return sglang.export(plan.envelope_or_chains(), version=version, algorithm=algorithm, model=plan.model)


def _tensorrt_llm(plan: Offer, version: str) -> Export:
    model = plan.model
    if plan.family != "eagle3":
        raise ValueError(f"the draft must be an EAGLE-3 head, with eagle3 in its name, got {model}")
    shape = plan.envelope_or_chains(lambda levels, branching: levels * branching)
    return tensorrt_llm.export(shape, version=version, model=model)


def _eagle(plan: Offer, version: str) -> Export:
    tree, (_, kind) = plan.tree, release("EAGLE", version, eagle.VERSIONS, parts=1)
    return eagle.export(tree if kind == "static" else plan.envelope(), version=version)


def _medusa(plan: Offer, version: str) -> Export:
    return medusa.export(plan.tree, version=version)


def _hugging_face(plan: Offer, version: str) -> Export:
    return hugging_face.export(_whole_model(plan).chain, version=version)


def _llama_cpp(plan: Offer, version: str) -> Export:
    return llama_cpp.export(plan.chain, version=version)


def _mlx_lm(plan: Offer, version: str) -> Export:
    return mlx_lm.export(_whole_model(plan).chain, version=version, model=plan.model)


def _whole_model(plan: Offer) -> Offer:
    """`plan`, refused when it drafts with a head: neither transformers 5.23.0 nor mlx-lm 0.32.2 knows EAGLE."""
    if plan.family != "model":
        raise ValueError(f"the draft must be a whole model, got the EAGLE head {plan.draft}")
    return plan


@dataclass(frozen=True)
class Engine:
    """What an exporter makes of a plan for a version, and the versions that it was written against, newest last."""

    versions: Mapping[str, object]
    export: Callable[[Offer, str], Export]

    @property
    def newest(self) -> str:
        """The last of the versions."""
        return list(self.versions)[-1]


ENGINES = {
    "vllm": Engine(vllm.VERSIONS, _vllm),
    "sglang": Engine(sglang.VERSIONS, _sglang),
    "trtllm": Engine(tensorrt_llm.VERSIONS, _tensorrt_llm),
    "eagle": Engine(eagle.VERSIONS, _eagle),
    "medusa": Engine(medusa.VERSIONS, _medusa),
    "hf": Engine(hugging_face.VERSIONS, _hugging_face),
    "llama.cpp": Engine(llama_cpp.VERSIONS, _llama_cpp),
    "mlx-lm": Engine(mlx_lm.VERSIONS, _mlx_lm),
}
"""Engines by the name that `--engine` gives them."""


@dataclass(frozen=True)
class Exports:
    """What engines take of a plan, and why the others take nothing, each by the name that it was asked for under."""

    taken: Mapping[str, Export]
    refused: Mapping[str, str]

    @classmethod
    def of(cls, plan: Offer, names: Sequence[str]) -> Exports:
        """The plan for each of `names`, like `vllm` or `vllm@0.31`; nothing is written yet.

        Raises:
            ValueError: an engine is unknown.
        """
        asked = [(name, *name.partition("@")[::2]) for name in names]
        for name, engine, _ in asked:
            if engine not in ENGINES:
                known = ", ".join(ENGINES)
                raise ValueError(f"--engine must be of {known}, each with @VERSION if not the newest, got {name!r}")
        taken: dict[str, Export] = {}
        refused: dict[str, str] = {}
        for name, engine, version in asked:
            try:
                export = ENGINES[engine].export(plan, version or ENGINES[engine].newest)
                _check_files(export, taken)
                taken[name] = export
            except ValueError as error:
                refused[name] = str(error)
        return cls(taken, refused)

    def write(self, folder: Path, *, aside: bool) -> None:
        """Write the files into `folder` and say what to run, `aside` on standard error.

        Raises:
            typer.Exit: with status 2, after all else, when an engine refused.
        """
        for name, export in self.taken.items():
            for line in _lines(name, export, folder):
                (errors if aside else console).print(line, markup=False, highlight=False, soft_wrap=True)
        for name, reason in self.refused.items():
            errors.print(f"error: {name}: {reason}", markup=False, highlight=False, soft_wrap=True)
        if self.refused:
            raise typer.Exit(2)


def _check_files(export: Export, taken: Mapping[str, Export]) -> None:
    """Refuse an export with a file that would replace another one's."""
    for name, other in taken.items():
        for file in export.files.keys() & other.files.keys():
            if export.files[file] != other.files[file]:
                raise ValueError(f"its {file} would replace that of {name}: export one of the two at a time")


def _lines(name: str, export: Export, folder: Path) -> Iterator[str]:
    """What to run and to know; the export's files are written to `folder`."""
    yield f"{name} (written for {export.engine} {export.version}):"
    if export.args:
        yield f"  {export.command}"
    for file, text in export.files.items():
        write_whole(folder / file, text)
        yield f"  wrote {folder / file}"
    for note in export.notes:
        yield f"  note: {note}"
