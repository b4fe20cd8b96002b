# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The break-even map: where a tree, a chain or no speculation is fastest on a GPU."""

import marimo

__generated_with = "0.25.2"

app = marimo.App(width="medium", app_title="Break-even map")

with app.setup:
    from functools import cache

    import altair as alt
    import marimo as mo

    import spectheory as st
    from spectheory.hardware.gpus import gpu_names
    from spectheory.planning.candidates import Candidates, Choice, Limits, with_draft_cost
    from spectheory.planning.schedule_record import Option
    from spectheory.report import charts
    from spectheory.yields import falling_rates

    PAIRS = {
        "Llama 3.1 8B with EAGLE-3": ("llama-3.1-8b", "eagle3"),
        "Llama 3.1 8B with Llama 3.2 1B": ("llama-3.1-8b", "llama-3.2-1b"),
        "Qwen3 32B with EAGLE-3": ("qwen3-32b", "eagle3"),
        "Qwen3 32B with Qwen3 0.6B": ("qwen3-32b", "qwen3-0.6b"),
    }
    BATCHES = tuple(2**doubling for doubling in range(10))
    RATES = tuple(round(0.3 + 0.05 * step, 2) for step in range(13))
    COSTS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    MAX_BUDGET = 32
    CONTEXT = 1024
    START = 8, 0.7


@app.cell(hide_code=True)
def _():
    mo.md(
        """
        # Tree, chain or off?

        At small batches the GPU waits for memory, and checking more tokens is almost free: a **tree** is fastest. At
        large batches every token costs computing time: the tree shrinks to a **chain**, and where guesses are poor it
        is better to turn speculation **off**. **Click a cell** of the first map to see its plan, or point at a cell
        for its figures.
        """
    )


@app.cell(hide_code=True)
def _():
    gpu = mo.ui.dropdown([*gpu_names()], value="h100_sxm", label="GPU", searchable=True)
    pair = mo.ui.dropdown([*PAIRS], value=next(iter(PAIRS)), label="models")
    cost = mo.ui.slider(steps=COSTS, value=1.0, label="draft forwards take, times the computed", show_value=True)
    caught = mo.ui.slider(
        0, 0.4, 0.05, value=0.35, label="share of misses that the next guess catches", show_value=True
    )
    mo.Html(charts.grid_html(one.text for one in (gpu, pair, cost, caught)))
    return caught, cost, gpu, pair


@app.cell(hide_code=True)
def _(caught, gpu, pair):
    try:
        latencies = times(gpu.value, pair.value)
    except st.InputError as error:
        mo.stop(True, mo.callout(mo.md(f"{error}"), kind="warn"))
    by_rate = candidates(caught.value)
    return by_rate, latencies


@app.cell(hide_code=True)
def _(by_rate, cost, latencies):
    scaled = {factor: {b: with_draft_cost(one, factor) for b, one in latencies.items()} for factor in COSTS}
    _cells = [
        {"batch": b, "rate": rate, **figures(found.choice(latency, CONTEXT))}
        for rate, found in by_rate.items()
        for b, latency in scaled[cost.value].items()
    ]
    over_rates = mo.ui.altair_chart(
        charts.framed(region_chart(_cells, "rate", "rate of the first guess", START), "By batch size and acceptance"),
        chart_selection=False,
        legend_selection=False,
    )
    return over_rates, scaled


@app.cell(hide_code=True)
def _(over_rates):
    picked = chosen(over_rates.selections, "rate")
    return (picked,)


@app.cell(hide_code=True)
def _(by_rate, cost, over_rates, picked, scaled):
    _rate = min(by_rate, key=lambda rate: abs(rate - picked[1]))
    _cells = [
        {"batch": b, "cost": factor, **figures(by_rate[_rate].choice(latency, CONTEXT))}
        for factor, by_batch in scaled.items()
        for b, latency in by_batch.items()
    ]
    _second = charts.framed(
        region_chart(_cells, "cost", "time of draft forwards, times the computed", (picked[0], cost.value)),
        f"By batch size and draft cost, first guess {_rate:.2f}",
    )
    mo.Html(charts.grid_html([over_rates.text, mo.as_html(_second).text]))


@app.cell(hide_code=True)
def _(cost, caught, picked, scaled):
    _batch, _rate = picked
    _batch = min(scaled[cost.value], key=lambda size: abs(size - _batch))
    plan = st.plan(
        falling_rates(_rate, caught.value), scaled[cost.value][_batch], max_budget=MAX_BUDGET, context=CONTEXT
    )
    mo.vstack(
        [
            mo.md(f"### Batch {_batch}, first guess right in {_rate:.0%}\n\n{plan.summary}"),
            charts.framed(charts.tree_chart(plan.tree, plan.reach), f"What is verified: {plan.answer}", height=220)
            if plan.tree.budget
            else mo.md(""),
        ]
    )
    return (plan,)


@app.cell(hide_code=True)
def _(latencies, plan):
    mo.md(notes(max(latencies), plan.provenance.assumptions))


@app.function
@cache
def times(gpu: str, pair: str) -> dict[int, st.Latency]:
    """Forward times of a pair on a GPU, for each batch size that fits into its memory."""
    target, draft = PAIRS[pair]
    return st.Deployment(gpu, target, draft, context=CONTEXT).latencies(BATCHES)


@app.function
@cache
def candidates(caught: float) -> dict[float, Candidates]:
    """The candidate trees for each rate of the first guess."""
    return {rate: Candidates(falling_rates(rate, caught), Limits(MAX_BUDGET)) for rate in RATES}


@app.function
def figures(choice: Choice) -> dict[str, object]:
    """A choice as the columns of a chart."""
    tree = choice.tree
    size = f"{tree.budget} nodes, {tree.max_depth} deep" if tree.budget else "no speculation"
    return {"name": Option(tree).answer, "speedup": choice.speedup, "tau": choice.tau, "size": size}


@app.function
def chosen(selections: dict, column: str) -> tuple[int, float]:
    """The batch size and the value of `column` of the cell that was clicked; before a click, those of `START`."""
    cell = selections.get("cell") or {}
    return int((cell.get("batch") or START[:1])[0]), float((cell.get(column) or START[1:])[0])


@app.function
def notes(largest: int, assumptions: tuple[str, ...]) -> str:
    """What the numbers are, and what is assumed."""
    end = (
        f"{largest}, the largest power of 2 that fits into the memory of this GPU"
        if largest < max(BATCHES)
        else largest
    )
    said = (
        f"The numbers in the cells are predicted speedups over plain decoding, of the fastest tree of up to "
        f"{MAX_BUDGET} nodes, with {CONTEXT:,} tokens of context. The batch sizes end at {end}. What is assumed:"
    )
    return "\n".join([said, "", *(f"- {sentence}" for sentence in assumptions)])


@app.function
def region_chart(cells: list[dict], column: str, title: str, start: tuple[int, float]) -> alt.LayerChart:
    """Cells in the colour of their answer, with their speedup, by batch size and one more column.

    The cell at `start` has a frame until another one is clicked.
    """
    cell = alt.selection_point("cell", fields=["batch", column], value=[{"batch": start[0], column: start[1]}])
    x = alt.X("batch:O", title="batch size", axis=alt.Axis(labelAngle=0))
    y = alt.Y(f"{column}:O", title=title, sort="descending")
    tips = [
        alt.Tooltip("name:N", title="fastest"),
        alt.Tooltip("size:N"),
        alt.Tooltip("speedup:Q", format=".2f"),
        alt.Tooltip("tau:Q", title="tokens per target call", format=".2f"),
    ]
    base = alt.Chart(charts.rows(cells))
    edge = alt.condition(cell, alt.value("#1f2328"), alt.value(None), empty=False)
    return alt.layer(
        base.mark_rect(strokeWidth=3)
        .encode(x, y, color=charts.one_of(charts.ANSWERS), tooltip=tips, stroke=edge)
        .add_params(cell),
        base.mark_text(fontSize=10, color="white").encode(x, y, text=alt.Text("speedup:Q", format=".1f"), tooltip=tips),
    )


if __name__ == "__main__":
    app.run()
