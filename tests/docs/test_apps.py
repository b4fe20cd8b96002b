"""The apps of `notebooks/apps`: each runs as it opens, and what it shows is what the library computes."""

from __future__ import annotations

import importlib.util
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import spectheory as st
from spectheory import engines
from spectheory.cli import exploring
from spectheory.cli.listing import SAMPLES
from spectheory.yields import falling_rates
from tests.command_line import Run, refused
from tests.engines.examples import REPORTS
from tests.helpers import known, refuses

ROOT = Path(__file__).parents[2]
APPS = exploring.apps()
EXPORT: dict[str, Callable[..., Any]] = runpy.run_path(str(ROOT / "docs" / "export_apps.py"))


@cache
def app(name: str) -> ModuleType:
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


# What the apps compute


def test_falling_rates() -> None:
    table = falling_rates(0.5, 0.5, ranks=3, kept=0.5, depths=2).table
    assert table.tolist() == [[0.5, 0.25, 0.125], [0.25, 0.125, 0.0625]]
    refuses("caught must be a probability between 0 and 1, got 1.5", falling_rates, 0.6, 1.5)
    refuses("ranks must be at least 1, got 0", falling_rates, 0.6, 0.5, ranks=0)


def test_a_report_is_recognised_as_its_own_kind_only() -> None:
    for source, (text, *_) in REPORTS.items():
        assert engines.recognised_reports(text) == [source]
    for text in ("", "hello", "{}", "[1, 2]"):
        assert engines.recognised_reports(text) == []


# What the apps show


def test_yields_shows_the_best_tree_and_its_newest_node() -> None:
    page, values = opened("yields")
    best, trees = values["lines"]["best tree"][24], values["trees"]
    assert best == pytest.approx(st.block_efficiency(trees[24], values["rates"]))
    assert f"{best:.2f} tokens per target call" in page
    assert app("yields").newest_of(trees, 24) == 24
    late = st.best_trees(st.Acceptance.by_rank([0.3, 0.05, 0.6]), 3)
    assert app("yields").newest_of(late, 3) is None
    framed = app("yields").surface_chart(values["surface"], 100, 7).to_dict()["layer"][-1]
    assert framed["data"]["values"] == [{"budget": 100, "depth": 7}]


def test_own_data_plans_with_what_is_pasted() -> None:
    page, values = opened("own_data")
    planned, place = values["planned"], values["place"]
    assert "Read as vllm-metrics, 3.16 tokens per target call" in page
    assert "--speculative-config" in page
    assert planned.summary in page
    assert app("own_data").fitting(place) == planned.batches.tolist()
    rates, said = app("own_data").of_text(REPORTS["llama.cpp-log"][0])
    assert (rates.table[0, 0], said) == (70 / 87, "Read as llama.cpp-log, 2.92 tokens per target call")
    assert app("own_data").of_text(json.dumps(rates.to_dict()))[0].table.tolist() == rates.table.tolist()
    assert "cannot run this plan" in app("own_data").settings(planned, "mlx-lm")
    before, after = ((SAMPLES / f"vllm-{name}.prom").read_text() for name in ("before", "after"))
    rates, said = app("own_data").of_text(after, earlier=before)
    assert (known(rates.trials)[0], said) == (1501, "Read as vllm-metrics, 2.72 tokens per target call")


def test_own_data_says_what_it_cannot_use(tmp_path: Path) -> None:
    refuses("it is in none of these formats: vllm-metrics", app("own_data").of_text, "hello")
    refuses("has only totals: give the chain length", app("own_data").of_text, REPORTS["sglang-metrics"][0])
    refuses("the file is not a spectheory record", app("own_data").of_text, '{"kind": "plan"}')
    refuses("holds no trace", app("own_data").of_trace, tmp_path)


def test_serving_locks_in_after_the_burst() -> None:
    page, values = opened("serving")
    off, always, limited = values["runs"]
    assert "locked in" in page
    assert app("serving").locked_in(limited, always, 32)
    assert not app("serving").locked_in(always, always, 32)
    batch = app("serving").batch_by_second(off)
    assert batch[20:30].max() > batch[:20].max()
    stable = [[point for point in found.points if point.is_stable] for found in values["settling"]]
    low, high = (point.batch for point in stable[2])
    assert low < 32 < high
    assert f"{low:.0f} or {high:.0f}" in page
    rules = app("serving").controllers(3, 0.7, 32)
    quiet = app("serving").served(app("serving").arrivals(2, 1), rules, 0.015)
    assert "It is not locked in" in app("serving").sentence(quiet, 32)


# The command and the pages


def test_explore_lists_the_apps_and_opens_one_with_marimo(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the place of the command, so that a signal to the command ends the server."""
    called: list[list[str]] = []
    monkeypatch.setattr(exploring.os, "execv", lambda program, command: called.append(command[1:]))
    lines = run("explore").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(APPS)
    run("explore", "serving", "--edit", "--no-browser")
    run("explore", "yields")
    assert called[0] == ["-m", "marimo", "edit", str(APPS["serving"]), "--headless"]
    assert called[1] == ["-m", "marimo", "run", str(APPS["yields"])]


def test_explore_refuses(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refused(run("explore", "yeilds"), "unknown app 'yeilds': did you mean yields?")
    monkeypatch.setitem(sys.modules, "altair", None)
    refused(run("explore", "yields"), "this command needs altair: pip install 'spectheory[notebooks]'")
    monkeypatch.setattr(exploring, "FOLDERS", (tmp_path / "apps",))
    refused(run("explore"), "this installation of spectheory has no apps")


def test_an_exported_page_brings_the_packages_and_runs_without_numba(tmp_path: Path) -> None:
    """The Python of a page, in a process that has neither this checkout nor Numba. Pyodide itself is not run."""
    source = EXPORT["standalone"](APPS["yields"].read_text(encoding="utf-8"), EXPORT["archive"]())
    (tmp_path / "page.py").write_text(source, encoding="utf-8")
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import page, spectheory, simulate\n"
        "_, values = page.app.run()\n"
        "print(spectheory.__file__, simulate.__file__, round(float(values['lines']['best tree'][24]), 9))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    first, second, tau = done.stdout.split()
    assert not Path(first).is_relative_to(ROOT)
    assert not Path(second).is_relative_to(ROOT)
    assert float(tau) == round(float(opened("yields")[1]["lines"]["best tree"][24]), 9)
