"""The apps of `notebooks/apps`: each runs as it opens, and what it shows is what the library computes."""

from __future__ import annotations

import importlib.util
import itertools
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory import engines
from spectheory.cli import exploring
from spectheory.core.draft import DrawRule
from spectheory.otlp import ALL, OptimalTransport, SpecHub, SpecInfer
from spectheory.otlp.simplex import accepted, accepted_over, simplex
from spectheory.planning.candidates import Candidates, Limits, with_draft_cost
from spectheory.search.shapes import shapes
from spectheory.yields import falling_rates
from tests.command_line import Run, refused
from tests.engines.examples import REPORTS
from tests.known import known
from tests.refusals import refuses

ROOT = Path(__file__).parents[2]
APPS = exploring.apps()
PLACE = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3")


@cache
def app(name: str) -> ModuleType:
    """The module of an app."""
    spec = known(importlib.util.spec_from_file_location(f"app_{name}", APPS[name]))
    module = importlib.util.module_from_spec(spec)
    known(spec.loader).exec_module(module)
    return module


@cache
def opened(name: str) -> tuple[str, dict[str, Any]]:
    """The HTML of all cells of an app as it opens, and its variables."""
    import marimo as mo

    outputs, values = app(name).app.run()
    return "\n".join(mo.as_html(one).text for one in outputs if one is not None), dict(values)


@pytest.mark.parametrize("name", APPS)
def test_an_app_opens_with_its_charts_and_a_heading(name: str) -> None:
    page, _ = opened(name)
    assert "<h1" in page
    assert page.count("vega") >= 2
    assert "callout" not in page
    assert exploring.title(APPS[name]).endswith(".")


def test_there_are_the_five_apps() -> None:
    assert list(APPS) == ["break_even", "own_data", "serving", "verifiers", "yields"]


def spec_of(chart: Any) -> dict[str, Any]:
    """The Vega-Lite specification of a chart. Reading it checks the chart against the schema."""
    return chart.to_dict()


# What the apps compute


def test_falling_rates() -> None:
    assert falling_rates(0.5, 0.5, ranks=3, kept=0.5, depths=2).table.tolist() == [
        [0.5, 0.25, 0.125],
        [0.25, 0.125, 0.0625],
    ]
    assert falling_rates(0.6, 0.375).is_non_increasing
    refuses("caught must be a probability between 0 and 1, got 1.5", falling_rates, 0.6, 1.5)
    refuses("ranks must be at least 1, got 0", falling_rates, 0.6, 0.5, ranks=0)


def test_shapes_by_budget() -> None:
    found = shapes(st.Acceptance.by_rank([0.5, 0.25]), 7)
    assert found.best[:3].tolist() == [1, 1.5, 1.75]
    assert found.chain.tolist() == [2 - 0.5**nodes for nodes in range(8)]
    assert [(tree.budget, tau) for tree, tau in found.k_ary] == [(2, 1.75), (6, 1 + 0.75 + 0.75**2)]
    assert [tree.budget for tree in found.trees] == list(range(8))
    assert all(found.best >= found.chain)
    limited = shapes(st.Acceptance.by_rank([0.5, 0.25]), 7, max_depth=2)
    assert limited.chain.tolist() == [1, 1.5, *[1.75] * 6]
    assert max(tree.max_depth for tree in limited.trees) == 2


def test_the_map_is_what_plans_say() -> None:
    rates = falling_rates(0.55, 0.35)
    latencies = PLACE.latencies((1, 16, 256, 100_000))
    assert list(latencies) == [1, 16, 256]
    candidates = Candidates(rates, Limits(12))
    for cost, batch in itertools.product((1.0, 8.0), latencies):
        latency = with_draft_cost(latencies[batch], cost)
        plan, choice = st.plan(rates, latency, max_budget=12, context=1024), candidates.choice(latency, 1024)
        assert choice.tree == plan.tree
        assert (choice.tau, choice.speedup) == pytest.approx((plan.tau, plan.speedup), rel=1e-12)


def test_the_cost_of_drafts_is_scaled_and_said() -> None:
    latency = PLACE.latency(1)
    twice = with_draft_cost(latency, 2)
    assert (twice.draft_seconds == 2 * latency.draft_seconds).all()
    assert (twice.target_seconds == latency.target_seconds).all()
    assert "draft forwards take 2 times the seconds of this draft" in twice.provenance.assumptions
    assert with_draft_cost(latency, 1) is latency
    for factor in (-1.0, np.nan, np.inf):
        refuses("factor must be", with_draft_cost, latency, factor)
    refuses("unknown GPU", st.Deployment("h1000", "llama-3.1-8b", "eagle3").latencies, (1, 2))


def test_the_simplex_is_every_distribution_on_the_grid() -> None:
    grid = simplex(3, 10)
    assert grid.shape == (66, 3)
    assert len({tuple(row) for row in grid.tolist()}) == 66
    assert np.abs(grid.sum(1) - 1).max() < 1e-12
    assert np.abs(grid * 10 - np.rint(grid * 10)).max() < 1e-12
    assert simplex(1, 5).tolist() == [[1.0]]


def test_acceptance_over_the_triangle() -> None:
    p = np.array([0.5, 0.3, 0.2])
    grid, acceptance, optimum = accepted_over(p, 2, OptimalTransport(), 6)
    assert acceptance.tolist() == optimum.tolist()
    _, below, bound = accepted_over(p, 2, SpecInfer(), 6)
    assert bound.tolist() == optimum.tolist()
    assert (below <= bound + 1e-12).all()
    assert (bound - below).max() > 0.05
    for q, value in zip(grid, optimum, strict=True):
        assert value == st.optimal_acceptance(p, q, 2)
    refuses("k must be at most 2 for SpecHub, got 3", accepted_over, p, 3, SpecHub(), 6)
    found = accepted(p, np.array([0.2, 0.2, 0.6]), 3, ALL)
    assert [one.solver for one in found] == [type(one).__name__ for one in ALL if not isinstance(one, SpecHub)]
    assert all(one.acceptance <= one.optimum + 1e-12 for one in found)
    assert {one.solver: one.rule for one in found}["RRS"] is DrawRule.NO_REPLACEMENT


@pytest.mark.parametrize("source", REPORTS)
def test_a_report_is_recognised_as_its_own_kind_only(source: str) -> None:
    assert engines.recognised_reports(REPORTS[source][0]) == [source]


def test_what_is_no_report_is_not_recognised() -> None:
    for text in ("", "hello", "{}", "[1, 2]"):
        assert engines.recognised_reports(text) == []


# What the apps show


def test_yields_shows_the_best_tree_and_its_newest_node() -> None:
    page, values = opened("yields")
    found, rates = values["found"], values["rates"]
    assert found.best[24] == st.block_efficiency(st.best_tree(rates, 24, max_depth=12), rates)
    assert f"{found.best[24]:.2f} tokens per target call" in page
    assert app("yields").newest_of(found, 24) == 24
    apart = shapes(st.Acceptance.by_rank([0.1, 0.8]), 3)
    assert [app("yields").newest_of(apart, budget) for budget in (1, 2, 3)] == [1, 2, 3]
    late = shapes(st.Acceptance.by_rank([0.3, 0.05, 0.6]), 3)
    assert app("yields").newest_of(late, 3) is None
    framed = spec_of(app("yields").surface_chart(values["surface"], 100, 7))["layer"][-1]
    assert framed["data"]["values"] == [{"budget": 100, "depth": 7}]


def test_break_even_starts_at_batch_8_and_follows_a_click() -> None:
    page, values = opened("break_even")
    plan = values["plan"]
    assert plan.latency.batch == 8
    assert plan.summary.splitlines()[0] in page.replace("&quot;", '"')
    chosen = app("break_even").chosen
    assert chosen({}, "rate") == (8, 0.7)
    assert chosen({"cell": {"batch": [64], "rate": [0.55]}}, "rate") == (64, 0.55)
    assert "512" in app("break_even").notes(512, ())
    assert "256, the largest power of 2" in app("break_even").notes(256, ("one",))


def test_verifiers_compares_all_at_one_place() -> None:
    page, values = opened("verifiers")
    p, q = values["p"], values["q"]
    assert p.tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert f"{SpecInfer().acceptance(p, q, 2):.3f}" in page
    assert [one.solver for one in values["found"]][: len(ALL)] == [type(one).__name__ for one in ALL]
    bars = spec_of(app("verifiers").bars(values["found"]))
    assert bars["layer"][0]["encoding"]["x"]["field"] == "acceptance"
    exact = accepted(p, q, 2, [OptimalTransport()])[0]
    assert "which is the optimum" in app("verifiers").sentence(exact)


def test_own_data_plans_with_what_is_pasted() -> None:
    page, values = opened("own_data")
    planned = values["planned"]
    assert "Read as vllm-metrics, 3.16 tokens per target call" in page
    assert "--speculative-config" in page
    assert app("own_data").lead(planned) in page
    rates, said = app("own_data").of_text(REPORTS["llama.cpp-log"][0])
    assert (rates.table[0, 0], said) == (70 / 87, "Read as llama.cpp-log, 2.92 tokens per target call")
    assert app("own_data").of_text(json.dumps(rates.to_dict()))[0].table.tolist() == rates.table.tolist()
    assert app("own_data").of_text(REPORTS["sglang-metrics"][0], 3)[0].table.shape == (1, 1)
    assert spec_of(app("own_data").rate_chart(falling_rates(0.5, 0.3)))["layer"]
    assert "cannot run this plan" in app("own_data").settings(planned, PLACE, "mlx-lm")


def test_own_data_says_what_it_cannot_use() -> None:
    refuses("it is in none of these formats: vllm-metrics", app("own_data").of_text, "hello")
    refuses("has only totals: give the chain length", app("own_data").of_text, REPORTS["sglang-metrics"][0])
    refuses("the file is not a spectheory record", app("own_data").of_text, '{"kind": "plan"}')


def test_own_data_replays_a_trace(tmp_path: Path) -> None:
    refuses("holds no trace", app("own_data").of_trace, tmp_path)


def test_serving_locks_in_after_the_burst() -> None:
    page, values = opened("serving")
    off, always, limited = values["runs"]
    assert "locked in" in page
    assert app("serving").locked_in(limited, always, 32)
    assert not app("serving").locked_in(always, always, 32)
    assert (off.arrival_seconds[:500] == always.arrival_seconds[:500]).all()
    batch = app("serving").batch_by_second(off)
    assert len(batch) == 90
    assert batch[20:30].max() > batch[:20].max()
    assert app("serving").at_the_end(off) == batch[-10:].mean()
    stable = [[point for point in found.points if point.is_stable] for found in values["settling"]]
    assert [len(points) for points in stable] == [1, 1, 2]
    low, high = (point.batch for point in stable[2])
    assert low < 32 < high
    assert low == pytest.approx(stable[1][0].batch, rel=1e-9)
    off_alone = stable[0][0].batch
    assert off_alone < high < 1.01 * off_alone, "the draft reads the prompts too, whether it drafts or not"
    assert f"{low:.0f} or {high:.0f}" in page
    rules = app("serving").controllers(3, 0.7, 32)
    quiet = app("serving").served(app("serving").arrivals(2, 1), rules, 0.015)
    assert "It is not locked in" in app("serving").sentence(quiet, 32)


# The command, the wheel and the pages


def test_explore_lists_the_apps(run: Run) -> None:
    lines = run("explore").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(APPS)


def test_explore_opens_an_app_with_marimo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    statuses = iter([0, 0, 3])

    def record(command: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        called.append(command[1:])
        return subprocess.CompletedProcess(command, next(statuses))

    monkeypatch.setattr(exploring.subprocess, "run", record)
    assert run("explore", "yields").exit_code == 0
    assert run("explore", "serving", "--edit", "--no-browser", "--port", 2900).exit_code == 0
    assert run("explore", "yields").exit_code == 3
    assert called[0] == ["-m", "marimo", "run", str(APPS["yields"])]
    assert called[1] == ["-m", "marimo", "edit", str(APPS["serving"]), "--headless", "--port", "2900"]


def test_an_interrupt_closes_an_app_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exploring.subprocess, "run", interrupted)
    assert run("explore", "yields").exit_code == 0


@pytest.mark.parametrize("package", ["marimo", "altair"])
def test_explore_without_marimo_says_how_to_install_it(run: Run, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    refused(run("explore", "yields"), f"this command needs {package}: pip install 'spectheory[notebooks]'")


def test_explore_refuses_other_names_and_an_installation_without_apps(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused(run("explore", "yeilds"), "unknown app 'yeilds': did you mean yields?")
    monkeypatch.setattr(exploring, "FOLDERS", (tmp_path / "apps",))
    refused(run("explore"), "this installation of spectheory has no apps")


EXPORT: dict[str, Callable[..., Any]] = runpy.run_path(str(ROOT / "docs" / "export_apps.py"))


def test_an_exported_page_brings_the_packages_and_runs_without_numba(tmp_path: Path) -> None:
    """The Python of a page, in a process that has neither this checkout nor Numba. Pyodide itself is not run."""
    source = EXPORT["standalone"](APPS["yields"].read_text(encoding="utf-8"), EXPORT["archive"]())
    (tmp_path / "page.py").write_text(source, encoding="utf-8")
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import page, spectheory, simulate\n"
        "_, values = page.app.run()\n"
        "print(spectheory.__file__, simulate.__file__, round(float(values['found'].best[24]), 9))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    first, second, tau = done.stdout.split()
    assert not Path(first).is_relative_to(ROOT)
    assert not Path(second).is_relative_to(ROOT)
    assert float(tau) == round(float(opened("yields")[1]["found"].best[24]), 9)


def test_an_exported_page_says_that_it_needs_the_network() -> None:
    page = EXPORT["page_of"](APPS["yields"], b"packed")
    noted = EXPORT["noted"](page)
    assert "This page needs the network when it is opened" in noted.partition("<body>")[2]
    assert 'dependencies = [\\"marimo\\", \\"altair\\", \\"numpy\\"' in noted
    assert "cGFja2Vk" in noted  # base64 of the packages
    index = EXPORT["index"](APPS)
    assert all(f'<a href="{name}.html">' in index for name in APPS)
    assert "Each page needs the network" in index


def test_an_app_without_the_places_to_fill_is_refused() -> None:
    with pytest.raises(ValueError, match="an app must have 'with app.setup:' once"):
        EXPORT["standalone"]("# /// script\nimport marimo\n", b"")
