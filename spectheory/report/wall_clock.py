"""The report of a wall clock: tokens per second of many decoders as a table and in words."""

from __future__ import annotations

import numpy as np

from spectheory.report.tables import MISSING, TextTable
from spectheory.results.wall_clock import BASELINE, SAME, WallClock

TREES = ("static tree", "dynamic tree")
AIM = 1.3
"""Ratio to the fastest decoder of transformers that our fastest tree should reach, if the latency curve allows it."""
AIM_OVER_RATES, AIM_OVER_HF, MOST_REGRET = 1.15, 1.5, 0.03
"""For sampled text: the speed that the plan should reach relative to the tree of the rates with the naive solver, and
relative to the fastest decoder of transformers; and how much slower it may be than the fastest plan of all."""
LEAST_PROMPTS = 6
"""Intervals are shown from this many prompts on. With fewer, not even the range of all ratios has a level of 95%."""
MOST_OUTSIDE = {"chain": 0.05, "static tree": 0.05, "dynamic tree": 0.10}
"""Largest acceptable share of the time outside the forwards, by family."""


def clock_rows(record: WallClock) -> TextTable:
    """One row for each decoder, one section for each family of decoders."""
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
        title=f"Wall clock at {stamp.sampling or 'an unknown temperature'}: {_prompts(record)} x "
        f"{settings.get('new_tokens', '?')} tokens, threads: {settings.get('threads', '?')}, "
        f"{settings.get('cpu', '?')}, " + ", ".join(stamp.placement.values()),
        header=("decoder", "tok/s", "x HF", "95%", "tau", "outside", "x loop", "plan"),
        rows=tuple(rows),
        sections=frozenset(i for i in range(1, len(families)) if families[i] != families[i - 1]),
        note="tok/s: tokens per second, prompt included. x HF: speed relative to HF plain. Both are medians over "
        "prompts, so x HF need not be the ratio of two entries of tok/s. Outside: share of the time after the first "
        "token that is outside the models' `forward`. x loop: speed after the prompt relative to our plain loop. Plan: "
        f"the plan's prediction of x loop. {_range(record.repeated_share)} of the runs of four tokens repeat earlier "
        "text, which helps every lookup decoder.",
    )


def clock_words(record: WallClock) -> list[str]:
    """The findings in words.

    Our speed relative to transformers, the prediction of the plan, the time outside the forwards, and greedy texts.
    """
    words = []
    theirs = record.fastest("HF") or BASELINE
    assisted = next((i for i, name in enumerate(record.decoders) if name.startswith("HF assisted")), None)
    if assisted is None and "HF prompt lookup" in record.decoders:
        words.append("Assisted generation of transformers is left out, because it needs a draft model, not a head.")
    if assisted is not None and "chain" in record.families:
        chain = record.families.index("chain")
        words.append(f"The {record.decoders[chain]} runs at {_times(record, chain, assisted)}.")
    if (tree := record.fastest(*TREES)) is not None:
        beside = "" if assisted is None or assisted == theirs else f", and at {_times(record, tree, assisted)}"
        words.append(
            f"The fastest tree, {record.decoders[tree]}, runs at {_times(record, tree, theirs)}, the fastest of "
            f"transformers here (aim {AIM}){beside}. {_predicted_speed(record, theirs)}"
        )
    words += _choice(record, theirs)
    best = record.fastest(*set(record.families)) or BASELINE
    words.append(f"The fastest of all, {record.decoders[best]}, runs at {_times(record, best, theirs)}.")
    for family, most in MOST_OUTSIDE.items():
        shares = {record.decoders[i]: record.outside_share[i] for i, f in enumerate(record.families) if f == family}
        if shares:
            said = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
            words.append(f"Outside the forwards (aim below {most:.0%} for a {family}): {said}.")
    return words + _divergences(record)


def _choice(record: WallClock, theirs: int) -> list[str]:
    """The plan's choice beside that of the rates, beside the other trees and verifiers, and beside transformers."""
    chosen, by_rates = record.chosen, record.by_rates
    if chosen is None or by_rates is None:
        return []
    name, expected = record.decoders[chosen], record.plan.speedup
    words, at_rates = [], record.predicted[by_rates] or 1.0
    if chosen != by_rates:
        words.append(
            f"The plan's choice, {name}, runs at {_times(record, chosen, by_rates)}, the choice of the rates alone "
            f"(aim {AIM_OVER_RATES}; replay and the measured times predict {expected / at_rates:.2f})."
        )
    timed = [i for i, plan in enumerate(record.planned) if plan]
    fastest = max(timed, key=lambda i: record.ratio(i, chosen)[0])
    regret = 1 - 1 / max(1.0, record.ratio(fastest, chosen)[0])
    loop = record.ratio(record.families.index("plain"), theirs)[0]
    return [
        *words,
        f"Of {len(timed)} chains and trees with their verifiers, {record.decoders[fastest]} is the fastest: {name} is "
        f"{regret:.1%} slower (aim below {MOST_REGRET:.0%}).",
        f"{name[0].upper()}{name[1:]} runs at {_times(record, chosen, theirs)}, the fastest of transformers here (aim "
        f"{AIM_OVER_HF}; predicted {expected * loop:.2f}).",
    ]


def _predicted_speed(record: WallClock, theirs: int) -> str:
    """The speed that the plan predicted, relative to the fastest decoder of transformers."""
    loop, source = (
        record.ratio(record.families.index("plain"), theirs)[0],
        "replay" if record.plan.is_replayed else "the rates",
    )
    return (
        f"From the measured times and {source}, the plan predicted {record.plan.speedup:.2f} times our plain loop for "
        f"its {record.plan.answer}, which is {record.plan.speedup * loop:.2f} times {record.decoders[theirs]}."
    )


def _divergences(record: WallClock) -> list[str]:
    found = np.argwhere(record.first_difference != SAME)
    if not len(found):
        greedy = record.provenance.temperature == 0
        every = "all " * (record.prompts > 1) + _prompts(record)
        same = f"Every decoder writes the same text as {record.decoders[BASELINE]} on {every}."
        return [same] if greedy else []
    cells = [
        f"{record.decoders[i]} on prompt {request} at token {record.first_difference[request, i]} "
        f"(logits differ by {record.margin[request, i]:.1e})"
        for request, i in found
    ]
    return [f"Greedy texts diverge from {record.decoders[BASELINE]}: {'; '.join(cells)}."]


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
