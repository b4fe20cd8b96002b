# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""Node solvers on three tokens: the acceptance of each beside the optimum, for p and q on a triangle."""

import marimo

__generated_with = "0.25.2"

app = marimo.App(width="medium", app_title="Verifiers on three tokens")

with app.setup:
    from functools import cache

    import altair as alt
    import marimo as mo
    import numpy as np

    from spectheory.otlp import solvers
    from spectheory.otlp.simplex import Accepted, accepted, accepted_over
    from spectheory.report import charts
    from spectheory.report.charts import BLUE, GREY, ORANGE

    STEPS = 24
    SOLVERS = {type(solver).__name__: solver for solver in solvers()}
    SIDE = 320


@app.cell(hide_code=True)
def _():
    mo.md(
        """
        # Verifiers on three tokens

        The draft offers k tokens drawn from q, and the verifier emits one token with exactly the distribution p. How
        often is it one of the drafts? A point of a triangle is a distribution on the tokens A, B and C: at a corner the
        token is certain. In the first triangle, **every point is a draft distribution q**, coloured by the acceptance;
        the second shows what the verifier loses against the best possible one. **Change the verifier**, and see
        where it loses.
        """
    )


@app.cell(hide_code=True)
def _():
    k = mo.ui.slider(1, 4, value=2, label="k, drafted tokens", show_value=True)
    p_a = mo.ui.slider(0, 1, 0.01, value=0.5, label="p: probability of A", show_value=True)
    p_b = mo.ui.slider(0, 1, 0.01, value=0.6, label="p: share of B in the rest", show_value=True)
    q_a = mo.ui.slider(0, 1, 0.01, value=0.2, label="q: probability of A", show_value=True)
    q_b = mo.ui.slider(0, 1, 0.01, value=0.25, label="q: share of B in the rest", show_value=True)
    return k, p_a, p_b, q_a, q_b


@app.cell(hide_code=True)
def _(k):
    names = [name for name, solver in SOLVERS.items() if (solver.drafts_in_reach(3) or k.value) >= k.value]
    solver = mo.ui.dropdown(names, value="SpecInfer", label="verifier in the triangles")
    return (solver,)


@app.cell(hide_code=True)
def _(k, p_a, p_b, q_a, q_b, solver):
    mo.Html(charts.grid_html((one.text for one in (solver, k, p_a, q_a, p_b, q_b)), least_rem=20))


@app.cell(hide_code=True)
def _(k, p_a, p_b, q_a, q_b, solver):
    p, q = on_three(p_a.value, p_b.value), on_three(q_a.value, q_b.value)
    found = accepted(p, q, k.value, SOLVERS.values())
    grid, acceptance, optimum = over_triangle(tuple(p), k.value, solver.value)
    return acceptance, found, grid, optimum, p, q


@app.cell(hide_code=True)
def _(found, solver):
    mo.md(sentence(next(one for one in found if one.solver == solver.value)))


@app.cell(hide_code=True)
def _(acceptance, grid, optimum, p, q, solver):
    _gap = np.maximum(optimum - acceptance, 0)
    _drawn = (
        triangle(grid, acceptance, p, q, f"{solver.value}: acceptance", ["#dbe8fa", BLUE, "#173a6b"], (0, 1)),
        triangle(
            grid, _gap, p, q, "Lost against the optimum", ["#f3f1ee", ORANGE, "#7d3210"], (0, max(_gap.max(), 0.01))
        ),
    )
    mo.Html(charts.grid_html((mo.as_html(one).text for one in _drawn), least_rem=20))


@app.cell(hide_code=True)
def _(found):
    mo.as_html(charts.framed(bars(found), "All verifiers at this p and q; the line is the optimum", height=260))


@app.cell(hide_code=True)
def _():
    mo.md(
        """
        The optimum depends on how the drafts are drawn: independently, without replacement, or with the most probable
        tokens among them. So two verifiers that both reach their optimum need not accept equally often. All
        verifiers of this package are lossless: `spectheory certify` proves it in exact arithmetic.
        """
    )


@app.function
def on_three(first: float, share: float) -> np.ndarray:
    """The distribution on three tokens with this probability of A, and this share of B in the rest."""
    return np.array([first, (1 - first) * share, (1 - first) * (1 - share)])


@app.function
@cache
def over_triangle(p: tuple[float, ...], k: int, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The grid of q, the acceptance of the named solver at each, and the optimum."""
    return accepted_over(np.array(p), k, SOLVERS[name], STEPS)


@app.function
def sentence(one: Accepted) -> str:
    """What one verifier accepts beside its optimum."""
    lost = one.optimum - one.acceptance
    best = "which is the optimum" if lost < 1e-9 else f"and the optimum is **{one.optimum:.3f}**"
    accepts = f"At this p and q, **{one.solver}** accepts a draft with probability **{one.acceptance:.3f}**"
    return f"{accepts}, {best} for its drafts ({one.rule.value})."


@app.function
def triangle(
    grid: np.ndarray,
    values: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
    title: str,
    colours: list[str],
    domain: tuple[float, float],
) -> alt.LayerChart:
    """Values over all draft distributions, with marks at p and q."""
    hidden = {"axis": None, "scale": alt.Scale(nice=False, padding=14)}
    x, y = alt.X("x:Q", **hidden), alt.Y("y:Q", **hidden)
    scale = alt.Scale(domain=[*map(float, domain)], range=colours, clamp=True)
    names = [*zip("ABC", ([1, 0, 0], [0, 1, 0], [0, 0, 1]), strict=True)]
    tips = [alt.Tooltip(f"{token}:Q", title=f"q({token})", format=".2f") for token in "ABC"]
    cells = [
        dict(zip("ABC", point, strict=True)) | place(point) | {"value": value}
        for point, value in zip(grid, values, strict=True)
    ]
    marks = [{"name": name, **place(point)} for name, point in (("p", p), ("q", q))]
    letters = [{"name": name, **place(np.array(point))} for name, point in names]
    dots = alt.Chart(charts.rows(marks))
    return (
        alt.layer(
            alt.Chart(charts.rows(cells))
            .mark_circle(size=SIDE / STEPS * 13, opacity=1)
            .encode(
                x,
                y,
                color=alt.Color(
                    "value:Q", scale=scale, title=None, legend=alt.Legend(orient="right", gradientLength=120)
                ),
                tooltip=[*tips, alt.Tooltip("value:Q", title=title, format=".3f")],
            ),
            dots.mark_circle(size=260, color="white", stroke="#1f2328", strokeWidth=2, opacity=1).encode(x, y),
            dots.mark_text(fontWeight="bold", fontSize=12, color="#1f2328").encode(x, y, text="name:N"),
            alt.Chart(charts.rows(letters))
            .mark_text(fontWeight="bold", fontSize=14, color=GREY, dy=alt.expr("datum.name == 'C' ? -14 : 16"))
            .encode(x, y, text="name:N"),
        )
        .properties(title=alt.TitleParams(title, anchor="start", fontSize=13), width=SIDE - 60, height=SIDE * 0.8)
        .configure(background="transparent")
        .configure_view(stroke=None)
    )


@app.function
def place(point: np.ndarray) -> dict[str, float]:
    """Where a distribution lies in the triangle."""
    x, y = charts.corners(np.asarray(point, float)[None])[0]
    return {"x": float(x), "y": float(y)}


@app.function
def bars(found: list[Accepted]) -> alt.LayerChart:
    """The acceptance of each verifier as a bar, and its optimum as a line."""
    base = alt.Chart(
        charts.rows(
            {"name": one.solver, "rule": one.rule.value, "acceptance": one.acceptance, "optimum": one.optimum}
            for one in found
        )
    )
    y = alt.Y("name:N", sort=None, title=None)
    tips = [
        alt.Tooltip("name:N"),
        alt.Tooltip("rule:N", title="drafts"),
        alt.Tooltip("acceptance:Q", format=".4f"),
        alt.Tooltip("optimum:Q", format=".4f"),
    ]
    scale = alt.Scale(domain=[0, 1])
    return alt.layer(
        base.mark_bar(color=BLUE).encode(x=alt.X("acceptance:Q", title="acceptance", scale=scale), y=y, tooltip=tips),
        base.mark_tick(color=ORANGE, thickness=4, opacity=1).encode(
            x=alt.X("optimum:Q", scale=scale), y=y, tooltip=tips
        ),
        base.mark_text(align="left", dx=6, color="white", fontSize=11, x=0).encode(
            y=y, text=alt.Text("acceptance:Q", format=".3f")
        ),
    )


if __name__ == "__main__":
    app.run()
