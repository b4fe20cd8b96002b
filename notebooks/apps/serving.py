# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""Serving under load: time to the first token, time per token and goodput, and schedules that lock in after a burst."""

import marimo

__generated_with = "0.25.2"

app = marimo.App(width="medium", app_title="Serving under load")

with app.setup:
    from functools import cache

    import altair as alt
    import marimo as mo
    import numpy as np

    import spectheory as st
    from simulate import Controller, Requests, Server, StepTimes, Tier, serve
    from simulate.load import profile
    from simulate.serving import SelfConsistent, self_consistent
    from spectheory.report import charts
    from spectheory.report.charts import BLUE, GREY, ORANGE, PURPLE
    from spectheory.results.serving import ServingRun
    from spectheory.yields import falling_rates

    SEQUENCES = 256
    CALM, BURST, AFTER = 20, 10, 60
    PROMPT, OUTPUT = 256, 256
    TTFT_SECONDS = 1.0
    COLOURS = (GREY, BLUE, ORANGE)


@app.cell(hide_code=True)
def _():
    mo.md(
        """
        # Serving under load

        The batch size of a server is not an input: it follows from the load and from the speed. A schedule that
        speculates only up to a batch size can **lock in**. After a burst the batch is large, so it does not speculate.
        Without speculation the server is slower, so the batch stays large, at a load that speculation would hold at a
        small batch. **Watch the batch after the burst**, and move the load.
        """
    )


@app.cell(hide_code=True)
def _():
    load = mo.ui.slider(2, 40, 1, value=16, label="load, requests a second", show_value=True)
    burst = mo.ui.slider(1, 5, 0.5, value=2, label=f"load in the burst of {BURST} seconds, times", show_value=True)
    last = mo.ui.slider(4, 128, 4, value=32, label="speculate up to batch", show_value=True)
    drafted = mo.ui.slider(1, 8, value=3, label="length of the chain", show_value=True)
    first = mo.ui.slider(0.4, 0.95, 0.05, value=0.7, label="rate of the first guess", show_value=True)
    limit = mo.ui.slider(4, 40, 1, value=15, label="limit on the time per token, ms", show_value=True)
    mo.Html(charts.grid_html(one.text for one in (load, burst, last, drafted, first, limit)))
    return burst, drafted, first, last, limit, load


@app.cell(hide_code=True)
def _(burst, drafted, first, last, limit, load):
    arriving = arrivals(load.value, burst.value)
    rules = controllers(drafted.value, first.value, last.value)
    runs = served(arriving, rules, limit.value / 1000)
    settling = [self_consistent(rule, arriving, rate=load.value, server=server()) for rule in rules]
    mo.md(sentence(runs, last.value))
    return runs, settling


@app.cell(hide_code=True)
def _(last, runs, settling):
    _shown = [
        charts.framed(batch_chart(runs, last.value), "Sequences that decode at the same time"),
        charts.framed(settling_chart(runs, settling), "The batch that follows from a batch, at this load"),
    ]
    mo.Html(charts.grid_html(mo.as_html(one).text for one in _shown))


@app.cell(hide_code=True)
def _(runs, settling):
    mo.md(settled(runs, settling))


@app.cell(hide_code=True)
def _(limit, runs):
    _shown = {
        "Time to the first token, median, ms": [run.ttft and 1000 * run.ttft.p50 for run in runs],
        "Time per token, median, ms": [run.tpot and 1000 * run.tpot.p50 for run in runs],
        f"Goodput, at most {limit.value} ms a token": [run.goodput for run in runs],
    }
    mo.Html(
        charts.grid_html(
            (
                mo.as_html(charts.framed(bar_chart([run.name for run in runs], values), title, height=110)).text
                for title, values in _shown.items()
            ),
            least_rem=17,
        )
    )


@app.cell(hide_code=True)
def _(runs):
    mo.md(left_out(runs))


@app.function
@cache
def server() -> Server:
    """Llama 3.1 8B with its EAGLE-3 head on one H100, timed by the roofline."""
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3")
    return Server(StepTimes.computed(place, most_sequences=SEQUENCES))


@app.function
def arrivals(load: float, burst: float) -> Requests:
    """Requests at a constant mean rate, with one burst."""
    return profile([load, load * burst, load], [CALM, BURST, AFTER], prompt=PROMPT, output=OUTPUT)


@app.function
def controllers(drafted: int, first: float, last: int) -> tuple[Controller, ...]:
    """No speculation, a chain at every batch size, and the chain up to a batch size."""
    tier = Tier.of(st.Tree.chain(drafted), falling_rates(first, 0, ranks=1, kept=0.95, depths=8))
    return (
        Controller.always(Tier.off(), SEQUENCES),
        Controller.always(tier, SEQUENCES),
        Controller.up_to(tier, last, SEQUENCES),
    )


@app.function
def served(requests: Requests, rules: tuple[Controller, ...], limit_seconds: float) -> list[ServingRun]:
    """The same requests, with the same random numbers, by each rule."""
    return [
        serve(
            rule,
            requests,
            server=server(),
            until_seconds=CALM + BURST + AFTER,
            slo_ttft_seconds=TTFT_SECONDS,
            slo_tpot_seconds=limit_seconds,
            keep_steps=True,
        )
        for rule in rules
    ]


@app.function
def batch_by_second(run: ServingRun) -> np.ndarray:
    """(seconds,) mean number of decoding sequences in each second, weighted by the time of the steps."""
    ends, batch = run.step_seconds, run.step_batch
    assert ends is not None
    assert batch is not None
    spent = np.diff(ends, prepend=0.0)
    seconds = np.clip(ends.astype(int), 0, CALM + BURST + AFTER - 1)
    total = np.bincount(seconds, spent, minlength=CALM + BURST + AFTER)
    return np.bincount(seconds, spent * batch, minlength=CALM + BURST + AFTER) / np.maximum(total, 1e-9)


@app.function
def at_the_end(run: ServingRun) -> float:
    """Mean number of decoding sequences in the last ten seconds."""
    return float(batch_by_second(run)[-10:].mean())


@app.function
def locked_in(limited: ServingRun, always: ServingRun, last: int) -> bool:
    """Whether the last ten seconds mostly do not speculate, at a load that the chain holds within the limit."""
    assert limited.step_seconds is not None
    assert limited.step_tier is not None
    tiers = limited.step_tier[limited.step_seconds > CALM + BURST + AFTER - 10]
    off = np.array([not tree.budget for tree in limited.trees])[tiers]
    return bool(off.mean() > 0.5) and at_the_end(always) <= last


@app.function
def sentence(runs: list[ServingRun], last: int) -> str:
    """Where the batch is after the burst, and whether the schedule with a limit is locked in."""
    off, always, limited = map(at_the_end, runs)
    said = (
        f"In the last ten seconds, **{runs[1].name}** holds this load at batch **{always:.0f}**, no speculation at "
        f"**{off:.0f}**, and **{runs[2].name}** at **{limited:.0f}**."
    )
    if locked_in(runs[2], runs[1], last):
        return f"{said} It is **locked in**: it no longer speculates, although a chain would bring the batch down."
    return f"{said} It is not locked in."


@app.function
def batch_chart(runs: list[ServingRun], last: int) -> alt.LayerChart:
    """The number of decoding sequences over time, with the burst as a band and the limit as a line."""
    points = [
        {"name": run.name, "second": second, "batch": batch}
        for run in runs
        for second, batch in enumerate(batch_by_second(run))
    ]
    colours = {run.name: colour for run, colour in zip(runs, COLOURS, strict=True)}
    x = alt.X("second:Q", title="seconds", scale=alt.Scale(domain=[0, CALM + BURST + AFTER], nice=False))
    y = alt.Y("batch:Q", title="batch size")
    band = alt.Chart(charts.rows([{"from": CALM, "to": CALM + BURST}]))
    tips = [alt.Tooltip("name:N"), alt.Tooltip("second:Q"), alt.Tooltip("batch:Q", format=".1f")]
    return alt.layer(
        band.mark_rect(color=PURPLE, opacity=0.15).encode(x=alt.X("from:Q", title="seconds"), x2="to:Q"),
        alt.Chart(charts.rows([{"last": last}])).mark_rule(color=ORANGE, strokeDash=[4, 3]).encode(y="last:Q"),
        alt.Chart(charts.rows(points))
        .mark_line(strokeWidth=2.5)
        .encode(x, y, color=charts.one_of(colours), tooltip=tips),
    )


@app.function
def settling_chart(runs: list[ServingRun], settling: list[SelfConsistent]) -> alt.LayerChart:
    """For each batch size the mean batch that its speed leads to; a server settles where this meets the diagonal."""
    most = 128
    points = [
        {"name": run.name, "batch": batch, "follows": follows}
        for run, found in zip(runs, settling, strict=True)
        for batch, follows in enumerate(found.given_back[:most], 1)
        if follows <= most
    ]
    colours = {run.name: colour for run, colour in zip(runs, COLOURS, strict=True)}
    scale = alt.Scale(domain=[0, most], nice=False)
    x = alt.X("batch:Q", title="batch size", scale=scale)
    y = alt.Y("follows:Q", title="batch size that follows", scale=scale)
    ends = [{"batch": end, "follows": end} for end in (0, most)]
    return alt.layer(
        alt.Chart(charts.rows(ends)).mark_line(color=GREY, strokeDash=[4, 3]).encode(x, y),
        alt.Chart(charts.rows(points)).mark_line(strokeWidth=2.5).encode(x, y, color=charts.one_of(colours)),
    )


@app.function
def settled(runs: list[ServingRun], settling: list[SelfConsistent]) -> str:
    """The batch sizes at which each schedule can settle, in one sentence."""
    places = [
        f"{run.name} at {' or '.join(f'{point.batch:.0f}' for point in found.points if point.is_stable) or 'none'}"
        for run, found in zip(runs, settling, strict=True)
    ]
    return (
        "In the second chart, a server settles where its line crosses the dashed diagonal from above: on average, "
        f"{'; '.join(places)}. A schedule with two such batch sizes can lock in at the larger one."
    )


@app.function
def bar_chart(names: list[str], values: list[float | None]) -> alt.LayerChart:
    """One bar for each run, with its value."""
    bars = [{"name": name, "value": value} for name, value in zip(names, values, strict=True)]
    base = alt.Chart(charts.rows(bars))
    scale = alt.Scale(domain=names, range=[*COLOURS])
    y = alt.Y("name:N", sort=None, title=None)
    return alt.layer(
        base.mark_bar().encode(
            x=alt.X("value:Q", title=None, axis=None), y=y, color=alt.Color("name:N", scale=scale, legend=None)
        ),
        base.mark_text(align="left", dx=5, color="white", fontWeight="bold", x=0).encode(
            y=y, text=alt.Text("value:Q", format=".3~g")
        ),
    )


@app.function
def left_out(runs: list[ServingRun]) -> str:
    """What is simulated, and what is left out."""
    said = (
        f"Llama 3.1 8B with its EAGLE-3 head on one H100, at most {SEQUENCES} sequences, prompts of {PROMPT} and "
        f"answers of {OUTPUT} tokens; {CALM} calm seconds, a burst of {BURST}, and {AFTER} more. All three runs have "
        "the same arrivals and the same uniform numbers. In the first chart the band is the burst, and the dashed line "
        "the limit of the schedule. Goodput is the completed requests a second whose first token came within "
        f"{TTFT_SECONDS:g} s and whose tokens took at most the limit, on average. What is assumed:"
    )
    return "\n".join([said, "", *(f"- {sentence}" for sentence in runs[1].provenance.assumptions)])


if __name__ == "__main__":
    app.run()
