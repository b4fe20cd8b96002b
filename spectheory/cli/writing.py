"""The output files of `plan` and `schedule`. All are checked before the first one is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType

from spectheory.cli.exporting import Exports
from spectheory.cli.output import Output, require_free, show
from spectheory.core.record import Record


@dataclass(frozen=True)
class Writing:
    """The output files of a command that plans: the record, its page, and the files for engines.

    Attributes:
        read: files that the command reads.
        record, page: the file of the plan or schedule, and the file of its HTML page.
        force: whether any existing file may be replaced.
        as_json: whether the record is printed as JSON, and everything else on standard error.
    """

    read: Sequence[Path | None]
    record: Output
    page: Output
    force: bool
    as_json: bool

    @property
    def folder(self) -> Path:
        """The folder for the files of engines."""
        return self.record.path.parent if self.record.path else Path()

    def require_free(self, exports: Exports | None = None) -> None:
        """Check that every output can be written. Raises InputError as `output.require_free` does."""
        files = exports.files(self.folder) if exports else []
        require_free(self.read, self.record, self.page, *files, force=self.force)

    def show(self, record: Record, *renderables: RenderableType) -> None:
        """Save and print the record."""
        show(record, *renderables, as_json=self.as_json, out=self.record.path, force=self.force)

    def show_exports(self, exports: Exports | None) -> None:
        """Write the files for engines and print how to start them. Raises typer.Exit as `Exports.write` does."""
        if exports is not None:
            exports.write(self.folder, aside=self.as_json)
