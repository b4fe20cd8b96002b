"""Metrics in the Prometheus text format, as far as reports need them: counters and gauges."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from spectheory.engines.report_values import count, missing

Key = frozenset[tuple[str, str]]
"""The labels of a series."""
Samples = dict[str, list[tuple[dict[str, str], float]]]
"""Samples by name, as (labels, value)."""
GROWING = ("_total", "_sum", "_count", "_bucket")
"""How the names of samples end that only grow while a server runs."""
STARTED = ("_created", "process_start_time_seconds")
"""How the names of samples end that change only when a server starts."""
NOT_ONE_RUN = "give two scrapes of one run of the server, the earlier scrape first"


@dataclass(frozen=True)
class Metrics:
    """Samples by name, as (labels, value). A counter `x` that is exposed as `x_total` is found under `x`.

    `growing` has the names of the samples that only grow while the server runs. `subtracted` says whether the values
    are what happened between two scrapes.
    """

    samples: Samples
    growing: frozenset[str] = frozenset()
    subtracted: bool = False

    @classmethod
    def parse(cls, text: str) -> Metrics:
        """Read the text that a server exposes under `/metrics`. Of the declared types, only `counter` is used.

        Raises:
            InputError: the text is in another format, or a series (a name with its labels) occurs twice.
        """
        from prometheus_client.parser import text_string_to_metric_families

        untyped = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
        try:
            every = [sample for family in text_string_to_metric_families(untyped) for sample in family.samples]
        except (ValueError, IndexError) as error:
            raise InputError(
                f"the metrics must be in Prometheus's text format, as the server gives them: {error or 'a line is not'}"
            ) from None
        seen: set[tuple[str, Key]] = set()
        plain: Samples = {}
        total: Samples = {}
        for name, labels, value, *_ in every:
            series = name, _key(labels)
            if series in seen:
                shown = ",".join(f'{label}="{held}"' for label, held in labels.items())
                raise InputError(
                    f"text must hold each series once, got {name}{{{shown}}} twice: pass a single scrape of a "
                    "server, and give several servers a label that tells them apart"
                )
            seen.add(series)
            into = total if name.endswith("_total") else plain
            into.setdefault(name.removesuffix("_total"), []).append((dict(labels), float(value)))
        typed = re.findall(r"^# TYPE (\S+) counter", text, re.MULTILINE)
        growing = [*total, *typed, *(name for name in plain if name.endswith(GROWING))]
        return cls(plain | total, frozenset(growing))

    def since(self, earlier: Metrics) -> Metrics:
        """What happened after an earlier scrape of the same run: counters are subtracted, and gauges are averaged.

        Raises:
            InputError: the server was started in between, or a counter fell or disappeared.
        """
        before, now = earlier._series, self._series
        for name, labels in now.keys() & before.keys():
            if name.endswith(STARTED) and before[name, labels] != now[name, labels]:
                raise InputError(f"the server was started between the scrapes ({name} changed): {NOT_ONE_RUN}")
        for name, labels in before.keys() - now.keys():
            if name in earlier.growing:
                raise InputError(f"the later scrape has no {name} with the labels {dict(labels)}: {NOT_ONE_RUN}")
        samples = {
            name: [(labels, self._change(name, before.get((name, _key(labels))), value)) for labels, value in rows]
            for name, rows in self.samples.items()
        }
        return Metrics(samples, self.growing, subtracted=True)

    def _change(self, name: str, before: float | None, value: float) -> float:
        """The difference of a counter, or the mean of a gauge, with its value in the earlier scrape, if it has one."""
        if before is None:
            return value
        if name not in self.growing:
            return (before + value) / 2
        if value < before:
            raise InputError(
                f"{name} fell from {before:g} to {value:g}: the counter was reset, or the scrapes are in the wrong "
                f"order: {NOT_ONE_RUN}"
            )
        return value - before

    @property
    def _series(self) -> dict[tuple[str, Key], float]:
        """The value of each series, by its name and labels."""
        return {(name, _key(labels)): value for name, rows in self.samples.items() for labels, value in rows}

    def by_label(self, label: str) -> dict[str, Metrics]:
        """The samples that have each value of a label, such as `model_name`; all samples under "" if none has it."""
        values = sorted({labels[label] for rows in self.samples.values() for labels, _ in rows if label in labels})
        return {value: self._with(label, value) for value in values} or {"": self}

    def _with(self, label: str, value: str) -> Metrics:
        kept = {name: [row for row in rows if row[0].get(label) == value] for name, rows in self.samples.items()}
        return replace(self, samples={name: rows for name, rows in kept.items() if rows})

    def mean(self, *names: str) -> float | None:
        """The mean of the first histogram of `names` that has counts, over all label sets; None if none has."""
        means = (self.quotient(f"{name}_sum", f"{name}_count") for name in names)
        return next((mean for mean in means if mean is not None), None)

    def quotient(self, name: str, by: str) -> float | None:
        """The quotient of two sums over all label sets; None if the second one is 0."""
        total = self.total(by)
        return self.total(name) / total if total else None

    def total(self, name: str) -> float:
        """The sum over all label sets; 0 without samples."""
        return sum(value for _, value in self.samples.get(name, []))

    def require(self, what: str, names: Iterable[str]) -> None:
        """Raise InputError if there are no samples of any of `names`."""
        if not any(name in self.samples for name in names):
            raise missing(what, names, self.samples)

    def counter(self, name: str) -> int | None:
        """The sum over all label sets; None if there is no sample."""
        if name not in self.samples:
            return None
        self._require_growing(name)
        return sum(count(name, value) for _, value in self.samples[name])

    def _require_growing(self, name: str) -> None:
        """Check that differences of two scrapes can be taken of a counter, which its name or its type must tell."""
        if self.subtracted and name in self.samples and name not in self.growing:
            raise InputError(
                f"{name} must end in _total, or be declared as a counter, to be subtracted: pass the scrapes as the "
                "server gives them"
            )

    def by_position(self, name: str) -> list[int]:
        """The sums over all label sets for position 0, 1, ..."""
        found: dict[int, int] = {}
        self._require_growing(name)
        for labels, value in self.samples.get(name, []):
            if not is_digits(labels.get("position", "")):
                raise InputError(f"{name} must have a label 'position' with a whole number, got the labels {labels}")
            position = int(labels["position"])
            found[position] = found.get(position, 0) + count(name, value)
        if sorted(found) != list(range(len(found))):
            raise InputError(f"{name} must have positions 0, 1, ... without gaps, got {sorted(found)}")
        return [found[position] for position in range(len(found))]

    def gauge(self, name: str) -> float | None:
        """The mean of the values that are not 0; idle ranks report 0.

        It is 0 if all values are 0, and None if there is no sample or a value is not finite.
        """
        values = [value for _, value in self.samples.get(name, [])]
        if not values or not all(math.isfinite(value) for value in values):
            return None
        busy = [value for value in values if value]
        return sum(busy) / len(busy) if busy else 0.0

    def gauge_notes(self, name: str) -> list[str]:
        """Notes on `gauge`: how many ranks were idle, and over how many the mean is taken."""
        values = [value for _, value in self.samples.get(name, [])]
        busy, idle = sum(value != 0 for value in values), values.count(0)
        notes = (
            [f"{idle} of {len(values)} gauges are 0, because their ranks are idle, and are left out"]
            if idle and busy
            else []
        )
        return [*notes, f"tau is the unweighted mean of the gauges of {busy} ranks"] if busy > 1 else notes

    def label_sets(self, name: str) -> list[dict[str, str]]:
        """The different label sets of `name`, without the label `position`."""
        found: dict[str, dict[str, str]] = {}
        for labels, _ in self.samples[name]:
            rest = {key: value for key, value in sorted(labels.items()) if key != "position"}
            found[str(rest)] = rest
        return list(found.values())


def _key(labels: Mapping[str, str]) -> Key:
    return frozenset(labels.items())
