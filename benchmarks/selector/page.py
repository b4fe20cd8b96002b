"""The measured section of docs/selector.md, from records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reference.selector import PolicyRow, SelectorComparison
from reference.selector.comparison import LEVEL
from reference.selector.evaluation import CROSS, NAIVE, OTHER, ROOTED, SAME, SELECTOR
from spectheory.report.markdown import markdown_table
from spectheory.report.tables import TextTable

HEADER = ("choice of the tree", "E[tau]", "tokens per second", "against the static tree of other text")
MOST = 5
"""Number of trees that are listed as the most frequent choices."""


def section(records: Sequence[SelectorComparison]) -> str:
    """One table for each record, with the differences in words."""
    return "\n\n".join(part for record in records for part in _parts(record)) + "\n"


def _parts(record: SelectorComparison) -> Iterator[str]:
    held, stamp = record.provenance.settings, record.provenance
    rooted, same, other = record.static
    yield f"### {record.verifier}, {held['pair_of_times']}"
    yield (
        f"{record.roots.sum():,} roots in texts of {len(record.prompts)} files, {held['draws']} draws at each, "
        f"temperature {stamp.temperature:g}. Trained and chosen on {held['other_roots']:,} roots in texts of "
        f"{held['other_clusters']} other files, {held['other_draws']} draws at each. "
        f"Latency: {held['latency']}. A choice of the selector takes "
        f"{1e3 * float(str(held['choice_seconds'])):.2f} ms on a core of a CPU, which is not in these seconds."
    )
    yield markdown_table(TextTable("", HEADER, tuple(map(_row, record.rows)))).strip()
    yield (
        f"Best static tree (K, L1, L2): {rooted} without a trunk and {same} with any on the text that is judged, "
        f"{other} on other text. The selector takes {_most(record)}."
    )
    yield "\n".join(
        f"- {words}: {_difference(record, one, two)}"
        for words, one, two in (
            ("Selector against the static tree without a trunk (the baseline of the paper)", SELECTOR, ROOTED),
            ("Selector against the static tree chosen on the same text", SELECTOR, SAME),
            ("Selector against the static tree chosen on other text", SELECTOR, OTHER),
            ("Selector against the oracle on other draws", SELECTOR, CROSS),
            (f"Selection bias of an oracle over {len(record.trees)} trees ({record.actions} actions)", NAIVE, CROSS),
        )
    )


def _row(row: PolicyRow) -> tuple[str, ...]:
    name = row.name if row.runs == 1 else f"{row.name}, {row.runs} seeds"
    against = "" if row.difference is None else f"{row.difference:+.2f} ± {row.difference_half:.2f}%"
    return name, f"{row.tau:.3f}", f"{row.throughput:.2f} ± {row.half:.2f}", against


def _difference(record: SelectorComparison, one: str, other: str) -> str:
    found = record.difference(one, other)
    return f"{found.percent:+.2f} ± {found.half_width(LEVEL):.2f}%"


def _most(record: SelectorComparison) -> str:
    order = (-record.shares).argsort(kind="stable")[:MOST]
    return ", ".join(f"{record.trees[i]} at {record.shares[i]:.0%}" for i in order if record.shares[i] > 0) + (
        " of the roots"
    )
