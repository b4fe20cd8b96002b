"""The option `--engine` of `plan` and `schedule`: the files that it writes, and what it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from spectheory import engines
from spectheory.cli.output import console, errors
from spectheory.core.errors import InputError
from spectheory.engines import Export
from spectheory.planning.fitting import Fitting


def names_of(option: str | None) -> list[str]:
    """The names that an option lists, with commas between them."""
    return [] if option is None else [name.strip() for name in option.split(",")]


def engines_of(option: str | None) -> list[str]:
    """The engines that --engine names, like `vllm` or `vllm@0.31`.

    Raises:
        InputError: an engine or its version is unknown, or plans cannot be exported to it.
    """
    names = names_of(option)
    for name in names:
        try:
            engines.release_of(name)
        except InputError as error:
            raise InputError(f"--engine: {name}: {error}") from None
    return names


@dataclass(frozen=True)
class Exports:
    """The plan as each engine takes it, by the name of the engine that the user gave.

    Attributes:
        taken: the exports for the engines that can run the plan.
        refused: for each other engine, the reason why it cannot.
        folder: the folder for the files of the exports.
    """

    taken: Mapping[str, Export]
    refused: Mapping[str, str]
    folder: Path

    @classmethod
    def of(cls, fitting: Fitting, names: Sequence[str], out: Path | None) -> Exports:
        """The plan for each engine in `names`, like `vllm` or `vllm@0.31`. Nothing is written yet.

        The files will be written next to the file `out` of the plan, or to the working directory if it is None.
        """
        taken: dict[str, Export] = {}
        refused: dict[str, str] = {}
        for name in names:
            engine, version = engines.release_of(name)
            try:
                export = engine.export(fitting, version)
                _check_files(export, taken)
                taken[name] = export
            except InputError as error:
                refused[name] = str(error)
        return cls(taken, refused, out.parent if out else Path())

    @property
    def files(self) -> list[Path]:
        """The files that `write` writes."""
        texts = {self.folder / file: text for export in self.taken.values() for file, text in export.files.items()}
        return [path for path, text in texts.items()]

    def write(self, *, aside: bool) -> None:
        """Write the files, and print how to start each engine, on standard error if `aside`."""
        out = errors if aside else console
        for name, export in self.taken.items():
            lines = [f"{name} (written for {export.engine} {export.version}):"]
            lines += [f"  {export.command}"] if export.args else []
            lines += [f"  wrote {path}" for path in export.write(self.folder, overwrite=True)]
            lines += [f"  note: {note}" for note in export.notes]
            out.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        for name, reason in self.refused.items():
            errors.print(f"error: {name}: {reason}", markup=False, highlight=False, soft_wrap=True)

    def require_all(self) -> None:
        """Raise typer.Exit with status 2 if an engine cannot run the plan."""
        if self.refused:
            raise typer.Exit(2)


def _check_files(export: Export, taken: Mapping[str, Export]) -> None:
    """Check that no file of `export` would replace a different file of another export."""
    for name, other in taken.items():
        for file in export.files.keys() & other.files.keys():
            if export.files[file] != other.files[file]:
                raise InputError(
                    f"its file {file} would replace the file of {name}: export one of the two engines at a time"
                )
