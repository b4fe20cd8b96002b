"""A certificate as one self-contained HTML page, and the figure of the wealth of a betting test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from textwrap import dedent
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from spectheory.core.provenance import Provenance
from spectheory.report.page import figure_html, shell, sources_html
from spectheory.report.svg import BLUE, INK, RED, panels, styled, to_svg


@styled
def wealth_figure(path: Sequence[tuple[int, float]], alpha: float, verdict: str) -> str:
    """The wealth of the bet that the step is lossy, against the runs of the step, with the line 1 / alpha.

    The axis is log10 of the wealth. The wealth is infinite after a token that the target never emits; an arrow at the
    top shows this.
    """
    figure, (axes,) = panels(height_inches=2.7)
    samples, logs = np.array(path, float).T / [[1], [math.log(10)]]
    line, finite = -math.log10(alpha), np.isfinite(logs)
    top, bottom = (extreme(line, *logs[finite]) for extreme in (max, min))
    margin = 0.12 * (top - bottom)
    axes.plot(samples[finite], logs[finite], color=BLUE)
    axes.axhline(line, color=RED, linewidth=1, linestyle=":")
    axes.set(xlim=(0, 1.02 * max(samples[-1], 1)), ylim=(bottom - margin, top + 2 * margin))
    beside = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "fontsize": 8.5, "color": RED}
    axes.annotate("1 / alpha: LOSSY above", (0, line), (4, 3), **beside, ha="left", va="bottom")
    if finite[-1]:
        axes.plot(samples[-1], logs[-1], "o", color=INK, markersize=6, clip_on=False)
    else:
        axes.plot(samples[-1], top + margin, "^", color=INK, markersize=7, clip_on=False)
        left = {"xytext": (-7, 0), "textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 8.5}
        axes.annotate("without limit", (samples[-1], top + margin), **left)
    note = f"{verdict} after {int(samples[-1]):,} run{'' if samples[-1] == 1 else 's'}"
    axes.set_title(f"Evidence against the step: {note}")
    axes.set(xlabel="runs of the step", ylabel="log10 of the wealth")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    return to_svg(figure, f"Wealth won by betting against the step, by runs; {note}")


def certificate_page(name: str, lines: Sequence[str], values: dict[str, Any]) -> str:
    """One page with the lines of a certificate, and for a black-box test the figure of its wealth.

    `values` is the certificate's `to_json()`.
    """
    path = [(samples, math.inf if log is None else log) for samples, log in values.get("path", ())]
    figure = [figure_html(wealth_figure(path, values["alpha"], values["verdict"]))] if path else []
    return shell(
        f"Certificate of {name}",
        f'<p class="lead"><b>{values["verdict"]}.</b> {escape(lines[0])}.</p>',
        *figure,
        f"<pre>{escape(dedent(chr(10).join(lines[1:])))}</pre>",
        sources_html({"certificate": Provenance.now("spectheory certify")}),
    )
