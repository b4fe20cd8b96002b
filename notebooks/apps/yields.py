# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The yield surface: tokens per target call by budget, depth and rates."""

import marimo

__generated_with = "0.25.2"

app = marimo.App(width="medium", app_title="What a budget yields")

with app.setup:
    import altair as alt
    import marimo as mo
    import numpy as np

    import spectheory as st
    from spectheory.report import charts
    from spectheory.report.charts import BLUE, GREEN, GREY, ORANGE, PURPLE
    from spectheory.yields import falling_rates

    LARGEST = 128
    BUDGETS = (1, 2, 4, 8, 16, 32, 64, 128)
    DEPTHS = (1, 2, 3, 4, 5, 6, 8, 12)
    FULL = {f"{fanout}-ary": [st.Tree.k_ary(fanout, d) for d in range(1, n)] for fanout, n in ((2, 7), (3, 5))}


@app.cell(hide_code=True)
def _():
    mo.md(
        """
        # What a budget yields

        A draft model proposes a tree of tokens, and the target checks all of them in one call. **Move the budget:** the
        tree takes the node that is most likely to be accepted next. A chain stops gaining early, a full tree wastes
        nodes, and the best tree does neither.
        """
    )


@app.cell(hide_code=True)
def _():
    budget = mo.ui.slider(1, LARGEST, value=24, label="budget, drafted tokens per cycle", show_value=True)
    limit = mo.ui.slider(1, 12, value=12, label="depth limit", show_value=True)
    first = mo.ui.slider(0.3, 0.95, 0.01, value=0.6, label="rate of the first guess", show_value=True)
    caught = mo.ui.slider(
        0, 0.4, 0.01, value=0.35, label="share of misses that the next guess catches", show_value=True
    )
    kept = mo.ui.slider(0.7, 1, 0.01, value=0.97, label="rates from one depth to the next, times", show_value=True)
    mo.Html(charts.grid_html(one.text for one in (budget, limit, first, caught, kept)))
    return budget, caught, first, kept, limit


@app.cell(hide_code=True)
def _(caught, first, kept, limit):
    rates = falling_rates(first.value, caught.value, kept=kept.value, depths=max(DEPTHS))
    trees = st.best_trees(rates, LARGEST, max_depth=limit.value)
    surface = st.yield_table(rates, LARGEST, max_depth=max(DEPTHS))
    lines = {
        "best tree": surface[limit.value],
        "chain": st.yield_table(rates, LARGEST, max_depth=limit.value, max_fanout=1)[-1],
    }
    dots = [(name, tree.budget, st.block_efficiency(tree, rates)) for name, full in FULL.items() for tree in full]
    return dots, lines, rates, surface, trees


@app.cell(hide_code=True)
def _(budget, dots, lines, trees):
    mo.md(sentence(lines, dots, budget.value, trees[budget.value].max_depth))


@app.cell(hide_code=True)
def _(budget, dots, lines, rates, trees):
    _tree = trees[budget.value]
    _drawing = charts.tree_chart(_tree, st.reach(_tree, rates), newest_of(trees, budget.value))
    _shown = [
        charts.framed(curves(lines, dots, budget.value), "Tokens per target call by budget"),
        charts.framed(_drawing, f"The best tree of {_tree.budget}; the newest node has a ring"),
    ]
    mo.Html(charts.grid_html(mo.as_html(one).text for one in _shown))


@app.cell(hide_code=True)
def _(budget, limit, surface):
    charts.framed(surface_chart(surface, budget.value, limit.value), "Tokens per target call by budget and depth")


@app.cell(hide_code=True)
def _():
    mo.md(
        """
        The dots are full k-ary trees, in which each node has k children. Each level of a tree is one more call of the
        draft model, so depth costs time: *own_data* shows what is fastest on a GPU. Here a node is worth the product
        of the rates on its path; measured rates are in the file that `spectheory trace` or `spectheory import` writes.
        """
    )


@app.function
def newest_of(trees: list[st.Tree], budget: int) -> int | None:
    """The node of the best tree that the tree with one node less does not have; None if they do not nest."""
    tree, before = trees[budget], trees[budget - 1]
    nests = tree.budget == before.budget + 1 and (tree.parent[:-1] == before.parent).all()
    return tree.budget if nests else None


@app.function
def sentence(lines: dict[str, np.ndarray], dots: list[tuple[str, int, float]], budget: int, depth: int) -> str:
    """What the chosen budget yields, in one sentence."""
    full = max((tau for _, nodes, tau in dots if nodes <= budget), default=None)
    others = [f"a chain **{lines['chain'][budget]:.2f}**"]
    others += [] if full is None else [f"the best full k-ary tree within it **{full:.2f}**"]
    return (
        f"{budget} drafted tokens yield **{lines['best tree'][budget]:.2f} tokens per target call** with the best "
        f"tree, {depth} deep; {' and '.join(others)}."
    )


@app.function
def curves(lines: dict[str, np.ndarray], dots: list[tuple[str, int, float]], budget: int) -> alt.LayerChart:
    """Block efficiency by budget: best tree, chain and full k-ary trees, with a line at the chosen budget."""
    x = alt.X(
        "budget:Q",
        title="budget",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(values=[*BUDGETS]),
    )
    y = alt.Y("tau:Q", title="tokens per target call", scale=alt.Scale(zero=False))
    colours = {"best tree": BLUE, "chain": ORANGE, "2-ary": GREEN, "3-ary": PURPLE}
    taus = [(name, nodes, tau) for name, line in lines.items() for nodes, tau in enumerate(line) if nodes]
    marks, places = ([dict(zip(("name", "budget", "tau"), row, strict=True)) for row in of] for of in (taus, dots))
    colour = charts.one_of(colours)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("budget:Q"), alt.Tooltip("tau:Q", format=".3f")]
    return alt.layer(
        alt.Chart(charts.rows([{"budget": budget}])).mark_rule(color=GREY, strokeDash=[4, 3]).encode(x),
        alt.Chart(charts.rows(marks)).mark_line(strokeWidth=2.5).encode(x, y, color=colour, tooltip=tips),
        alt.Chart(charts.rows(places)).mark_circle(size=70, opacity=1).encode(x, y, color=colour, tooltip=tips),
    )


@app.function
def surface_chart(surface: np.ndarray, budget: int, limit: int) -> alt.LayerChart:
    """The yield table as coloured cells with numbers, and a frame around the chosen budget and depth limit."""
    budgets, depths = sorted({*BUDGETS, budget}), sorted({*DEPTHS, limit})
    cells = [{"budget": nodes, "depth": depth, "tau": surface[depth, nodes]} for depth in depths for nodes in budgets]
    x = alt.X("budget:O", title="budget", axis=alt.Axis(labelAngle=0))
    y = alt.Y("depth:O", title="depth limit", sort="descending")
    middle = (surface[max(DEPTHS), LARGEST] + 1) / 2
    text = alt.condition(f"datum.tau > {middle}", alt.value("white"), alt.value("#1f2328"))
    colour = alt.Color("tau:Q", scale=alt.Scale(range=["#dbe8fa", BLUE, "#173a6b"]), legend=None)
    base = alt.Chart(charts.rows(cells))
    return alt.layer(
        base.mark_rect().encode(
            x, y, color=colour, tooltip=["budget:O", "depth:O", alt.Tooltip("tau:Q", format=".3f")]
        ),
        base.mark_text(fontSize=10).encode(x, y, text=alt.Text("tau:Q", format=".2f"), color=text),
        alt.Chart(charts.rows([{"budget": budget, "depth": limit}]))
        .mark_rect(filled=False, stroke=ORANGE, strokeWidth=3)
        .encode(x, y),
    )


if __name__ == "__main__":
    app.run()
