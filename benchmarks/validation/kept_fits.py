"""Fits that are kept in a file, so that a run that was interrupted does not compute them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.validation.fitting import Problem
from benchmarks.validation.parameters import Parameters
from benchmarks.validation.rows import Row
from spectheory import InputError
from spectheory.hardware.engine_costs import EngineCosts


@dataclass(frozen=True)
class KeptFits:
    """The fit of `benchmarks.validation.fitting`, which looks for its results in a file first.

    Attributes:
        file: JSON Lines, one fit a line, with the identity of its `Problem`; None keeps nothing.
    """

    file: Path | None = None

    def fit(self, rows: Sequence[Row], start: Parameters | None = None) -> Parameters:
        """The parameters that predict `rows` best.

        Raises:
            InputError: the file cannot be read, or a line of it is damaged.
        """
        problem = Problem.of(rows)
        if self.file is None:
            return problem.fit(start)
        identity = problem.identity(start)
        if (known := self._found(self.file, identity)) is not None:
            return known
        found = problem.fit(start)
        line = {"identity": identity, "engines": {name: asdict(costs) for name, costs in found.engines.items()}}
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        return found

    @staticmethod
    def _found(file: Path, identity: str) -> Parameters | None:
        if not file.exists():
            return None
        for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                if line["identity"] == identity:
                    return Parameters({name: EngineCosts(**costs) for name, costs in line["engines"].items()})
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise InputError(f"{file}, line {number} is damaged ({error}): remove the line") from None
        return None
