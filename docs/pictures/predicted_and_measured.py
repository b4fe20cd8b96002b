"""Tau that replay predicted from other prompts, beside tau measured; every row of docs/results.md that has both."""

import re
from pathlib import Path

import numpy as np

from spectheory.report.svg import BLUE, GREEN, MUTED, ORANGE, panels, styled, to_svg

PAGE = Path(__file__).parent.parent / "results.md"
TABLE = re.compile(r"^Temperature ([\d.]+): .*\n\n((?:\|.*\n)+)", re.MULTILINE)
COLOURS = {"0": BLUE, "0.6": ORANGE, "1": GREEN}


def rows(page: str) -> dict[str, np.ndarray]:
    """By temperature: measured tau, half its interval, replayed tau, half its interval."""
    found = {}
    for temperature, table in TABLE.findall(page):
        names, _, *lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        columns = [names.index(name) + more for name in ("tau", "replay") for more in (0, 1)]
        cells = [[line[column] for column in columns] for line in lines]
        found[temperature] = np.array([row for row in cells if not {"", "-"} & set(row)], float)
    return found


@styled
def draw() -> str:
    figure, (axes,) = panels(height_inches=4.2)
    for temperature, numbers in rows(PAGE.read_text(encoding="utf-8")).items():
        measured, half, replayed, half_replayed = numbers.T
        style = {"color": COLOURS[temperature], "linestyle": "none", "marker": "o", "markersize": 3, "elinewidth": 0.7}
        axes.errorbar(replayed, measured, half, half_replayed, alpha=0.75, label=f"temperature {temperature}", **style)
    ends = [1.5, 4.1]
    axes.plot(ends, ends, color=MUTED, linestyle=":", linewidth=1)
    axes.set(xlabel="tau that replay predicted from other prompts", ylabel="tau measured", xlim=ends, ylim=ends)
    axes.set_title("Predicted beside measured, 95% intervals")
    axes.legend()
    return to_svg(figure, "Measured tau against tau predicted by replay, with 95% intervals, by temperature")
