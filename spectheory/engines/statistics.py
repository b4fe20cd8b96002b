"""Statistics: how often an engine accepted what it drafted, with everything that was assumed to compute it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.engines.report_values import FLOAT, agree, within

RECOVERED = "the line rounds its rates: cycles and counts by position are recovered from them"
RANK_0_ONLY = "chain statistics give rank 0 only: rates of other ranks are unknown and taken as 0"
ROUNDED_TAU, ROUNDED_RATE, ROUNDED_PERCENT = 0.005 + FLOAT, 0.0005 + FLOAT, 0.05 + FLOAT
"""Half a unit of the last digit in log lines: tau has two decimals, rates have three, a percentage has one."""
TOTALS_ONLY = "only totals are reported: rates by position are unknown"
Counted = tuple[Sequence[int], Sequence[int]]
"""(hits, trials) of a chain: the token at position d was verified `trials[d]` times and accepted `hits[d]` times."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What an engine reports of its speculation, in our counting.

    Attributes:
        engine: the title of the engine, such as "vLLM".
        kind: the kind of its report.
        acceptance: rates given that the parent is accepted, with their counts where the report has counts; None
            where only totals are reported.
        tau: tokens per target call, the accepted ones plus one.
        drafts: cycles, that is target calls that verified a draft.
        drafted, accepted: drafted tokens, all and the accepted ones.
        assumed: what was assumed because the report does not say it, a sentence each.

    A figure that is not reported and does not follow from others is None.

    Raises:
        InputError: the totals contradict each other.
    """

    engine: str
    kind: str
    acceptance: Acceptance | None
    tau: float | None
    drafts: int | None
    drafted: int | None
    accepted: int | None
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.drafts == 0 or self.drafted == 0:
            raise _nothing_drafted(self.engine, self.drafts, self.drafted)
        if self.accepted is not None and self.drafted is not None and self.accepted > self.drafted:
            raise InputError(
                f"accepted={self.accepted} must be at most drafted={self.drafted}: these contradict each other"
            )
        if self.tau is not None and self.tau < 1:
            raise InputError(f"tau must be at least 1, the token of the target itself, got {self.tau:g}")
        if self.tau is not None and self.drafts and self.accepted is not None:
            agree("tau", self.tau, 1 + self.accepted / self.drafts, "1 + accepted / drafts", ROUNDED_TAU)


def from_totals(
    engine: str,
    kind: str,
    *,
    drafts: int,
    drafted: int | None,
    accepted: int,
    min_trials: int,
    assumed: Sequence[str] = (),
) -> Statistics:
    """Statistics of totals alone: rates only where every draft has one token."""
    if drafted == drafts and drafts > 0:
        counted = [accepted], [drafts]
        return from_positions(
            engine, kind, counted, drafts=drafts, drafted=drafted, min_trials=min_trials, assumed=assumed
        )
    tau = 1 + accepted / drafts if drafts else None
    return Statistics(engine, kind, None, tau, drafts, drafted, accepted, (TOTALS_ONLY, *assumed))


def from_positions(
    engine: str,
    kind: str,
    counted: Counted,
    *,
    drafts: int,
    drafted: int | None,
    min_trials: int,
    assumed: Sequence[str] = (),
) -> Statistics:
    """Statistics of chains from their counts by position."""
    hits, trials = counted
    if drafts == 0 or drafted == 0 or not hits:
        raise _nothing_drafted(engine, drafts, drafted)
    for d, (hit, trial) in enumerate(zip(hits, trials, strict=True)):
        if hit > trial:
            before = f"position {d - 1} has {trial}" if d else f"there are {trial} drafts"
            raise InputError(f"position {d} has {hit} accepted, but {before}: counts by position must not rise")
    provenance = Provenance.now("spectheory.engines", settings={"report": f"{engine} {kind}"})
    acceptance = Acceptance.from_counts(np.array(hits)[:, None], np.array(trials), provenance, min_trials=min_trials)
    accepted, sentences = sum(hits), [RANK_0_ONLY, *assumed]
    sentences.append(f"the rate at depth {acceptance.depths} is taken for all deeper ones")
    mean = drafted / drafts if drafted is not None and drafts else len(hits)
    if mean > len(hits) + 1e-9:
        sentences.append(
            f"{mean:.4g} tokens were drafted a cycle, but only {len(hits)} positions are counted: if the draft was a "
            "tree, its rates are of all ranks together, given here to rank 0"
        )
    elif mean < len(hits) - 1e-9 and list(trials[1:]) == list(hits[:-1]):
        sentences.append(
            f"{mean:.4g} tokens were drafted a cycle for {len(hits)} positions: one that was not drafted counts as "
            "refused, so that deeper rates are too low"
        )
    return Statistics(engine, kind, acceptance, 1 + accepted / drafts, drafts, drafted, accepted, tuple(sentences))


def added(rows: Iterable[Counted]) -> Counted:
    """The sum of the counts of several reports. A report adds only to the positions that it has."""
    hits, trials = ([sum(column) for column in zip_longest(*part, fillvalue=0)] for part in zip(*rows, strict=True))
    return hits, trials


def _nothing_drafted(engine: str, drafts: int | None, drafted: int | None) -> InputError:
    known = {"drafts": drafts, "drafted": drafted}
    figures = ", ".join(f"{name}={value}" for name, value in known.items() if value is not None)
    return InputError(f"{engine} has drafted nothing yet: {figures}")


def assume_constant(found: Statistics, length: int) -> Statistics:
    """`found` with the one rate for which a chain of `length` tokens gives its tau, where rates are not reported.

    The rate a solves tau = 1 + a + a^2 + ... + a^length. Where the cycles are not reported either, each is taken to
    have drafted `length` tokens.

    Raises:
        InputError: rates are reported, tau is unknown, or no rate from 0 to 1 gives it.
    """
    if found.acceptance is not None:
        raise InputError(f"a constant rate cannot be assumed: {found.engine} {found.kind} gives rates by position")
    tau, why = found.tau, ""
    if tau is None:
        if not found.drafted or found.accepted is None:
            raise InputError(f"a constant rate needs tau, which {found.engine} {found.kind} does not give here")
        tau, why = 1 + length * found.accepted / found.drafted, f", of cycles of {length} drafted tokens each"
    if found.drafts and found.drafted and found.drafted > length * found.drafts:
        raise InputError(
            f"length must be at least the {found.drafted / found.drafts:.4g} drafted a cycle, got {length}"
        )
    if not 1 <= tau <= length + 1:
        raise InputError(f"tau must be from 1 to {length + 1} for chains of {length} drafted tokens, got {tau:.4g}")
    low, high = 0.0, 1.0
    while (rate := (low + high) / 2) not in (low, high):
        low, high = (rate, high) if sum(rate**i for i in range(length + 1)) < tau else (low, rate)
    said = (
        f"one rate, {high:.4f}, is taken for every position: it gives tau {tau:.4g} with {length} drafted tokens{why}"
    )
    return replace(found, acceptance=Acceptance.by_rank([high]), tau=tau, assumed=(*found.assumed, RANK_0_ONLY, said))


def from_prefix_counts(accepted: Sequence[int], drafts: int) -> Counted:
    """The counts by position, where `accepted[d]` of the `drafts` drafts had their first d + 1 tokens accepted."""
    return list(accepted), [drafts, *accepted[:-1]]


def from_histograms(by_length: Mapping[int, Sequence[int]]) -> Counted:
    """The counts by position, where `by_length[k][j]` cycles accepted exactly j of k drafted tokens.

    A position counts only in cycles that drafted it, so drafts of different lengths do not bias the rates.
    """
    hits, trials = [], []
    for d in range(max(by_length)):
        reached = [(j, n) for k, row in by_length.items() if k > d for j, n in enumerate(row) if j >= d]
        trials.append(sum(n for _, n in reached))
        hits.append(sum(n for j, n in reached if j > d))
    return hits, trials


def from_rounded(
    engine: str,
    kind: str,
    *,
    tau: float,
    rates: Sequence[float],
    accepted: int | None,
    drafted: int | None,
    min_trials: int,
    percent: float | None = None,
) -> Statistics:
    """Statistics of a log line: tau with two decimals and, with three, how often the first d + 1 were all accepted.

    `percent` of the drafted tokens were accepted, where the line says so.
    """
    for d, rate in enumerate(rates):
        if not 0 <= rate <= (rates[d - 1] if d else 1):
            limit = f"that of position {d - 1}, {rates[d - 1]:g}" if d else "1"
            raise InputError(f"the rate of position {d} is {rate:g}, but must be at most {limit}: they are cumulative")
    slack = ROUNDED_TAU + ROUNDED_RATE * len(rates)
    agree("mean acceptance length", tau, 1 + sum(rates), "1 + the sum of the rates", slack)
    if percent is not None:
        _check_percent(percent, rates, accepted, drafted)
    if accepted is None or drafted is None:
        table = [[rate / before if before else 0.0] for rate, before in zip(rates, [1, *rates], strict=False)]
        sentences = (RANK_0_ONLY, "the line has no counts: the rates come without intervals")
        return Statistics(engine, kind, Acceptance.by_depth_and_rank(table), tau, None, drafted, accepted, sentences)
    drafts, found = counts_behind(rates, tau, accepted, drafted)
    counted = from_prefix_counts(found, drafts)
    made = from_positions(
        engine, kind, counted, drafts=drafts, drafted=drafted, min_trials=min_trials, assumed=[RECOVERED]
    )
    return Statistics(engine, kind, made.acceptance, tau, drafts, drafted, accepted, made.assumed)


def _check_percent(percent: float, rates: Sequence[float], accepted: int | None, drafted: int | None) -> None:
    """Check the percentage of drafted tokens that were accepted, by the counts where there are any.

    Without counts it is lowest where every draft has full length, and highest where no draft is longer than what was
    accepted of it, one token at least.
    """
    name = "Avg Draft acceptance rate in %"
    if accepted is not None and drafted:
        agree(name, percent, 100 * accepted / drafted, f"Accepted={accepted} / Drafted={drafted}", ROUNDED_PERCENT)
        return
    low, high = (max(0.0, sum(rates) + sign * ROUNDED_RATE * len(rates)) for sign in (-1, 1))
    most = min(1.0, high / max(1.0, 1 + sum(rates[1:]) - ROUNDED_RATE * len(rates)))
    shown = ", ".join(f"{rate:g}" for rate in rates)
    within(name, percent, 100 * low / len(rates), 100 * most, f"the rates {shown}", ROUNDED_PERCENT)


def counts_behind(rates: Sequence[float], tau: float, accepted: int, drafted: int) -> tuple[int, list[int]]:
    """Cycles, and accepted tokens by position, that round to every figure of a log line.

    It first tries the number of cycles that holds if every draft had full length.
    """
    total, slack = sum(rates), 0.0005 * len(rates)
    guess = accepted / total if total else drafted / len(rates)
    low, high = guess * total / (total + slack), guess * total / (total - slack) if total > slack else drafted
    near = range(max(1, int(low)), min(drafted, int(high) + 1) + 1)
    for n in [drafted // len(rates), *sorted(near, key=lambda n: abs(n - guess))[:20_000]]:
        found = _fitting(rates, n, accepted) if n and abs(1 + accepted / n - tau) <= ROUNDED_TAU else None
        if found is not None:
            return n, found
    raise InputError(
        f"accepted={accepted} of drafted={drafted}, tau={tau:g} and the rates {', '.join(f'{r:g}' for r in rates)} fit "
        "no number of cycles: these contradict each other"
    )


def _fitting(rates: Sequence[float], n: int, accepted: int) -> list[int] | None:
    """Counts of n cycles that round to `rates` with three digits and sum to `accepted`; None where there are none."""
    low = [max(0, math.ceil((rate - 0.0005) * n - 1e-6)) for rate in rates]
    high = [min(n, math.floor((rate + 0.0005) * n + 1e-6)) for rate in rates]
    if any(a > b for a, b in zip(low, high, strict=True)) or not sum(low) <= accepted <= sum(high):
        return None
    found = [min(max(round(rate * n), a), b) for rate, a, b in zip(rates, low, high, strict=True)]
    for d in range(len(rates)):  # raised from the front and lowered from the back, so that they never rise
        found[d] += min(max(accepted - sum(found), 0), high[d] - found[d])
    for d in reversed(range(len(rates))):
        found[d] -= min(max(sum(found) - accepted, 0), found[d] - low[d])
    return found
