"""What `spectheory plan` writes: the plan, its page, and the files of engines, all checked before the first."""

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
    """Where a plan is written, beside it what engines take of it, and what it may not replace.

    Attributes:
        read: files that the command reads.
        record, page: where the plan and the page go, if anywhere.
        force: whether files that are there are replaced.
        as_json: whether the plan is printed as JSON, and all else on standard error.
    """

    read: Sequence[Path | None]
    record: Output
    page: Output
    force: bool
    as_json: bool

    @property
    def folder(self) -> Path:
        """Where the files of engines go."""
        return self.record.path.parent if self.record.path else Path()

    def require_free(self, exports: Exports | None = None) -> None:
        """Check all that will be written, before the first of it is. Raises InputError as `output.require_free`."""
        files = exports.files(self.folder) if exports else []
        require_free(self.read, self.record, self.page, *files, force=self.force)

    def show(self, record: Record, *renderables: RenderableType) -> None:
        """Save and print the plan."""
        show(record, *renderables, as_json=self.as_json, out=self.record.path, force=self.force)

    def show_exports(self, exports: Exports | None) -> None:
        """Write what engines take and say what to run. Raises typer.Exit as `Exports.write`."""
        if exports is not None:
            exports.write(self.folder, aside=self.as_json)
