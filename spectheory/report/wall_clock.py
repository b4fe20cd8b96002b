"""Tokens per second of many decoders as a table of text, and what it comes to in words."""

from __future__ import annotations

import numpy as np

from spectheory.report.tables import MISSING, TextTable
from spectheory.results.wall_clock import BASELINE, SAME, WallClock

TREES = ("static tree", "dynamic tree")
AIM = 1.3
"""Times transformers' best that the best tree should reach where the latency curve allows it."""
LEAST_PROMPTS = 6
"""From so many on the smallest and the largest ratio hold the median of all prompts between them with 95%."""
MOST_OUTSIDE = {"chain": 0.05, "static tree": 0.05, "dynamic tree": 0.10}
"""Share of a cycle outside the forwards."""


def clock_rows(record: WallClock) -> TextTable:
    """A row for each decoder, a section for transformers', for ours, and for each family of ours."""
    ratios = [record.ratio(i) for i in range(len(record.decoders))]
    few, rows = record.prompts < LEAST_PROMPTS, []
    for i, name in enumerate(record.decoders):
        median, *limits = ratios[i]
        own, said = record.families[i] != "HF", record.predicted[i]
        rows.append(
            (
                name,
                f"{record.speed[i]:.0f}",
                f"{median:.2f}",
                MISSING if i == BASELINE or few else "{:.2f}-{:.2f}".format(*limits),
                _number(record.tau[i], "{:.2f}"),
                _number(record.outside_share[i], "{:.1%}"),
                f"{record.loop_speedup[i]:.2f}" if own else MISSING,
                MISSING if said is None else f"{said:.2f}",
            )
        )
    families = record.families
    stamp, settings = record.provenance, record.provenance.settings
    return TextTable(
        title=f"Wall clock at temperature {stamp.temperature}: {_prompts(record)} x {settings.get('new_tokens', '?')} "
        f"tokens, threads: {settings.get('threads', '?')}, {settings.get('cpu', '?')}, "
        + ", ".join(stamp.placement.values()),
        header=("decoder", "tok/s", "x HF", "95%", "tau", "outside", "x loop", "plan"),
        rows=tuple(rows),
        sections=frozenset(i for i in range(1, len(families)) if families[i] != families[i - 1]),
        note="tok/s and x HF (times HF plain, prompt included) are medians over prompts, as the ratios in words are: "
        "none is the ratio of two others. Outside: share behind the first token outside the models' "
        "`forward`, timed alike for all. x loop: times our plain loop behind the prompt, and what the plan says of it. "
        "Of the runs of four tokens "
        f"{_range(record.repeated_share)} repeat, which flatters every lookup.",
    )


def clock_words(record: WallClock) -> list[str]:
    """How ours stand beside transformers', what the latency curve allows, time outside forwards, greedy identity."""
    words = []
    theirs = record.fastest("HF") or BASELINE
    assisted = next((i for i, name in enumerate(record.decoders) if name.startswith("HF assisted")), None)
    if assisted is not None and "chain" in record.families:
        chain = record.families.index("chain")
        words.append(f"The {record.decoders[chain]} runs at {_times(record, chain, assisted)}.")
    if (tree := record.fastest(*TREES)) is not None:
        beside = "" if assisted in (None, theirs) else f", and at {_times(record, tree, assisted)}"
        words.append(
            f"The fastest tree, {record.decoders[tree]}, runs at {_times(record, tree, theirs)}, the best of "
            f"transformers' own here (aim {AIM}){beside}. {_allowed(record, theirs)}"
        )
    best = record.fastest(*set(record.families)) or BASELINE
    words.append(f"The fastest of all, {record.decoders[best]}, runs at {_times(record, best, theirs)}.")
    for family, most in MOST_OUTSIDE.items():
        shares = {record.decoders[i]: record.outside_share[i] for i, f in enumerate(record.families) if f == family}
        if shares:
            said = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
            words.append(f"Outside the forwards (aim below {most:.0%} for a {family}): {said}.")
    return words + _partings(record)


def _allowed(record: WallClock, theirs: int) -> str:
    """What the plan expected of its answer, in units of transformers' best."""
    loop = record.ratio(record.families.index("plain"), theirs)[0]
    return (
        f"The plan promised its {record.plan.answer} {record.plan.speedup:.2f} times our plain loop, by the latency "
        f"curve and the rates, which is {record.plan.speedup * loop:.2f} times {record.decoders[theirs]}."
    )


def _partings(record: WallClock) -> list[str]:
    found = np.argwhere(record.parted != SAME)
    if not len(found):
        greedy = record.provenance.temperature == 0
        every = "all " * (record.prompts > 1) + _prompts(record)
        same = f"Every decoder's text is that of {record.decoders[BASELINE]} on {every}."
        return [same] if greedy else []
    cells = [
        f"{record.decoders[i]} on prompt {request} at token {record.parted[request, i]} "
        f"(logits {record.margin[request, i]:.1e} apart)"
        for request, i in found
    ]
    return [f"Greedy texts part from {record.decoders[BASELINE]}: {'; '.join(cells)}."]


def _times(record: WallClock, decoder: int, other: int) -> str:
    median, low, high = record.ratio(decoder, other)
    interval = f" (95% {low:.2f} to {high:.2f})" if record.prompts >= LEAST_PROMPTS else ""
    return f"{median:.2f}{interval} times {record.decoders[other]}"


def _prompts(record: WallClock) -> str:
    return "1 prompt" if record.prompts == 1 else f"{record.prompts} prompts"


def _range(shares: np.ndarray) -> str:
    low, high = f"{shares.min():.0%}", f"{shares.max():.0%}"
    return low if low == high else f"{low} to {high}"


def _number(value: float, pattern: str) -> str:
    return MISSING if np.isnan(value) else pattern.format(value)
