# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""Bring your own: the report of an engine or a trace, and the plan for a GPU that follows from it."""

import marimo

__generated_with = "0.25.2"

app = marimo.App(width="medium", app_title="Your own engine")

with app.setup:
    import sys
    from pathlib import Path

    import altair as alt
    import marimo as mo

    import spectheory as st
    from spectheory import engines
    from spectheory.core.record import parse
    from spectheory.hardware.gpus import gpu_names
    from spectheory.planning.advice import advice
    from spectheory.planning.schedule_record import tree_in_words
    from spectheory.report import charts
    from spectheory.report.charts import BLUE, GREY

    IN_BROWSER = sys.platform == "emscripten"
    BATCHES = tuple(2**doubling for doubling in range(9))
    EXPORTERS = [one.name for one in engines.ALL if one.exporter]
    EXAMPLE = "\n".join(
        [
            "vllm:spec_decode_num_drafts_total 1000.0",
            "vllm:spec_decode_num_draft_tokens_total 5000.0",
            "vllm:spec_decode_num_accepted_tokens_total 2160.0",
            *(
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}} {count:.1f}'
                for position, count in enumerate((760, 550, 400, 270, 180))
            ),
        ]
    )


@app.cell(hide_code=True)
def _():
    mo.md(
        """
        # Your own engine

        Paste what your engine reports about its speculation, and see **what it should verify at each batch size**. The
        text below is an example of vLLM's metrics with invented counts: replace it.
        """
    )


@app.cell(hide_code=True)
def _():
    pasted = mo.ui.text_area(EXAMPLE, label="report of an engine", rows=7, full_width=True)
    dropped = mo.ui.file(label="or drop a report, or the acceptance.json of a trace", kind="area")
    folder = mo.ui.text(label="or the folder of a trace on this machine", placeholder="trace", full_width=True)
    earlier = mo.ui.text_area(label="an earlier scrape of the server, which is subtracted", rows=2, full_width=True)
    others = (earlier, dropped) if IN_BROWSER else (earlier, dropped, folder)
    mo.vstack([pasted, mo.Html(charts.grid_html(one.text for one in others))])
    return dropped, earlier, folder, pasted


@app.cell(hide_code=True)
def _():
    gpu = mo.ui.dropdown([*gpu_names()], value="h100_sxm", label="GPU", searchable=True)
    target = mo.ui.text("llama-3.1-8b", label="target, such as llama-3.1-8b-fp8")
    draft = mo.ui.text("eagle3", label="draft")
    gpus = mo.ui.number(1, 1024, value=1, label="number of GPUs")
    context = mo.ui.number(1, 1_000_000, value=1024, label="context, tokens")
    prompt = mo.ui.number(0, 1_000_000, value=0, label="mean prompt, tokens")
    answer = mo.ui.number(0, 1_000_000, value=0, label="mean answer, tokens (0: not known)")
    engine = mo.ui.dropdown(EXPORTERS, value="vllm", label="settings for")
    length = mo.ui.number(0, 64, value=0, label="drafted tokens, if the report has totals only")
    fields = (gpu, gpus, target, draft, engine, context, prompt, answer, length)
    mo.Html(charts.grid_html((one.text for one in fields), least_rem=16))
    return answer, context, draft, engine, gpu, gpus, length, prompt, target


@app.cell(hide_code=True)
def _(dropped, earlier, folder, length, pasted):
    try:
        if folder.value.strip():
            rates, replays = of_trace(Path(folder.value.strip()))
            said = f"Trace in {folder.value.strip()}"
        else:
            _given = dropped.contents().decode(errors="replace") if dropped.value else pasted.value
            rates, said = of_text(_given, length.value or None, earlier.value)
            replays = None
    except (st.InputError, ModuleNotFoundError) as error:
        mo.stop(True, mo.callout(mo.md(f"**This cannot be read.** {error}"), kind="warn"))
    return rates, replays, said


@app.cell(hide_code=True)
def _(answer, context, draft, engine, gpu, gpus, prompt, rates, replays, target):
    _read = (
        {"prompt_tokens": prompt.value, "output_tokens": answer.value} if answer.value else {"context": context.value}
    )
    _on = {"gpus": gpus.value, "engine": engine.value}
    try:
        place = st.Deployment(gpu.value, target.value, draft.value, **_on, **_read)
        planned = place.schedule(rates, fitting(place), max_budget=32, replays=replays)
    except st.InputError as error:
        mo.stop(True, mo.callout(mo.md(f"**There is no plan.** {error}"), kind="warn"))
    return place, planned


@app.cell(hide_code=True)
def _(planned, said):
    mo.md(f"{said}. **{planned.summary}** {' '.join(advice(planned))}")


@app.cell(hide_code=True)
def _(planned, rates):
    _shown = [
        charts.framed(rate_chart(rates), "Accepted, by position in the draft", height=240),
        charts.framed(speedup_chart(planned), "Predicted speedup by batch size", height=240),
    ]
    mo.Html(charts.grid_html(mo.as_html(one).text for one in _shown))


@app.cell(hide_code=True)
def _(engine, place, planned):
    _errors = planned.confidence.in_words if planned.confidence else ""
    mo.md(f"Intervals are of 80%. {_errors}\n\n{settings(planned, engine.value)}")


@app.cell(hide_code=True)
def _(planned):
    _assumed = "\n".join(f"- {sentence}" for sentence in planned.provenance.assumptions)
    mo.accordion({"What is assumed": mo.md(_assumed)})


@app.function
def of_text(text: str, length: int | None = None, earlier: str = "") -> tuple[st.Acceptance, str]:
    """The rates in a report or in an acceptance record, and what it was recognised as.

    Args:
        text: the text of the report or of the record.
        length: if the report has only totals: the number of drafted tokens in each chain.
        earlier: a scrape that is subtracted, or an earlier part of the log.

    Raises:
        InputError: the text is neither, or it has no rates.
    """
    if text.lstrip().startswith("{") and '"kind"' in text:
        return st.Acceptance.from_dict(parse(text, "the file"), "the file"), "An acceptance record"
    kinds = engines.recognised_reports(text)
    if not kinds:
        raise st.InputError(f"it is in none of these formats: {', '.join(engines.report_names())}")
    given = [earlier, text] if earlier.strip() else text
    found = st.read_report(given, kinds[0], min_trials=1, assume_constant=length)
    if found.acceptance is None:
        raise st.InputError(f"{kinds[0]} has only totals: give the chain length that your engine drafts")
    counted = "" if found.tau is None else f", {found.tau:.2f} tokens per target call"
    return found.acceptance, f"Read as {kinds[0]}{counted}"


@app.function
def of_trace(folder: Path) -> tuple[st.Acceptance, st.Replays]:
    """The rates of a trace and its texts, on which trees and verifiers are replayed. It needs spectheory[reference]."""
    from reference.tracing import replays

    texts = replays(folder)
    return st.Acceptance.load(folder / "acceptance.json").smoothed(), texts


@app.function
def fitting(place: st.Deployment) -> list[int]:
    """The batch sizes up to the first that does not fit into the memory of the GPU."""
    found = [1]
    place.latency(1)
    for batch in BATCHES[1:]:
        try:
            place.latency(batch)
        except st.InputError:
            break
        found.append(batch)
    return found


@app.function
def rate_chart(rates: st.Acceptance) -> alt.LayerChart:
    """The rate of each depth and rank, with 95% intervals of the first guesses where there are counts."""
    low, high = rates.interval() if rates.trials is not None else (rates.table, rates.table)
    bars = [
        {"depth": d + 1, "rank": f"guess {r + 1}", "rate": rates.table[d, r], "low": low[d, r], "high": high[d, r]}
        for d in range(rates.depths)
        for r in range(min(rates.ranks, 4))
    ]
    x = alt.X("depth:O", title="position", axis=alt.Axis(labelAngle=0))
    y = alt.Y("rate:Q", title="accepted, of those reached", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    ranks = {f"guess {r + 1}": colour for r, colour in zip(range(min(rates.ranks, 4)), charts.SERIES, strict=False)}
    scale = alt.Scale(domain=[*ranks], range=[*ranks.values()])
    colour = alt.Color("rank:N", scale=scale, title=None, legend=alt.Legend(orient="top") if len(ranks) > 1 else None)
    offset = alt.XOffset("rank:N")
    tips = [alt.Tooltip("rank:N"), alt.Tooltip("rate:Q", format=".1%")]
    base = alt.Chart(charts.rows(bars))
    return alt.layer(
        base.mark_bar().encode(x, y, xOffset=offset, color=colour, tooltip=tips),
        base.mark_rule(color=GREY, strokeWidth=2).encode(x, alt.Y("low:Q"), y2="high:Q", xOffset=offset),
    )


@app.function
def speedup_chart(planned: st.Schedule) -> alt.LayerChart:
    """Speedup over plain decoding by batch size, in the colours of the answers."""
    points = [
        {
            "batch": int(batch),
            "speedup": planned.speedups[row],
            "name": planned.option(row).answer,
            "size": tree_in_words(planned.trees[planned.choice[row]]),
            **dict(zip(("low", "high"), planned.speedup_interval(row) or 2 * [planned.speedups[row]], strict=True)),
        }
        for row, batch in enumerate(planned.batches)
    ]
    x = alt.X("batch:O", title="batch size", axis=alt.Axis(labelAngle=0))
    y = alt.Y("speedup:Q", title="times plain decoding", scale=alt.Scale(domainMin=0))
    tips = [alt.Tooltip("batch:O"), alt.Tooltip("size:N"), alt.Tooltip("speedup:Q", format=".2f")]
    base = alt.Chart(charts.rows(points))
    return alt.layer(
        alt.Chart(charts.rows([{"one": 1}])).mark_rule(color=GREY, strokeDash=[4, 3]).encode(y="one:Q"),
        base.mark_line(color=BLUE, opacity=0.4).encode(x, y),
        base.mark_rule(color=GREY, strokeWidth=2).encode(x, alt.Y("low:Q"), y2="high:Q"),
        base.mark_circle(size=130, opacity=1).encode(x, y, color=charts.one_of(charts.ANSWERS), tooltip=tips),
    )


@app.function
def settings(planned: st.Schedule, engine: str) -> str:
    """The settings with which an engine runs the schedule, as Markdown."""
    try:
        made = st.export(planned, engine)
    except st.InputError as error:
        return f"**{engine}** cannot run this plan: {error}"
    command = [f"```\n{made.command}\n```"] if made.args else []
    files = [f"`{name}`:\n\n```\n{text.strip()}\n```" for name, text in made.files.items()]
    notes = "\n".join(f"- {note}" for note in made.notes)
    return "\n\n".join([f"**Settings for {made.engine} {made.version}**", *command, *files, notes])


if __name__ == "__main__":
    app.run()
