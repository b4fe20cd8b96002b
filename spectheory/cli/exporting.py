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
    """The engines that --engine names, like `vllm` or `vllm@0.31`, after a check that plans can be exported to them."""
    for name in names_of(option):
        try:
            engines.release_of(name)
        except InputError as error:
            raise InputError(f"--engine: {name}: {error}") from None
    return names_of(option)


@dataclass(frozen=True)
class Exports:
    """The exports for the engines that can run a plan, why the others cannot, and the folder for the files."""

    taken: Mapping[str, Export]
    refused: Mapping[str, str]
    folder: Path

    @classmethod
    def of(cls, fitting: Fitting, names: Sequence[str], out: Path | None) -> Exports:
        """The plan for each engine in `names`. Nothing is written yet; files will be next to the file `out`."""
        taken: dict[str, Export] = {}
        refused: dict[str, str] = {}
        texts: dict[str, str] = {}
        for name in names:
            engine, version = engines.release_of(name)
            try:
                export = engine.export(fitting, version)
            except InputError as error:
                refused[name] = str(error)
                continue
            if clash := next((file for file, text in export.files.items() if texts.get(file, text) != text), None):
                refused[name] = f"its file {clash} would replace the file of another engine: export one at a time"
                continue
            taken[name] = export
            texts |= export.files
        return cls(taken, refused, out.parent if out else Path())

    @property
    def files(self) -> list[Path]:
        """The files that `write` writes."""
        return list(dict.fromkeys(self.folder / file for export in self.taken.values() for file in export.files))

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
