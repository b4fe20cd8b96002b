"""A comparison of many decoders as one table and in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spectheory.core.provenance import model_name
from spectheory.report.page import folded, prose_html, shell, sources_html, table_html
from spectheory.report.tables import MISSING, TextTable
from spectheory.results.comparison import Comparison


def decoder_rows(record: Comparison) -> TextTable:
    """One row for each decoder, one section for each temperature."""
    rows, tau, speed, prompts = [], record.tau, record.speed, len(record.cycles)
    degrees = [one.temperature for one in record.decoders]
    for i, one in enumerate(record.decoders):
        half = None if one.tau_low is None or one.tau_high is None else (one.tau_high - one.tau_low) / 2
        rows.append(
            (
                f"{one.name}\n{one.verifier or ''}".strip() if one.temperature else one.name,
                f"{one.temperature:g}",
                _number(one.tau, "{:.2f}") + _number(half, " ±{:.2g}", ""),
                f"{tau[i]:.2f}" + _number(record.tau_half_width(i), " ±{:.2g}", ""),
                _number(_error(record, i), "{:+.1f}%"),
                _number(one.speed, "{:.1f}"),
                f"{speed[i]:.1f}",
                MISSING if one.temperature else f"{record.equal[:, i].sum():,}/{prompts:,}",
            )
        )
    stamp, settings = record.provenance, record.provenance.settings
    return TextTable(
        title=f"Decoders on {prompts:,} prompt{'s' * (prompts > 1)} x {settings.get('new_tokens', '?')} tokens, "
        f"threads: {settings.get('threads', '?')}, {settings.get('cpu', '?')}, " + ", ".join(stamp.placement.values()),
        header=("decoder", "T", "tau\npredicted", "tau\nmeasured", "error", "tok/s\npred.", "tok/s\nmeas.", "equal"),
        rows=tuple(rows),
        sections=frozenset(i for i in range(1, len(rows)) if degrees[i] != degrees[i - 1]),
        note="T: temperature; at 0 the verifier is Greedy. ±: half a 95% interval, with "
        f"{'given' if record.sources else 'prompts as'} clusters. tok/s: "
        "tokens per second after the first token, median over prompts. Equal: greedy texts that equal plain decoding.",
    )


def decoder_words(record: Comparison) -> Iterator[str]:
    """Whether speculation pays, by which decoder; whether the predictions were right and greedy texts are equal."""
    for temperature in dict.fromkeys(one.temperature for one in record.decoders):
        yield _fastest(record, temperature)
    errors = {i: error for i in range(len(record.decoders)) if (error := _error(record, i)) is not None}
    if errors:
        judged = [agrees for i in errors if (agrees := record.agrees(i)) is not None]
        inside = f", within the joint 95% interval for {sum(judged)} of {len(judged)}" if judged else ""
        middle = np.median(np.abs([*errors.values()]))
        yield f"Predicted tau: median error {middle:.1f}% of {len(errors)} decoders{inside}."
    greedy = [i for i, one in enumerate(record.decoders) if one.temperature == 0]
    if greedy:
        equal = record.equal[:, greedy]
        yield f"Greedy text equals that of plain decoding for {equal.sum():,} of {equal.size:,} texts."


def comparison_page(record: Comparison) -> str:
    """A page that says in words what to run, then lists all decoders."""
    title = f"Is speculation worth it for {model_name(record.provenance.target or 'this model')}?"
    words = (f"<p>{prose_html(sentence)}</p>" for sentence in decoder_words(record))
    table = folded("The numbers", table_html(decoder_rows(record)), is_open=True)
    return shell(title, *words, table, sources_html({"comparison": record.provenance}))


def _fastest(record: Comparison, temperature: float) -> str:
    own = [i for i, one in enumerate(record.decoders) if one.temperature == temperature]
    theirs = [i for i in own if record.decoders[i].verifier is None]
    plain = next(i for i in own if record.decoders[i].name == "plain")
    drafting = [i for i in own if i not in theirs and i != plain]
    begin = f"At temperature {temperature:g} "
    if not drafting:
        return f"{begin}only plain decoding ran."
    best = max(drafting, key=lambda i: record.speed[i])
    _, low, high = record.ratio(best, plain)
    pays = "pays" if low > 1 else "does not pay" if high < 1 else "may pay or not"
    beside = [(plain, "plain decoding in the same loop")]
    if theirs:
        other = max(theirs, key=lambda i: record.speed[i])
        beside.append((other, f"{record.decoders[other]}, transformers' fastest"))
    times = " and ".join(f"{_times(record, best, other)} {what}" for other, what in beside)
    name = str(record.decoders[best]) if temperature else record.decoders[best].name
    return f"{begin}speculation {pays}. The fastest on these prompts ({name}) has {times}."


def _times(record: Comparison, decoder: int, other: int) -> str:
    median, low, high = record.ratio(decoder, other)
    return f"{median:.2f} (95% {low:.2f} to {high:.2f}) times the speed of"


def _error(record: Comparison, decoder: int) -> float | None:
    return None if record.decoders[decoder].name == "plain" else record.error_percent(decoder)


def _number(value: float | None, pattern: str, missing: str = MISSING) -> str:
    return missing if value is None else pattern.format(value)
