"""Reports: their numbers add up, they show every kind of plan, and pages are self-contained and escaped."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO

import numpy as np
import pytest
from rich.console import Console, RenderableType
from scipy.stats import binomtest

from spectheory import Acceptance, Latency, Provenance, Tally, Tree, plan
from spectheory.report import figures, tables
from spectheory.report.answer import screen as answer_screen
from spectheory.report.schedules import schedule_page
from spectheory.results.plan_comparison import accepted_distribution, compare
from tests.helpers import refuses

HOSTILE = """<script>alert(1)</script> & [bold]"x' $x_1$ $"""
COUNTED = Acceptance.from_counts(
    np.array([[700, 150, 50, 0], [380, 90, 30, 20], [200, 60, 20, 10]]),
    np.array([1000, 700, 400]),
    Provenance(HOSTILE, HOSTILE, 7, HOSTILE, {HOSTILE: HOSTILE}, target=HOSTILE, settings={HOSTILE: HOSTILE}),
)
FLAT = Latency(
    np.array([1, 2, 8, 64]),
    np.array([64, 512]),
    np.array([[0.010, 0.010, 0.011, 0.02], [0.012, 0.012, 0.013, 0.025]]),
    np.array([[0.001, 0.001, 0.001, 0.002], [0.001, 0.001, 0.001, 0.002]]),
    np.full((2, 4), 0.0004),
    overhead_seconds=0.001,
)
SLOW_DRAFT = Latency.constant(target_seconds=0.01, draft_seconds=0.02)
PLANS = {
    "tree": plan(COUNTED, FLAT, max_budget=24),
    "chain": plan(Acceptance.by_rank([0.9]), FLAT, max_budget=24),
    "off": plan(COUNTED, SLOW_DRAFT, max_budget=4),
}


def tally(histograms: list[list[int]]) -> Tally:
    """One request for each histogram of accepted tokens."""
    table = np.array(histograms)
    emitted = table @ np.arange(1, table.shape[1] + 1)
    return Tally(emitted, table.sum(1), table.sum(0))


CLOCKED = replace(
    tally([[10, 20, 30, 5], [12, 18, 29, 6]]),
    new_tokens=300,
    seconds=2.0,
    target_seconds=1.0,
    draft_seconds=0.5,
    plain_tokens=300,
    plain_seconds=4.0,
    compared=2,
    identical=2,
)


def shown(renderable: RenderableType, width: int = 80) -> str:
    out = StringIO()
    Console(width=width, file=out, color_system=None).print(renderable)
    return out.getvalue()


def well_formed(svg: str) -> ET.Element:
    """The parsed SVG. Every reference in it must point into the same SVG."""
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= ids
    return ET.fromstring(svg)


def test_accepted_distribution_by_hand():
    tree = Tree([-1, 0, 0, 1])
    shares = accepted_distribution(tree, np.array([1, 0.5, 0.25, 0.125]))
    assert shares.tolist() == [0.25, 0.625, 0.125]


def test_a_comparison_by_hand():
    comparison = compare(PLANS["tree"], CLOCKED)
    assert CLOCKED.tau == 319 / 130
    assert comparison.accepted[1].tolist() == [22 / 130, 38 / 130, 59 / 130, 11 / 130]
    assert comparison.cycle_seconds == pytest.approx({"draft": 0.5 / 130, "verify": 1.0 / 130, "overhead": 0.5 / 130})
    assert CLOCKED.speedup == 2.0
    assert "and 6.67 ms measured; without drafts" in comparison.verdict
    assert "and 13.33 ms. That is" in comparison.verdict


@pytest.mark.parametrize(("off_by", "inside"), [(0.0, True), (0.02, True), (0.5, False)])
def test_verdict_says_whether_the_prediction_lies_in_the_interval(off_by: float, inside: bool):
    chain = plan(Acceptance.by_rank([0.8]), FLAT, max_budget=3)
    shares = accepted_distribution(chain.tree, chain.reach)
    rng = np.random.default_rng(0)
    shares[[0, -1]] += off_by * shares[-1], -off_by * shares[-1]
    comparison = compare(chain, tally(rng.multinomial(200, shares, size=30).tolist()))
    assert ("inside" if inside else "outside") in comparison.verdict
    error = comparison.error_percent
    assert f"is {abs(error):.1f}% too {'high' if error > 0 else 'low'}" in comparison.verdict


def test_verdict_without_an_interval():
    single = compare(PLANS["tree"], tally([[1, 2, 3]]))
    assert "in one request, which gives no interval" in single.verdict
    refuses("at least one cycle", compare, PLANS["tree"], tally([[0]]))


@pytest.mark.parametrize("answer", PLANS)
@pytest.mark.parametrize("measured", [CLOCKED, tally([[3, 1]])])
def test_every_plan_is_shown(answer: str, measured: Tally):
    chosen = PLANS[answer]
    assert chosen.answer == answer
    comparison = compare(chosen, measured)
    well_formed(figures.tree_figure(chosen.tree, chosen.reach))
    text = "".join(map(shown, answer_screen(chosen))) + shown(tables.comparison_rows(comparison))
    assert {"off": "Do not speculate", "chain": "Run a chain of", "tree": "Run a tree of"}[answer] in text
    assert f"{chosen.tau:.2f}" in text
    assert comparison.verdict in " ".join(text.split())


def test_acceptance_table_by_hand():
    text = shown(tables.acceptance_rows(COUNTED))
    exact = [binomtest(hits, 1000).proportion_ci(0.95) for hits in (700, 150, 50, 0, 900)]
    halves = [f"±{50 * (limit.high - limit.low):.1f}" for limit in exact]
    assert "1 70.0 15.0 5.0 0.0 90.0 1,000 " + " ".join(halves) in " ".join(text.split())
    assert "3+" in text
    cut = shown(tables.acceptance_rows(COUNTED, max_depth=2, max_rank=3))
    assert "2 of 3 depths and 3 of 4 ranks shown" in cut
    assert "90.0" in cut
    bare = shown(tables.acceptance_rows(Acceptance.by_rank([0.5, 0.25])))
    assert re.search(r"1\+ +50\.0 +25\.0 +75\.0 +-", bare)
    assert "±" not in bare


def test_latency_table_by_hand():
    text = shown(tables.latency_rows(FLAT))
    assert re.search(r"512 +64 +25\.00 +0\.20 +2\.08 +2\.00 +- +2\.00", text)
    assert "1.00 ms per cycle" in text


class Balance(HTMLParser):
    """A parser that fails if tags are not nested correctly."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_self_contained_and_escapes_what_it_is_given():
    stamp = PLANS["tree"].provenance.replace(target=HOSTILE)
    text = schedule_page(replace(PLANS["tree"], provenance=stamp))
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    assert "http" not in re.sub(r'xmlns(:xlink)?="http[^"]*"', "", text)
    assert not re.search(r"<script|<link|<img|<iframe|@import|\bsrc=|url\((?!#)", text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in text
    assert "seed 7" in text
    for svg in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
        well_formed(svg)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("spectheory", "rich matplotlib torch"),
        ("spectheory.report", "rich matplotlib torch"),
        ("spectheory.report.answer", "matplotlib torch"),
        ("spectheory.report.page", "matplotlib.pyplot torch"),
    ],
)
def test_imports_stay_light(module: str, absent: str):
    check = f"import sys, {module}; print([name for name in {absent.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
