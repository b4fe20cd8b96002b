"""Rows and curves of kernels: a row never follows the curve of its own source, and a fit knows those of its rows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.validation.fitting import Problem
from benchmarks.validation.parameters import PRIOR
from benchmarks.validation.predicting import curves_from, curves_of_others, predict, setup_of, shipped
from benchmarks.validation.rows import Row, sources_at
from spectheory import Latency
from spectheory.hardware.engine_costs import EngineCosts
from tests.benchmarks.validation.test_validation import row

SOURCE = "llama.cpp PR 15802"
"""The source of the curve of Q4_0 on an RTX 3090."""
COSTS = EngineCosts.of("llama.cpp")
URL = "https://github.com/ggml-org/llama.cpp/pull/15802"


def forward(tokens: int, **cells: str) -> Row:
    place = {"engine": "llama.cpp", "gpu": "rtx3090", "target": "llama-3.1-8b q4_0", "draft": "", "context": "256"}
    return row(**place, shape=f"forward of {tokens} tokens", acceptance_tau="", measured_spec_tok_s="", **cells)


def test_a_row_follows_the_curves_of_other_sources_and_is_then_what_the_library_computes() -> None:
    other = forward(8)
    place = {"gpu": "rtx3090", "target": "llama-3.1-8b-q4_0", "engine": "llama.cpp"}
    latency = Latency.roofline(**place, draft=None, context=256)
    assert shipped(other).plain == pytest.approx(latency.target(8, 256), rel=1e-12)
    assert SOURCE in {curve.source for curve in setup_of(other).curves}
    assert shipped(other) != predict(other, COSTS, curves=())


@pytest.mark.parametrize("cells", [{"source": SOURCE}, {"source": "a copy of it", "url": URL}])
def test_a_row_never_follows_the_curve_of_its_own_source_or_address(cells: dict[str, str]) -> None:
    own = forward(8, **cells)
    assert sources_at(URL) == {SOURCE}
    assert SOURCE not in {curve.source for curve in curves_of_others(own)}
    assert shipped(own) == predict(own, COSTS, curves=())


def test_a_fit_follows_the_curves_of_the_sources_of_its_rows_only() -> None:
    own, other = forward(8, source=SOURCE), forward(8)
    assert [curve.source for curve in curves_from("llama.cpp", {SOURCE})] == [SOURCE]
    for rows, known in (([own, other], curves_from("llama.cpp", {SOURCE})), ([other], ())):
        problem = Problem.of(rows)
        expected = [predict(one, PRIOR.of_row(one), known).plain for one in rows]
        found = problem.errors(np.zeros(len(problem.which)), range(len(rows)))
        measured = [one.plain_seconds or 0.0 for one in rows]
        assert found.tolist() == pytest.approx([np.log(a / b) for a, b in zip(measured, expected, strict=True)])
