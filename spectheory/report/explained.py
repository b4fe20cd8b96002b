"""The report of `explain`: where tau is lost and what other choices give, as tables, words, figures and a page."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator, PercentFormatter

from spectheory.replay.contexts import RECENT
from spectheory.replay.explained_record import Explained, drafted
from spectheory.replay.misses import MOST_RANKS
from spectheory.replay.other_choices import WhatIf
from spectheory.report.page import words_page
from spectheory.report.svg import BLUE, GREY, INK, ORANGE, PAPER, RED, panels, styled, to_svg
from spectheory.report.tables import MISSING, TextTable

RANKS = (0, 1, 2, 3, 4, 8, MOST_RANKS)
"""The first rank of each row of the table of ranks."""
QUANTILES = {"lowest tau": 0.0, "lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75, "highest tau": 1.0}
"""Requests that are shown, by their replayed tau."""


def explained_rows(explained: Explained) -> list[TextTable]:
    """Tables by depth, by rank, by context, of the other choices, and of the requests."""
    tables = [_depths(explained), _contexts(explained), _what_if(explained), _requests(explained)]
    if explained.missed.size:
        tables.insert(1, _ranks(explained))
    return tables


def explained_words(explained: Explained) -> list[str]:
    """The findings in words: tau, the depth that costs most, the best other choice, and the spread of the requests."""
    by = f", verified by {explained.verifier}" if explained.verifier else ""
    texts = f"{len(explained.replayed.cycles):,} texts"
    words = [
        f"tau {explained.replayed.tau:.3f}{_between(explained.tau_interval)} on {texts}: {drafted(explained.tree)}{by}."
    ]
    words += [*_worst_depth(explained), *_best_choice(explained), *_spread(explained)]
    return words


def _worst_depth(explained: Explained) -> list[str]:
    missed, leaf = explained.ended_by_miss, explained.ended_at_leaf.sum()
    ends = f"{missed.sum():.0%} of the cycles end because the draft misses, {leaf:.0%} because nothing more is drafted."
    if not explained.perfect.size:
        kept = int(missed.argmax())
        return [f"{ends} Most misses are after {kept} kept tokens: they end {missed[kept]:.0%} of the cycles."]
    kept = int(explained.perfect.argmax())
    tau = explained.perfect[kept]
    return [
        f"{ends} Misses after {kept} kept tokens cost most: without them tau would be {tau:.3f}, "
        f"{tau - explained.replayed.tau:+.3f}."
    ]


def _best_choice(explained: Explained) -> list[str]:
    choices = [choice for choice in explained.what_if if not _is_draft(choice)]
    if not choices:
        return []
    best = max(choices, key=lambda choice: choice.difference)
    if best.difference <= 0 or (best.difference_low is not None and best.difference_low <= 0):
        return ["No other choice of tree or verifier below has a higher tau for certain."]
    ends = None if best.difference_low is None else (best.difference_low, best.difference_high or 0.0)
    named = name_of_choice(best, explained)
    return [
        f"Of the other choices of tree or verifier below, this one adds most: {named}, {best.difference:+.3f}"
        f"{_between(ends)}. Tau is not speed: `spectheory plan --trace` weighs it against time."
    ]


def _spread(explained: Explained) -> list[str]:
    tau, deviation = explained.request_tau, explained.request_deviation
    known = np.isfinite(tau)
    if known.sum() < 2:
        return []
    said = f"Tau of the requests is between {tau[known].min():.2f} and {tau[known].max():.2f}"
    if (typical := float(np.median(deviation[known]))) > 0:
        said += (
            "; the standard deviation of one request over drafts and acceptances, given its text, is typically "
            f"{typical:.2f}"
        )
    words = [said + "."]
    measured = explained.measured_tau
    if measured is not None and explained.measured is not None:
        both = known & np.isfinite(measured)
        together = np.corrcoef(tau[both], measured[both])[0, 1] if both.sum() > 2 else np.nan
        alike = "" if np.isnan(together) else f", with a correlation of {together:.2f} over the requests"
        words.append(f"Measured: tau {explained.measured.tau:.3f}, replayed {explained.replayed.tau:.3f}{alike}.")
    return words


def name_of_choice(choice: WhatIf, explained: Explained) -> str:
    """The change in words, with the verifier where it is another one."""
    if choice.verifier == explained.verifier:
        return choice.change
    by = f"by {choice.verifier}"
    return by if list(choice.parent) == explained.tree.parent.tolist() else f"{choice.change}, {by}"


def _is_draft(choice: WhatIf) -> bool:
    """Whether the choice is of a better draft, which cannot simply be chosen."""
    return choice.change.startswith("a draft")


def _depths(explained: Explained) -> TextTable:
    tau, last = explained.replayed.tau, explained.tree.max_depth
    has_next, has_perfect = bool(explained.next_child.size), bool(explained.perfect.size)
    rows = []
    for depth in range(last + 1):
        cells = [explained.reached[depth], explained.ended_at_leaf[depth], explained.ended_by_miss[depth]]
        row = [f"{depth}", *(f"{100 * share:.1f}%" for share in cells)]
        if has_next:
            row.append(f"{100 * explained.next_child[depth]:.1f}%" if depth < last else "")
        if has_perfect:
            row += [f"{(found := explained.perfect[depth]):.3f}", f"{found - tau:+.3f}"] if depth < last else ["", ""]
        rows.append(tuple(row))
    notes = ["% of all cycles. No child: nothing was drafted below. Missed: no child was the next token and was kept."]
    header = ["tokens kept", "reached", "no child", "missed"]
    if has_next:
        header.append("next rank")
        notes.append("Next rank: one more child of each of these nodes would have kept the token.")
    if has_perfect:
        header += ["no misses", "gain"]
        notes.append("No misses: tau if the first child there were always the next token, all else as recorded.")
    return TextTable("Where cycles end, by depth", tuple(header), tuple(rows), note=" ".join(notes))


def _ranks(explained: Explained) -> TextTable:
    ends = [*RANKS[1:], None]
    kept = np.zeros(max(MOST_RANKS + 1, len(explained.kept_by_rank)))
    kept[: len(explained.kept_by_rank)] = explained.kept_by_rank
    rows = []
    for first, end in zip(RANKS, ends, strict=True):
        span = slice(first, end)
        name = f"#{first}" if end == first + 1 else f"#{first} to #{end - 1}" if end else f"#{first} on, or none"
        missed, beyond = (row[span].sum() for row in explained.missed)
        rows.append((name, f"{kept[span].sum():.3f}", f"{100 * missed:.1f}%", f"{100 * beyond:.1f}%"))
    note = "Missed, no child: rank of the next token among the draft's candidates where cycles end, % of all cycles."
    if not explained.next_child.size:
        note += " Kept: place of the child in draw order; a candidate of low rank may be missed by chance."
    header = ("rank", "kept per cycle", "missed", "no child")
    return TextTable("Ranks through which tokens are kept, and at which cycles end", header, tuple(rows), note=note)


def _contexts(explained: Explained) -> TextTable:
    rows = [
        (
            f"{group.lowest:.0%} to {group.highest:.0%}",
            f"{group.positions:.0%}",
            f"{group.cycles:.0%}",
            f"{group.tau:.3f}",
            MISSING if group.low is None else f"{group.low:.3f} to {group.high:.3f}",
        )
        for group in explained.contexts
    ]
    return TextTable(
        f"Hard and easy contexts, by the {RECENT} tokens before the cycle",
        (f"of the {RECENT} kept", "positions", "cycles", "tau", "95% interval"),
        tuple(rows),
        note="Of the tokens before: the share that a draft of one token keeps. It is known before the cycle.",
    )


def _what_if(explained: Explained) -> TextTable:
    ends = explained.tau_interval
    rows = [
        (
            "as it is",
            f"{explained.tree.budget}",
            f"{explained.replayed.tau:.3f}",
            _half(*(ends or (None, None))),
            "",
            "",
        )
    ]
    for choice in explained.what_if:
        rows.append(
            (
                name_of_choice(choice, explained),
                f"{len(choice.parent) - 1}",
                f"{choice.tau:.3f}",
                _half(choice.low, choice.high),
                f"{round(choice.difference, 3) + 0:+.3f}",
                _half(choice.difference_low, choice.difference_high),
            )
        )
    kinds = [name.startswith("a draft") + 2 * name.startswith("one ") for name, *_ in rows]
    breaks = {row for row in range(1, len(rows)) if kinds[row] != kinds[row - 1]} | ({1} if len(rows) > 1 else set())
    closer = any(map(_is_draft, explained.what_if))
    note = "±: half a 95% interval over texts. Differences pair the texts, so that their intervals are narrower."
    if closer and explained.next_child.size:
        note += (
            " A closer draft ranks the next token first with this probability, independently at each position, and "
            "otherwise as recorded."
        )
    elif closer:
        note += " A closer draft is a mixture: with this weight it predicts what the target predicts."
    header = ("choice", "nodes", "tau", "±", "difference", "±")
    return TextTable("What other choices give on the same texts", header, tuple(rows), frozenset(breaks), note)


def _requests(explained: Explained) -> TextTable:
    tau, deviation, measured = explained.request_tau, explained.request_deviation, explained.measured_tau
    order = _in_order(tau)
    random = bool((deviation[order] > 0).any())
    header, rows = ["requests, counted from 0", "replayed tau"], []
    header += ["deviation"] * random + ["measured"] * (measured is not None)
    for name, share in QUANTILES.items():
        request = int(order[round(share * (len(order) - 1))])
        row = [f"{name}, request {request}", f"{tau[request]:.3f}"]
        row += [f"{deviation[request]:.3f}"] * random
        row += [] if measured is None else [f"{measured[request]:.3f}"]
        rows.append(tuple(row))
    note = (
        "Deviation: standard deviation over drafts and acceptances, to first order, given the text; others differ more."
    )
    return TextTable("Requests, by their replayed tau", tuple(header), tuple(rows), note=note if random else "")


def _in_order(tau: np.ndarray) -> np.ndarray:
    """The requests with cycles, in the order of their tau."""
    known = np.flatnonzero(np.isfinite(tau))
    return known[np.argsort(tau[known], kind="stable")]


@styled
def depth_figure(explained: Explained) -> str:
    """For each number of kept tokens, how many cycles go on, miss, or have no child."""
    figure, (axes,) = panels(height_inches=2.9)
    depths = np.arange(explained.tree.max_depth + 1)
    parts = (
        ("goes on", np.append(explained.reached[1:], 0), BLUE),
        ("ends: no child", explained.ended_at_leaf, GREY),
        ("ends: missed", explained.ended_by_miss, RED),
    )
    below = np.zeros(len(depths))
    for name, share, colour in parts:
        axes.bar(depths, share, 0.7, bottom=below, color=colour, edgecolor=PAPER, linewidth=0.5, label=name)
        below = below + share
    for depth, perfect in enumerate(explained.perfect):
        text = f"{perfect - explained.replayed.tau:+.2f}"
        place = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "va": "bottom"}
        axes.annotate(text, (depth, below[depth]), **place, fontsize=8.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="drafted tokens kept so far", ylabel="cycles", ylim=(0, 1.1))
    axes.set_title("Where cycles end" + (", and what tau gains without misses there" if explained.perfect.size else ""))
    figure.legend(loc="outside lower center", ncols=3)
    return to_svg(figure, "Share of cycles that go on and that end, by number of tokens kept")


@styled
def what_if_figure(explained: Explained) -> str:
    """The difference in tau of each other choice, with its 95% interval."""
    choices = explained.what_if
    figure, (axes,) = panels(height_inches=0.9 + 0.27 * len(choices))
    axes.axvline(0, color=INK, linewidth=0.8)
    for row, choice in enumerate(choices):
        colour = GREY if _is_draft(choice) else BLUE
        if choice.difference_low is not None and choice.difference_high is not None:
            axes.hlines(row, choice.difference_low, choice.difference_high, color=colour, linewidth=2.4, alpha=0.6)
        axes.plot(choice.difference, row, "o", color=colour, markersize=5)
    axes.set_yticks(range(len(choices)), [name_of_choice(choice, explained) for choice in choices])
    axes.set(ylim=(len(choices) - 0.4, -0.6), xlabel="difference in tau, 95% interval")
    axes.grid(visible=False, axis="y")
    axes.set_title("Other choices on the same texts")
    return to_svg(figure, "Difference in tau of other verifiers, trees and drafts")


@styled
def request_figure(explained: Explained) -> str:
    """Replayed tau of each request in order, plus and minus its deviation, with the measured one beside it."""
    tau, deviation, measured = explained.request_tau, explained.request_deviation, explained.measured_tau
    order = _in_order(tau)
    figure, (axes,) = panels(height_inches=3.0)
    x = np.arange(len(order))
    size = float(np.clip(120 / max(len(order), 1), 1.2, 4))
    spread, label = deviation[order], "replayed"
    if spread.max(initial=0) > 0:
        axes.vlines(x, tau[order] - spread, tau[order] + spread, color=BLUE, linewidth=1, alpha=0.5)
        label += ", ± deviation given the text"
    axes.plot(x, tau[order], "o", color=BLUE, markersize=size, label=label)
    if measured is not None:
        axes.plot(x, measured[order], "s", color=ORANGE, markersize=size, fillstyle="none", label="measured")
    axes.axhline(explained.replayed.tau, color=INK, linewidth=0.8, linestyle=":", label="replayed, all requests")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="requests, by their replayed tau", ylabel="tokens per target call")
    axes.set_title("Tau of each request")
    figure.legend(loc="outside lower center", ncols=3)
    return to_svg(figure, "Replayed tau of each request, in order, with the measured one where there is one")


def explained_page(title: str, explained: Explained) -> str:
    """The explanation as one HTML page."""
    drawings = [depth_figure(explained), *([what_if_figure(explained)] if explained.what_if else [])]
    figures = [*drawings, request_figure(explained)]
    return words_page(title, explained_words(explained), figures, explained_rows(explained), {})


def _between(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" (95% interval {ends[0]:.3f} to {ends[1]:.3f})"


def _half(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{(high - low) / 2:.3f}"
