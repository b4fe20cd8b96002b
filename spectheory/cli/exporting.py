"""What `spectheory plan --engine` writes and prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from spectheory import engines
from spectheory.cli.output import Output, console, errors
from spectheory.core.errors import InputError
from spectheory.engines import Export
from spectheory.planning.fitting import Fitting


@dataclass(frozen=True)
class Exports:
    """What engines take of a plan, and why the others take nothing, each by the name that it was asked for under."""

    taken: Mapping[str, Export]
    refused: Mapping[str, str]

    @classmethod
    def of(cls, fitting: Fitting, names: Sequence[str]) -> Exports:
        """The plan for each of `names`, like `vllm` or `vllm@0.31`; nothing is written yet.

        Raises:
            InputError: an engine is unknown.
        """
        asked = [(name, *name.partition("@")[::2]) for name in names]
        try:
            found = {name: (engines.engine(engine), version) for name, engine, version in asked}
        except InputError as error:
            raise InputError(f"--engine: {error}") from None
        taken: dict[str, Export] = {}
        refused: dict[str, str] = {}
        for name, (engine, version) in found.items():
            try:
                export = engine.export(fitting, version or None)
                _check_files(export, taken)
                taken[name] = export
            except InputError as error:
                refused[name] = str(error)
        return cls(taken, refused)

    def files(self, folder: Path) -> list[Output]:
        """What is written into `folder`."""
        texts = {folder / file: text for export in self.taken.values() for file, text in export.files.items()}
        return [Output(path, None, text) for path, text in texts.items()]

    def write(self, folder: Path, *, aside: bool) -> None:
        """Write the files into `folder` and print what to run, `aside` on standard error.

        Raises:
            typer.Exit: with status 2, after everything else, when an engine refused.
        """
        out = errors if aside else console
        for name, export in self.taken.items():
            lines = [f"{name} (written for {export.engine} {export.version}):"]
            lines += [f"  {export.command}"] if export.args else []
            lines += [f"  wrote {path}" for path in export.write(folder, overwrite=True)]
            lines += [f"  note: {note}" for note in export.notes]
            out.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        for name, reason in self.refused.items():
            errors.print(f"error: {name}: {reason}", markup=False, highlight=False, soft_wrap=True)
        if self.refused:
            raise typer.Exit(2)


def _check_files(export: Export, taken: Mapping[str, Export]) -> None:
    """Refuse an export with a file that would replace a file of another export."""
    for name, other in taken.items():
        for file in export.files.keys() & other.files.keys():
            if export.files[file] != other.files[file]:
                raise InputError(f"its {file} would replace the one of {name}: export one of the two at a time")
