"""Tokens per target call by budget, for example rates: the best tree and the chain."""

import spectheory as st
from spectheory.report.svg import BLUE, ORANGE, panels, styled, to_svg

MOST = 32
"""The largest budget."""


@styled
def draw() -> str:
    rates = st.Acceptance.by_rank([0.65, 0.12, 0.06, 0.03])
    figure, (axes,) = panels(height_inches=2.9)
    for name, fanout, colour, dash in (("best tree", None, BLUE, "-"), ("chain", 1, ORANGE, "--")):
        table = st.yield_table(rates, MOST, max_depth=MOST, max_fanout=fanout)
        axes.plot(table[-1], color=colour, linestyle=dash, label=name)
    axes.set(xlabel="budget, drafted tokens per cycle", ylabel="tokens per target call")
    axes.set_title("What more budget buys, predicted")
    axes.legend()
    return to_svg(figure, "Predicted tokens per target call against the budget")
