"""Tau predicted from other prompts, beside tau measured: the records of a real pair in benchmarks/real_pair."""

from pathlib import Path

import numpy as np

from spectheory.report.svg import BLUE, GREEN, MUTED, ORANGE, panels, styled, to_svg
from spectheory.results.comparison import Comparison

RECORDS = Path(__file__).parents[2] / "benchmarks" / "real_pair"
COLOURS, MARKERS = {0.0: BLUE, 0.6: ORANGE, 1.0: GREEN}, {"humaneval": "o", "chat": "s"}


def rows() -> dict[tuple[str, float], np.ndarray]:
    """By texts and temperature: measured tau, half its interval, predicted tau, half its interval."""
    found = {}
    for file in sorted(RECORDS.glob("*.json")):
        record, texts = Comparison.load(file), file.stem.split("_")[-1]
        judged = [(i, one) for i, one in enumerate(record.decoders) if one.tau_high is not None and one.tau_high > 1]
        found[texts, judged[0][1].temperature] = np.array(
            [(record.tau[i], record.tau_half_width(i), one.tau, (one.tau_high - one.tau_low) / 2) for i, one in judged]
        )
    return dict(sorted(found.items(), key=lambda one: one[0][::-1]))


@styled
def draw() -> str:
    figure, (axes,) = panels(height_inches=4.2)
    for (texts, temperature), numbers in rows().items():
        measured, half, predicted, half_predicted = numbers.T
        style = {"linestyle": "none", "marker": MARKERS[texts], "markersize": 3, "elinewidth": 0.7, "alpha": 0.75}
        style |= {"color": COLOURS[temperature], "label": f"{texts}, temperature {temperature:g}"}
        axes.errorbar(predicted, measured, half, half_predicted, **style)
    ends = [1, 16]
    axes.plot(ends, ends, color=MUTED, linestyle=":", linewidth=1)
    axes.set(xlabel="tau predicted from other prompts", ylabel="tau measured", xscale="log", yscale="log", xlim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([1, 2, 3, 4, 6, 8, 12, 16], labels=[1, 2, 3, 4, 6, 8, 12, 16])
        axis.set_ticks([], minor=True)
    axes.set_title("Predicted beside measured, 95% intervals")
    axes.legend()
    return to_svg(figure, "Measured tau against tau predicted from other prompts, with 95% intervals")
