"""What `plan` and `schedule` write and print: settings of engines, the record, a page and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from spectheory import engines
from spectheory.cli.options import Force, Json
from spectheory.cli.output import console, errors, require_free, show
from spectheory.core.errors import InputError
from spectheory.engines import Export
from spectheory.planning.fitting import Fitting
from spectheory.planning.schedule_record import Schedule

ENGINES = ", ".join(engine.name for engine in engines.ALL if engine.exporter)
"""The names of the engines to which this package can export plans."""


def names_of(option: str | None) -> list[str]:
    """The names that an option lists, with commas between them."""
    return [] if option is None else [name.strip() for name in option.split(",")]


@dataclass(frozen=True)
class PlanOutput:
    """Options for what is written and printed of a plan."""

    engine: Annotated[
        str | None,
        typer.Option(
            help=f"Engines to write settings for, comma-separated: {ENGINES}. The default is the newest known version; "
            "for another version, write ENGINE@VERSION. Computed times use the costs of the first engine.",
            show_default="no settings",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="File for the result. Files for engines are written to its folder.")
    ] = None
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Print what the columns mean, what is assumed, and a drawing of the tree too."),
    ] = False
    force: Force = False
    as_json: Json = False

    def engines(self) -> list[str]:
        """The engines that --engine names, like `vllm` or `vllm@0.31`, to which plans can be exported."""
        for name in names_of(self.engine):
            try:
                engines.release_of(name)
            except InputError as error:
                raise InputError(f"--engine: {name}: {error}") from None
        return names_of(self.engine)

    def require_free(self, read: Iterable[Path | None], *others: Path | None) -> None:
        """Check that `out` and `others` can be written, see `spectheory.cli.output.require_free`."""
        require_free(read, self.out, *others, force=self.force)

    def write(
        self,
        fitting: Fitting,
        answer: RenderableType,
        read: Iterable[Path | None],
        pages: Mapping[Path, str] | None = None,
    ) -> None:
        """Write the settings of the engines, the record and the pages; print the flags, the answer and its error.

        Raises:
            typer.Exit: with status 2, an engine cannot run the plan.
        """
        taken, refused = self._exports(fitting)
        folder, planned = self.out.parent if self.out else Path(), fitting.schedule
        files = dict.fromkeys(folder / file for export in taken.values() for file in export.files)
        self.require_free([*read, *(pages or ())], *files)
        printer = errors if self.as_json else console
        for name, export in taken.items():
            lines = [f"{name} (written for {export.engine} {export.version}):"]
            lines += [f"  {export.command}"] if export.args else []
            lines += [f"  wrote {path}" for path in export.write(folder, overwrite=True)]
            lines += [f"  note: {note}" for note in export.notes]
            printer.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        for name, reason in refused.items():
            errors.print(f"error: {name}: {reason}", markup=False, highlight=False, soft_wrap=True)
        show(planned, answer, *self._notes(planned), as_json=self.as_json, out=self.out, pages=pages)
        if refused:
            raise typer.Exit(2)

    def _exports(self, fitting: Fitting) -> tuple[dict[str, Export], dict[str, str]]:
        """The exports for the engines that can run the plan, and why the others cannot."""
        taken: dict[str, Export] = {}
        refused: dict[str, str] = {}
        texts: dict[str, str] = {}
        for name in names_of(self.engine):
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
        return taken, refused

    def _notes(self, planned: Schedule) -> list[RenderableType]:
        """One line on the error of the prediction; the rest of what is known about it if `verbose`."""
        from spectheory.report.terminal import tree_drawing

        error, *more = [*planned.error_lines, *(f"assumed: {said}" for said in planned.provenance.assumptions)]
        if not self.verbose:
            return [Text(f"{error} (more with --verbose)" if more else error)]
        if (classes := planned.rates.classes) is not None:
            more.append(f"contexts: {classes.summary}")
        lines: list[RenderableType] = [Text(line) for line in (error, *more)]
        if planned.tree.budget:
            lines += [
                Text(f"at batch {planned.batches[0]}:"),
                tree_drawing(planned.tree, planned.reach, planned.reach_source),
            ]
        return lines


PLAN_OUTPUT = PlanOutput()
