"""A plan in the words of the engines that are to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from spectheory.cli.offer import Offer, PlainIsFastestError, at_most, first_is_longest, one_length
from spectheory.cli.output import console, errors
from spectheory.engines import (
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
from spectheory.records import write_whole


def _vllm(plan: Offer, version: str) -> Export:
    method = {"model": "draft_model"}.get(plan.family, plan.family)
    most = vllm_config.MAX_SPEC_LEN
    ranges, notes = plan.chains(at_most(most), f"vLLM verifies, of up to {most} tokens")
    if len(ranges) > 1 and not vllm.VERSIONS[version].schedule:
        ranges, notes = plan.chains(one_length(most), f"vLLM {version} takes, one length for all batch sizes")
    return _noting(vllm.export(ranges, version=version, method=method, model=plan.model), notes)


def _sglang(plan: Offer, version: str) -> Export:
    algorithm = {"model": "STANDALONE"}.get(plan.family, plan.family.upper())
    envelope, notes = plan.tree_envelope(), ()
    if envelope is None:
        shape, notes = plan.chains(at_most(plan.longest), "SGLang takes by batch size")
        by_batch = sglang.VERSIONS[version] and algorithm in sglang_flags.ADAPTIVE_ALGORITHMS
        if len(shape) > 1 and not by_batch:
            what = f"SGLang {version} takes with {algorithm}, one length for all batch sizes"
            shape, notes = plan.chains(one_length(plan.longest), what)
    else:
        shape = envelope
    return _noting(sglang.export(shape, version=version, algorithm=algorithm, model=plan.model), notes)


def _tensorrt_llm(plan: Offer, version: str) -> Export:
    model = plan.model
    if plan.family != "eagle3":
        raise ValueError(f"the draft must be an EAGLE-3 head, with eagle3 in its name, got {model}")
    grows = tensorrt_llm.VERSIONS[version].dynamic_tree
    envelope = plan.tree_envelope(lambda levels, branching: levels * branching) if grows else None
    if envelope is not None:
        return tensorrt_llm.export(envelope, version=version, model=model)
    ranges, notes = plan.chains(first_is_longest, f"TensorRT-LLM {version} takes, the longest at batch size 1")
    return _noting(tensorrt_llm.export(ranges, version=version, model=model), notes)


def _eagle(plan: Offer, version: str) -> Export:
    tree = plan.tree
    return eagle.export(tree if eagle.VERSIONS[version] == "static" else plan.envelope(), version=version)


def _medusa(plan: Offer, version: str) -> Export:
    return medusa.export(plan.tree, version=version)


def _hugging_face(plan: Offer, version: str) -> Export:
    return hugging_face.export(_whole_model(plan).chain, version=version)


def _llama_cpp(plan: Offer, version: str) -> Export:
    spec_type = {"model": "draft-simple", "eagle3": "draft-eagle3"}.get(plan.family)
    if spec_type is None:
        raise ValueError(f"the draft must be a whole model or an EAGLE-3 head, got {plan.draft}")
    return llama_cpp.export(plan.chain, version=version, model=plan.model, spec_type=spec_type)


def _mlx_lm(plan: Offer, version: str) -> Export:
    return mlx_lm.export(_whole_model(plan).chain, version=version, model=plan.model)


def _whole_model(plan: Offer) -> Offer:
    """`plan`, refused when it drafts with a head: neither transformers 5.23.0 nor mlx-lm 0.32.2 knows EAGLE."""
    if plan.family != "model":
        raise ValueError(f"the draft must be a whole model, got the EAGLE head {plan.draft}")
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
            ValueError: the version is unknown, or cannot run the plan.
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
                export = ENGINES[engine].of(plan, version)
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
