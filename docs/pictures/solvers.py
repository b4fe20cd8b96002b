"""The acceptance of node solvers at one node, by the number of independent drafts, with the optimum of any solver."""

import numpy as np
from matplotlib.ticker import MaxNLocator

import spectheory as st
from spectheory.report.svg import BLUE, GREEN, INK, MARKERS, ORANGE, PURPLE, panels, styled, to_svg

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
SOLVERS = {st.otlp.NSS(): BLUE, st.otlp.Naive(): ORANGE, st.otlp.SpecInfer(): GREEN, st.otlp.SpecTr(): PURPLE}


@styled
def draw() -> str:
    figure, (axes,) = panels(height_inches=3.1)
    drafts = range(1, 7)
    for mark, (solver, colour) in zip(MARKERS, SOLVERS.items(), strict=False):
        alpha = [solver.acceptance(P, Q, k) for k in drafts]
        axes.plot(drafts, alpha, color=colour, marker=mark, markersize=4, label=type(solver).__name__)
    best = [st.optimal_acceptance(P, Q, k) for k in drafts]
    axes.plot(drafts, best, color=INK, linestyle=":", label="the optimum")
    axes.set(xlabel="independent drafts at the node", ylabel="acceptance", ylim=(0, 1.02))
    axes.set_title("p = (0.5, 0.3, 0.2), q = (0.2, 0.2, 0.6)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    return to_svg(figure, "Acceptance of node solvers by the number of drafts, and the optimum")
