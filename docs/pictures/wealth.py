"""The wealth of the bet against a step that draws its correction from p, where the residual is right."""

import math

import numpy as np

import spectheory as st
from spectheory.report.svg import BLUE, RED, panels, styled, to_svg

P, Q = np.random.default_rng(0).dirichlet(np.ones(6), (2, 6))


def wrong_step(context, rng):
    last = (0, *context)[-1]
    drafted = rng.choice(6, p=Q[last])
    if rng.random() * Q[last][drafted] < P[last][drafted]:
        return [drafted, rng.choice(6, p=P[drafted])]
    return [rng.choice(6, p=P[last])]


@styled
def draw() -> str:
    found = st.certify_step(wrong_step, lambda context: P[(0, *context)[-1]], vocab_size=6, contexts=[()], seed=0)
    figure, (axes,) = panels(height_inches=2.7)
    runs, wealth = np.array(found.path, float).T / [[1], [math.log(10)]]
    axes.plot(runs, wealth, color=BLUE)
    axes.axhline(-math.log10(found.alpha), color=RED, linewidth=1, linestyle=":")
    axes.annotate(
        "1 / alpha: LOSSY above", (0, -math.log10(found.alpha)), (4, 3), textcoords="offset points", color=RED
    )
    axes.set_title(f"Evidence against the step: {found.verdict.name} after {found.samples:,} runs")
    axes.set(xlabel="runs of the step", ylabel="log10 of the wealth")
    return to_svg(figure, f"Wealth won by betting against the step, by runs; {found.verdict.name}")
