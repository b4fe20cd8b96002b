"""A plan in the words of the engines that are to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import typer

from spectheory.cli.output import Output, console, errors
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.core.tree import Tree
from spectheory.engines import (
    Envelope,
    Export,
    eagle,
    hugging_face,
    llama_cpp,
    medusa,
    mlx_lm,
    sglang,
    sglang_flags,
    tensorrt_llm,
    vllm,
    vllm_config,
)
from spectheory.engines.exported import release
from spectheory.hardware.models import ModelConfig
from spectheory.planning.offer import Offer, PlainIsFastestError, at_most, first_is_longest, one_length


def _vllm(plan: Offer, version: str) -> Export:
    method = {"model": "draft_model"}.get(plan.family, plan.family)
    most = vllm_config.MAX_SPEC_LEN
    found = plan.chains(at_most(most), f"vLLM verifies, of up to {most} tokens")
    if len(found.shape) > 1 and not vllm.VERSIONS[version].schedule:
        found = plan.chains(one_length(most), f"vLLM {version} takes, one length for all batch sizes")
    return _noting(vllm.export(found.shape, version=version, method=method, model=plan.model), plan.notes(found))


def _sglang(plan: Offer, version: str) -> Export:
    algorithm = {"model": "STANDALONE"}.get(plan.family, plan.family.upper())
    by_batch = sglang.VERSIONS[version] and algorithm in sglang_flags.ADAPTIVE_ALGORITHMS
    if by_batch or len(set(plan.planned)) == 1:
        found, notes = plan.better(at_most(plan.longest), "SGLang takes by batch size")
    else:
        what = f"SGLang {version} takes with {algorithm}, one length for all batch sizes"
        found, notes = plan.better(one_length(plan.longest), what)
    return _noting(sglang.export(found.shape, version=version, algorithm=algorithm, model=plan.model), notes)


def _tensorrt_llm(plan: Offer, version: str) -> Export:
    model = plan.model
    if plan.family != "eagle3":
        raise InputError(f"the draft must be an EAGLE-3 head, with eagle3 in its name, got {model}")
    grows, chained = tensorrt_llm.VERSIONS[version].dynamic_tree, _chains_alone(plan.target)
    limits = first_is_longest, f"TensorRT-LLM {version} takes, the longest at batch size 1"
    if grows and not chained:
        found, notes = plan.better(*limits, lambda levels, branching: levels * branching)
    else:
        found = plan.chains(*limits)
        notes = (*plan.notes(found), *chained) if grows else plan.notes(found)
    return _noting(tensorrt_llm.export(found.shape, version=version, model=model), notes)


def _chains_alone(target: ModelConfig | None) -> tuple[str, ...]:
    """A note where the target's attention is one behind which TensorRT-LLM grows no trees."""
    if target is None or not (target.shape.latent or target.shape.sliding_layers):
        return ()
    kind = "multi-head latent attention" if target.shape.latent else "sliding-window attention"
    return (f"chains, as TensorRT-LLM grows no trees for targets with {kind}, which {target.name} has",)


def _eagle(plan: Offer, version: str) -> Export:
    tree, notes = plan.tree, () if plan.family.startswith("eagle") else (_not_of(plan, "an EAGLE head"),)
    if eagle.VERSIONS[version] == "static":
        return _noting(eagle.export(tree, version=version), (*_static_notes(plan, tree), *notes))
    found = plan.first_envelope
    reached = np.array([found.speedup_at(latency, plan.schedule.context) for latency in plan.latencies])
    shape = Envelope(found.levels, found.branching, found.nodes)
    notes = (*plan.notes_at_first(reached), *plan.capped(found.branching), *notes)
    return _noting(eagle.export(shape, version=version), notes)


def _medusa(plan: Offer, version: str) -> Export:
    notes = () if "medusa" in plan.draft.lower() else (_not_of(plan, "Medusa's heads"),)
    return _noting(medusa.export(plan.tree, version=version), (*_static_notes(plan, plan.tree), *notes))


def _static_notes(plan: Offer, tree: Tree) -> tuple[str, ...]:
    return (*plan.notes_at_first(plan.speedups_of(tree)), *plan.capped(int(tree.rank.max()) + 1))


def _not_of(plan: Offer, wanted: str) -> str:
    """A note on an export that names no draft, for a plan of another kind of draft than the engine drafts with."""
    draft = plan.draft or "a draft without a name"
    return f"planned for {draft}, which by its name is not {wanted}: rates and times differ"


def _hugging_face(plan: Offer, version: str) -> Export:
    _require_batch_1(plan)
    return _noting(hugging_face.export(_whole_model(plan).chain, version=version), _chain_notes(plan, alone=True))


def _llama_cpp(plan: Offer, version: str) -> Export:
    spec_type = {"model": "draft-simple", "eagle3": "draft-eagle3"}.get(plan.family)
    if spec_type is None:
        raise InputError(f"the draft must be a whole model or an EAGLE-3 head, got {plan.draft}")
    export = llama_cpp.export(plan.chain, version=version, model=plan.model, spec_type=spec_type)
    return _noting(export, _chain_notes(plan))


def _mlx_lm(plan: Offer, version: str) -> Export:
    _require_batch_1(plan)
    export = mlx_lm.export(_whole_model(plan).chain, version=version, model=plan.model)
    return _noting(export, _chain_notes(plan, alone=True))


def _chain_notes(plan: Offer, *, alone: bool = False) -> tuple[str, ...]:
    return plan.notes_at_first(plan.speedups[:, plan.chain], alone=alone)


def _require_batch_1(plan: Offer) -> None:
    """Refuse a plan without batch size 1 for transformers and mlx-lm, which draft for one sequence at a time."""
    if plan.schedule.batches[0] > 1:
        raise InputError(
            f"it drafts at batch size 1 alone, the plan starts at {plan.schedule.batches[0]}: plan --batch 1"
        )


def _whole_model(plan: Offer) -> Offer:
    """`plan`, refused when it drafts with a head: neither transformers 5.23.0 nor mlx-lm 0.32.2 knows EAGLE."""
    if plan.family != "model":
        raise InputError(f"the draft must be a whole model, got the EAGLE head {plan.draft}")
    return plan


def _noting(export: Export, notes: tuple[str, ...]) -> Export:
    return replace(export, notes=(*notes, *export.notes))


@dataclass(frozen=True)
class Engine:
    """What an exporter makes of a plan for a version.

    Attributes:
        title: the engine's name in errors.
        versions: those that it was written against, newest last.
        parts: numbers of a version that tell them apart.
        export: a plan and one of the versions -> the export.
        off: arguments that turn speculation off, where leaving it out is not enough.
    """

    title: str
    versions: Mapping[str, object]
    parts: int
    export: Callable[[Offer, str], Export]
    off: tuple[str, ...] = ()

    @property
    def newest(self) -> str:
        """The last of the versions."""
        return list(self.versions)[-1]

    def of(self, plan: Offer, version: str) -> Export:
        """The plan for `version`, or for the newest; without speculation where none pays.

        Raises:
            InputError: the version is unknown, or cannot run the plan.
        """
        key, _ = release(self.title, version or self.newest, self.versions, self.parts)
        try:
            return self.export(plan, key)
        except PlainIsFastestError as reason:
            return Export(self.title, key, self.off, {}, (f"{reason}: start it without speculation",))


ENGINES = {
    "vllm": Engine("vLLM", vllm.VERSIONS, 2, _vllm),
    "sglang": Engine("SGLang", sglang.VERSIONS, 3, _sglang),
    "trtllm": Engine("TensorRT-LLM", tensorrt_llm.VERSIONS, 2, _tensorrt_llm),
    "eagle": Engine("EAGLE", eagle.VERSIONS, 1, _eagle),
    "medusa": Engine("Medusa", medusa.VERSIONS, 2, _medusa),
    "hf": Engine("transformers", hugging_face.VERSIONS, 2, _hugging_face),
    "llama.cpp": Engine("llama.cpp", llama_cpp.VERSIONS, 1, _llama_cpp, ("--spec-type", "none")),
    "mlx-lm": Engine("mlx-lm", mlx_lm.VERSIONS, 2, _mlx_lm),
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
            InputError: an engine is unknown.
        """
        asked = [(name, *name.partition("@")[::2]) for name in names]
        for name, engine, _ in asked:
            if engine not in ENGINES:
                known = ", ".join(ENGINES)
                raise InputError(f"--engine must be of {known}, each with @VERSION if not the newest, got {name!r}")
        taken: dict[str, Export] = {}
        refused: dict[str, str] = {}
        for name, engine, version in asked:
            try:
                export = ENGINES[engine].of(plan, version)
                _check_files(export, taken)
                taken[name] = export
            except ValueError as error:
                refused[name] = str(error)
        return cls(taken, refused)

    def files(self, folder: Path) -> list[Output]:
        """What is written into `folder`."""
        texts = {folder / file: text for export in self.taken.values() for file, text in export.files.items()}
        return [Output(path, None, text) for path, text in texts.items()]

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
                raise InputError(f"its {file} would replace that of {name}: export one of the two at a time")


def _lines(name: str, export: Export, folder: Path) -> Iterator[str]:
    """What to run and to know; the export's files are written to `folder`."""
    yield f"{name} (written for {ENGINES[name.partition('@')[0]].title} {export.version}):"
    if export.args:
        yield f"  {export.command}"
    for file, text in export.files.items():
        write_whole(folder / file, text)
        yield f"  wrote {folder / file}"
    for note in export.notes:
        yield f"  note: {note}"
