"""Metrics in the Prometheus text format, as far as reports need them: counters and gauges."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from spectheory.core.record import parse
from spectheory.engines.report_values import count, missing

Key = frozenset[tuple[str, str]]
"""The labels of a series."""
GROWING = ("_total", "_sum", "_count", "_bucket")
"""How the names of samples end that only grow while a server runs."""
STARTED = ("_created", "process_start_time_seconds")
"""How the names of samples end that change only when a server starts."""
NOT_ONE_RUN = "give two scrapes of one run of the server, the earlier scrape first"


@dataclass(frozen=True)
class Metrics:
    """Samples by name and labels. A counter `x` that is exposed as `x_total` is found under `x`.

    `growing` has the names of the samples that only grow while the server runs. `subtracted` says whether the values
    are what happened between two scrapes.
    """

    samples: dict[str, dict[Key, float]]
    growing: frozenset[str] = frozenset()
    subtracted: bool = False

    @classmethod
    def parse(cls, text: str) -> Metrics:
        """Read the text that a server exposes under `/metrics`, or the answer of Prometheus's HTTP API in JSON.

        Of the declared types, only `counter` is used. A range in JSON is the time between its ends.
        """
        if text.lstrip().startswith("{"):
            return cls._answered(text)
        from prometheus_client.parser import text_string_to_metric_families

        untyped = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
        try:
            every = [sample for family in text_string_to_metric_families(untyped) for sample in family.samples]
        except (ValueError, IndexError) as error:
            reason = error or "a line is not"
            raise InputError(f"the metrics must be in Prometheus's text format, unchanged: {reason}") from None
        typed = re.findall(r"^# TYPE (\S+) counter", text, re.MULTILINE)
        return cls._of(((name, labels, value) for name, labels, value, *_ in every), typed)

    @classmethod
    def _answered(cls, text: str) -> Metrics:
        """The metrics in an answer of Prometheus's HTTP API: those of a vector, or between the ends of a matrix."""
        found = parse(text, "the metrics")
        try:
            series = [(one["metric"], one.get("values") or [one["value"]]) for one in found["data"]["result"]]
            first, last = (
                cls._of((labels["__name__"], labels, values[end][1]) for labels, values in series) for end in (0, -1)
            )
        except (KeyError, TypeError, IndexError, ValueError, AttributeError):
            form = "the JSON must hold series under data.result, as Prometheus's /api/v1/query gives them"
            raise InputError(form) from None
        return last.since(first) if any(len(values) > 1 for _, values in series) else last

    @classmethod
    def _of(cls, rows: Iterable[tuple[str, Mapping[str, str], float | str]], typed: Iterable[str] = ()) -> Metrics:
        """The metrics with these names, labels and values. `typed` are the names that are declared as counters."""
        exposed: dict[str, dict[Key, float]] = {}
        for name, labels, value in rows:
            series, key = exposed.setdefault(name, {}), frozenset(labels.items())
            if key in series:
                raise InputError(
                    f"text must hold each series once, got {name} with the labels {labels} twice: pass a single scrape "
                    "of a server, and give several servers a label that tells them apart"
                )
            series[key] = float(value)
        total = {name.removesuffix("_total"): series for name, series in exposed.items() if name.endswith("_total")}
        growing = [*total, *typed, *(name for name in exposed if name.endswith(GROWING))]
        return cls(exposed | total, frozenset(growing))

    @classmethod
    def together(cls, scrapes: Sequence[Metrics]) -> Metrics:
        """The scrapes of several replicas as one, with a label that tells them apart."""
        if len(scrapes) == 1:
            return scrapes[0]
        samples: dict[str, dict[Key, float]] = {}
        for number, scrape in enumerate(scrapes):
            for name, series in scrape.samples.items():
                own = {key | {("replica", str(number))}: value for key, value in series.items()}
                samples.setdefault(name, {}).update(own)
        return cls(samples, frozenset().union(*(scrape.growing for scrape in scrapes)))

    def since(self, earlier: Metrics) -> Metrics:
        """What happened after an earlier scrape of the same run: counters are subtracted, and gauges are averaged."""
        changed = {name: dict(now) for name, now in self.samples.items()}
        for name, series in earlier.samples.items():
            now = changed.get(name, {})
            for key, before in series.items():
                if key not in now and name in earlier.growing:
                    raise InputError(f"the later scrape has no {name} with the labels {dict(key)}: {NOT_ONE_RUN}")
                value = now.get(key, before)
                if name.endswith(STARTED) and value != before:
                    raise InputError(f"the server was started between the scrapes ({name} changed): {NOT_ONE_RUN}")
                if name in self.growing and value < before:
                    raise InputError(
                        f"{name} fell from {before:g} to {value:g}: the counter was reset, or the scrapes are in the "
                        f"wrong order: {NOT_ONE_RUN}"
                    )
                if key in now:
                    now[key] = value - before if name in self.growing else (before + value) / 2
        return Metrics(changed, self.growing, subtracted=True)

    def by_label(self, label: str) -> dict[str, Metrics]:
        """The samples that have each value of a label, such as `model_name`; all samples under "" if none has it."""
        values = {value for series in self.samples.values() for key in series for name, value in key if name == label}
        found: dict[str, Metrics] = {}
        for value in sorted(values):
            kept = {
                name: {key: v for key, v in series.items() if (label, value) in key}
                for name, series in self.samples.items()
            }
            found[value] = replace(self, samples={name: series for name, series in kept.items() if series})
        return found if found else {"": self}

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
        return sum(self.samples.get(name, {}).values())

    def require(self, *names: str) -> None:
        """Raise InputError if there are no samples of any of `names`."""
        if not any(name in self.samples for name in names):
            raise missing("the metrics", names, self.samples)

    def counter(self, name: str) -> int:
        """The sum over all label sets; 0 without samples."""
        return sum(self._counts(name).values())

    def by_position(self, name: str) -> list[int]:
        """The sums over all label sets for position 0, 1, ..."""
        found: dict[int, int] = {}
        for key, value in self._counts(name).items():
            place = dict(key).get("position", "")
            if not is_digits(place):
                raise InputError(f"{name} must have a label 'position' with a whole number, got the labels {dict(key)}")
            found[int(place)] = found.get(int(place), 0) + value
        if sorted(found) != list(range(len(found))):
            raise InputError(f"{name} must have positions 0, 1, ... without gaps, got {sorted(found)}")
        return [found[position] for position in range(len(found))]

    def _counts(self, name: str) -> Mapping[Key, int]:
        """The samples of a counter. Two scrapes can be subtracted only if its name or its type says that it is one."""
        if self.subtracted and name in self.samples and name not in self.growing:
            raise InputError(
                f"{name} must end in _total, or be declared as a counter, to be subtracted: pass unchanged scrapes"
            )
        return {key: count(name, value) for key, value in self.samples.get(name, {}).items()}

    def gauge(self, name: str) -> float | None:
        """The mean of the values that are not 0; idle ranks report 0.

        It is 0 if all values are 0, and None if there is no sample or a value is not finite.
        """
        values = self.samples.get(name, {}).values()
        if not values or not all(math.isfinite(value) for value in values):
            return None
        busy = [value for value in values if value]
        return sum(busy) / len(busy) if busy else 0.0
