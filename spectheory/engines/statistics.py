"""Statistics: how often an engine accepted its drafted tokens, and what had to be assumed to compute this."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import final

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.engines.report_values import FLOAT, agree

RECOVERED = "the line has only rounded rates: cycles and counts by position are recovered from them"
RANK_0_ONLY = "chain statistics give rank 0 only: rates of other ranks are unknown and taken as 0"
ROUNDED_TAU, ROUNDED_RATE = 0.005 + FLOAT, 0.0005 + FLOAT
"""Half a unit of the last digit in log lines, in which tau has two decimals and rates have three."""
FEW = 0.05
"""The largest share of steps without a draft that is not counted."""
TOTALS_ONLY = "only totals are reported: rates by position are unknown"
Counted = tuple[Sequence[int], Sequence[int]]
"""(hits, trials) of a chain: the token at position d was verified `trials[d]` times and accepted `hits[d]` times."""


class NothingDraftedError(InputError):
    """A report in which nothing was drafted."""


@final
@dataclass(frozen=True, eq=False)
class Statistics:
    """What an engine reports about its speculation, counted as in spectheory. A figure that is unknown is None.

    Attributes:
        acceptance: rates at which a child is accepted if its parent is, with counts if the report has them; None if
            only totals are reported.
        tau: tokens per target call: accepted tokens plus one.
        drafts: number of cycles, which are target calls that verified a draft.
        drafted, accepted: number of drafted tokens, and number of accepted tokens among them.
        drafted_share: share of all target calls that are cycles; None: all, or unknown.
        assumed: sentences on what was assumed because the report does not say it.

    Raises:
        InputError: nothing was drafted, or the totals contradict each other.
    """

    acceptance: Acceptance | None
    tau: float | None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    assumed: tuple[str, ...] = ()
    drafted_share: float | None = None

    def __post_init__(self) -> None:
        if self.drafts == 0 or self.drafted == 0:
            raise _nothing_drafted(self.drafts, self.drafted)
        if self.accepted is not None and self.drafted is not None and self.accepted > self.drafted:
            most = f"at most drafted={self.drafted}"
            raise InputError(f"accepted={self.accepted} must be {most}: pass the figures of one report")
        if self.tau is not None and self.tau < 1:
            raise InputError(f"tau must be at least 1, as each target call emits a token, got {self.tau:g}")
        if self.tau is not None and self.drafts and self.accepted is not None:
            agree("tau", self.tau, 1 + self.accepted / self.drafts, "1 + accepted / drafts", ROUNDED_TAU)

    @property
    def nodes(self) -> float | None:
        """Mean number of drafted tokens per cycle."""
        return self.drafted / self.drafts if self.drafted and self.drafts else None

    @property
    def positions(self) -> int | None:
        """Number of positions of a draft that are counted."""
        chain = self.acceptance and self.acceptance.cycles_of
        return chain.budget if chain else None


@dataclass(frozen=True)
class Counts:
    """Counts of a report, or of a part of it such as a response, as in `Statistics`; and by position if it has them."""

    drafts: int | None
    drafted: int | None
    accepted: int
    by_position: Counted | None = None


def added(parts: Sequence[Counts], what: str, min_trials: int, assumed: Sequence[str] = ()) -> Statistics:
    """Statistics of the sum of several parts, such as responses. Each adds only to the positions that it has.

    They have rates if every part has counts by position, or if every draft has one token.
    """
    if not parts:
        raise _nothing_drafted(0, None)
    each = zip(*((part.drafts, part.drafted) for part in parts), strict=True)
    drafts, drafted = (None if None in column else sum(map(int, column)) for column in each)
    accepted = sum(part.accepted for part in parts)
    said = [*[f"{len(parts)} {what} are added"] * (len(parts) > 1), *assumed]
    if drafts is None:
        said.append("the report does not say how many cycles there were: tau is unknown")
        return Statistics(None, None, None, drafted, accepted, (TOTALS_ONLY, *said))
    rows = [part.by_position for part in parts if part.by_position is not None]
    if len(rows) == len(parts):
        hits, trials = ([sum(column) for column in zip_longest(*part, fillvalue=0)] for part in zip(*rows, strict=True))
        return from_positions((hits, trials), drafts, drafted, min_trials, said)
    if drafted == drafts:
        return from_positions(([accepted], [drafts]), drafts, drafted, min_trials, said)
    tau = 1 + accepted / drafts if drafts else None
    return Statistics(None, tau, drafts, drafted, accepted, (TOTALS_ONLY, *said))


def from_positions(
    counted: Counted, drafts: int, drafted: int | None, min_trials: int, assumed: Sequence[str] = ()
) -> Statistics:
    """Statistics of chains from their counts by position."""
    hits, trials = counted
    if drafts == 0 or drafted == 0 or not hits:
        raise _nothing_drafted(drafts, drafted)
    for d, (hit, trial) in enumerate(zip(hits, trials, strict=True)):
        if hit > trial:
            before = f"position {d - 1} has {trial}" if d else f"there are {trial} drafts"
            raise InputError(f"position {d} has {hit} accepted, but {before}: counts by position must not increase")
    chain, counts = Tree.chain(len(hits)), (np.array(hits)[:, None], np.array(trials))
    stamp = Provenance.now("spectheory.engines")
    acceptance = Acceptance.from_counts(*counts, stamp, min_trials=min_trials, cycles_of=chain)
    sentences = [RANK_0_ONLY, *assumed, f"the rate at depth {acceptance.depths} is used for all deeper depths"]
    mean = drafted / drafts if drafted is not None and drafts else len(hits)
    if mean > len(hits) + 1e-9:
        sentences.append(
            f"{mean:.4g} tokens were drafted per cycle, but only {len(hits)} positions are counted: if drafts were "
            "trees, the rates of rank 0 here are the rates of all ranks together"
        )
    elif mean < len(hits) - 1e-9 and list(trials[1:]) == list(hits[:-1]):
        sentences.append(
            f"{mean:.4g} tokens were drafted per cycle for {len(hits)} positions: a position that was not drafted "
            "counts as rejected, so that deeper rates are too low"
        )
    accepted = sum(hits)
    return Statistics(acceptance, 1 + accepted / drafts, drafts, drafted, accepted, tuple(sentences))


def of_steps(found: Statistics, steps: int) -> Statistics:
    """`found`, if its drafts are those of `steps` steps. Up to `FEW` steps without a draft are the ends of answers."""
    idle = steps - (found.drafts or steps)
    if idle <= FEW * steps:
        return found
    share, said = 1 - idle / steps, f"{idle} of {steps} cycles drafted nothing and are not counted"
    rates = found.acceptance and replace(found.acceptance, drafted_share=share)
    return replace(found, acceptance=rates, drafted_share=share, assumed=(*found.assumed, said))


def _nothing_drafted(drafts: int | None, drafted: int | None) -> NothingDraftedError:
    known = {"drafts": drafts, "drafted": drafted}
    figures = ", ".join(f"{name}={value}" for name, value in known.items() if value is not None)
    return NothingDraftedError(f"nothing was drafted yet: {figures}")


def assume_constant(found: Statistics, length: int) -> Statistics:
    """`found` with one acceptance rate for all positions: the rate at which chains of `length` tokens give its tau.

    The rate a solves tau = 1 + a + a^2 + ... + a^length. If the number of cycles is not reported, `length` tokens are
    assumed to be drafted in each cycle.
    """
    if found.acceptance is not None and found.acceptance.trials is not None:
        raise InputError("assume_constant must be left out: the report has rates by position")
    before = found.assumed if found.acceptance is None else found.assumed[:-2]
    tau, why = found.tau, ""
    if tau is None:
        if not found.drafted or found.accepted is None:
            raise InputError("assume_constant needs tau, which is not reported here: leave it out")
        tau, why = 1 + length * found.accepted / found.drafted, " in every cycle"
    least = max(found.nodes or 1, tau - 1)
    if length < least:
        raise InputError(f"assume_constant must be at least {least:.4g} by the report, got {length}")
    rates, gives = constant(tau, length), f"which gives tau {tau:.4g} with {length} drafted tokens{why}"
    said = f"the rate is {rates.table[0, 0]:.4f} at every position, {gives}"
    return replace(found, acceptance=rates, tau=tau, assumed=(*before, RANK_0_ONLY, said))


def constant(tau: float, length: int) -> Acceptance:
    """The rate a at `length` positions with which chains of `length` tokens give tau = 1 + a + a^2 + ... + a^length."""
    low, high = 0.0, 1.0
    while (rate := (low + high) / 2) not in (low, high):
        low, high = (rate, high) if sum(rate**i for i in range(length + 1)) < tau else (low, rate)
    return Acceptance.by_depth_and_rank([[high]] * length)


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


@dataclass(frozen=True)
class Line:
    """The rounded figures of a log line. `rates[d]` is the share of drafts whose first d + 1 tokens were accepted."""

    tau: float
    rates: Sequence[float]
    accepted: int | None
    drafted: int | None

    def __post_init__(self) -> None:
        for d, (before, rate) in enumerate(pairwise([1, *self.rates])):
            if not 0 <= rate <= before:
                most = f"{before:g}, because rates never increase"
                raise InputError(f"the rate of position {d} must be between 0 and {most}, got {rate:g}")
        slack = ROUNDED_TAU + ROUNDED_RATE * len(self.rates)
        agree("mean acceptance length", self.tau, 1 + sum(self.rates), "1 + the sum of the rates", slack)


def from_lines(lines: Sequence[Line], min_trials: int) -> Statistics:
    """Statistics of log lines, which are added."""
    if len(lines) == 1 and None in (lines[0].accepted, lines[0].drafted):
        (line,) = lines
        table = [[rate / before if before else 0.0] for before, rate in pairwise([1, *line.rates])]
        sentences = (RANK_0_ONLY, "the line has no counts, so the rates have no intervals")
        return Statistics(Acceptance.by_depth_and_rank(table), line.tau, None, line.drafted, line.accepted, sentences)
    parts = []
    for i, line in enumerate(lines, 1):
        if line.accepted is None or line.drafted is None:
            raise InputError(f"line {i} of {len(lines)} must have Accepted and Drafted to be added: pass it alone")
        parts.append(_counts_behind(line.rates, line.tau, line.accepted, line.drafted))
    found = added(parts, "lines of the log", min_trials, [RECOVERED])
    return replace(found, tau=lines[0].tau) if len(lines) == 1 else found


def _counts_behind(rates: Sequence[float], tau: float, accepted: int, drafted: int) -> Counts:
    """Counts that agree with every rounded figure of a log line, if possible with drafts of full length."""
    total, slack = sum(rates), 0.0005 * len(rates)
    guess = accepted / total if total else drafted / len(rates)
    low, high = guess * total / (total + slack), guess * total / (total - slack) if total > slack else drafted
    near = range(max(1, int(low)), min(drafted, int(high) + 1) + 1)
    for n in [drafted // len(rates), *sorted(near, key=lambda n: abs(n - guess))[:20_000]]:
        found = _fitting(rates, n, accepted) if n and abs(1 + accepted / n - tau) <= ROUNDED_TAU else None
        if found is not None:
            return Counts(n, drafted, accepted, (found, [n, *found[:-1]]))
    raise InputError(
        f"accepted={accepted} of drafted={drafted}, tau={tau:g} and the rates {', '.join(f'{r:g}' for r in rates)} fit "
        "no number of cycles: pass the line as the engine wrote it"
    )


def _fitting(rates: Sequence[float], n: int, accepted: int) -> list[int] | None:
    """Counts of n cycles that round to `rates` with three digits and sum to `accepted`; None if that is impossible."""
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
