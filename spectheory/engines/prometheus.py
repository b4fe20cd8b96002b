"""Metrics in the Prometheus text format, as far as reports need them: counters and gauges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from spectheory.engines.report_values import count, missing


@dataclass(frozen=True)
class Metrics:
    """Samples by name, as (labels, value). A counter `x` that is exposed as `x_total` is found under `x`."""

    samples: dict[str, list[tuple[dict[str, str], float]]]

    @classmethod
    def parse(cls, text: str) -> Metrics:
        """Read the text that a server exposes under `/metrics`. The declared types of metrics are ignored.

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
        seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        plain: dict[str, list[tuple[dict[str, str], float]]] = {}
        total: dict[str, list[tuple[dict[str, str], float]]] = {}
        for name, labels, value, *_ in every:
            series = name, frozenset(labels.items())
            if series in seen:
                shown = ",".join(f'{label}="{held}"' for label, held in labels.items())
                raise InputError(
                    f"text must hold each series once, got {name}{{{shown}}} twice: pass a single scrape of a "
                    "server, and give several servers a label that tells them apart"
                )
            seen.add(series)
            into = total if name.endswith("_total") else plain
            into.setdefault(name.removesuffix("_total"), []).append((dict(labels), float(value)))
        return cls(plain | total)

    def require(self, what: str, names: Iterable[str]) -> None:
        """Raise InputError if there are no samples of any of `names`."""
        if not any(name in self.samples for name in names):
            raise missing(what, names, self.samples)

    def counter(self, name: str) -> int | None:
        """The sum over all label sets; None if there is no sample."""
        if name not in self.samples:
            return None
        return sum(count(name, value) for _, value in self.samples[name])

    def by_position(self, name: str) -> list[int]:
        """The sums over all label sets for position 0, 1, ..."""
        found: dict[int, int] = {}
        for labels, value in self.samples.get(name, []):
            if not is_digits(labels.get("position", "")):
                raise InputError(f"{name} must have a label position, got the labels {labels}")
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
