"""A diagnosis of a server: its table of factors, and the sentences around it."""

from __future__ import annotations

from collections.abc import Sequence

from spectheory.report.tables import MISSING, TextTable
from spectheory.results.diagnosis import TITLES, Diagnosis, Factor


def diagnosis_rows(found: Diagnosis) -> TextTable:
    """The factors of a diagnosis, with what each costs."""
    faster = [MISSING if factor.gain is None else f"{factor.gain:.2f}x" for factor in found.factors]
    rows = [(TITLES[one.name], _verdict(one), gain) for one, gain in zip(found.factors, faster, strict=True)]
    note = "Faster: times as fast as now, if only this factor had its usual value."
    return TextTable("Factors of the speed", ("factor", "cause", "faster"), tuple(rows), note=note)


def _verdict(factor: Factor) -> str:
    return "not known" if factor.gain is None else "yes" if factor.is_cause else "no"


def diagnosis_words(found: Diagnosis) -> list[str]:
    """The sentences of a diagnosis that follow its table: figures, what to change, what to measure, the notes."""
    words = [f"{TITLES[factor.name]}: {factor.figures}" for factor in found.factors if factor.figures]
    changes: dict[str, str] = {factor.name: factor.change for factor in found.factors}
    words += [f"change ({TITLES[name]}): {changes[name]}" for name in found.causes if changes[name]]
    if found.length is not None and found.length_gain is not None and found.nodes is not None:
        words.append(_fastest(found.length, found.length_gain, found.length_setting, round(found.nodes)))
    if found.speedup is None and found.factors:
        words.append("to tell the speedup: repeat the traffic without speculation, and give its files with --plain")
    return [*words, *_measure(found.factors), *(f"note: {note}" for note in found.notes)]


def _fastest(length: int, gain: float, setting: str, now: int) -> str:
    """The fastest number of drafted tokens."""
    if length == now:
        return f"fastest by these rates and times: {length} drafted tokens, as now"
    return f"fastest by these rates and times, {gain:.2f}x as fast as now: {setting}"


def _measure(factors: Sequence[Factor]) -> list[str]:
    """What to measure, once for each measurement."""
    wanted = dict.fromkeys(factor.measure for factor in factors if factor.measure)
    return [
        f"to tell {_listed([TITLES[factor.name] for factor in factors if factor.measure == measure])}: {measure}"
        for measure in wanted
    ]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
