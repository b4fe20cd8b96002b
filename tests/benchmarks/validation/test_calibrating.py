"""Deployments that are calibrated on their own rows: the rows that are chosen, the costs, and what is judged after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.validation.__main__ import judge
from benchmarks.validation.calibrating import Chosen, calibrated
from benchmarks.validation.errors import predicted
from benchmarks.validation.page import document
from benchmarks.validation.predicting import predict, shipped
from benchmarks.validation.rows import Row, parse
from spectheory import InputError, calibrate
from spectheory.engines import Run
from spectheory.hardware.engine_costs import EngineCosts
from tests.benchmarks.validation.test_validation import GOOD, write
from tests.helpers import known

SHIPPED = EngineCosts.of("vllm")
STARTED = replace(SHIPPED, spec_step_seconds=0.25e-3)
"""Costs whose speculative step is the same after every fit of the table."""
TRUE = replace(SHIPPED, step_seconds=2e-3, sequence_seconds=50e-6, spec_step_seconds=1.5e-3, level_seconds=5e-4)
"""The costs with which the rows are computed."""


def rows(batches: tuple[int, ...], **cells: str) -> list[Row]:
    return parse([GOOD | {"batch": str(batch)} | cells for batch in batches])


def plain(*batches: int) -> list[Row]:
    """Plain rows with the rates that `TRUE` gives."""
    made = rows(batches, shape="none", draft="", measured_spec_tok_s="")
    return [replace(row, plain_rate=row.batch / predict(row, TRUE).plain) for row in made]


def speculative(*batches: int) -> list[Row]:
    """Rows that state a speedup only, the one that `TRUE` gives."""
    made = rows(batches)
    return [
        replace(row, plain_rate=None, spec_rate=None, speedup=predict(row, TRUE).gain(row.tau), number=100 + row.number)
        for row in made
    ]


def test_rows_are_chosen_by_their_batch() -> None:
    """Plain rows of the smallest batch and of the one nearest to 64; a speculative row of the one nearest to 16."""
    machine, deployment = plain(4, 8, 48, 256), speculative(1, 12, 64)
    chosen = Chosen.of([*machine, *deployment], deployment)
    assert [row.batch for row in chosen.plain] == [4, 48]
    assert chosen.spec is deployment[1]


def test_rows_of_the_calibration_are_reproduced_and_not_judged_and_others_become_better() -> None:
    machine = plain(8, 32, 64)
    found, refused = calibrated(machine, lambda row: SHIPPED)
    assert refused == []
    assert [one.plain_used for one in found] == [True, False, True]
    assert [one.plain_error for one in found[::2]] == [None, None]
    assert not any(one.beyond for one in found)
    judged = found[1].plain_error
    measured = known(found[1].row.plain_seconds)
    assert abs(known(judged)) < 0.3 * abs(measured / shipped(found[1].row).plain - 1)


def test_the_costs_are_those_of_calibrate_on_the_same_runs() -> None:
    one, many = plain(1, 64)
    runs = [Run.from_throughput(row.plain_rate or 0, batch=row.batch, context=512) for row in (one, many)]
    runs[1] = replace(runs[1], prefill_tokens=64 * 300 / 424)
    by_hand = calibrate(runs, gpu="h100_sxm", target="llama-3.1-8b", engine="vllm").costs
    assert Chosen((one, many), None).costs(SHIPPED) == by_hand


def test_a_speedup_alone_moves_the_costs_of_a_cycle() -> None:
    """One speedup at batch 16 improves the one at batch 8 and leaves the plain steps within 2% of where they were."""
    deployment = speculative(8, 16)
    found, _ = calibrated(deployment, lambda row: STARTED)
    assert [one.gain_used for one in found] == [False, True]
    judged, used = found
    (before, _), _ = predicted(deployment, lambda row: predict(row, STARTED))
    assert abs(known(judged.gain_error)) < 0.7 * abs(known(before.gain_error))
    assert used.seconds.gain(used.row.tau) == pytest.approx(used.row.speedup, rel=0.05)
    for one in found:
        assert one.seconds.plain == pytest.approx(shipped(one.row).plain, rel=0.02)


def test_runs_that_calibrate_refuses_are_listed_on_the_page(tmp_path: Path) -> None:
    fast = GOOD | {"shape": "none", "draft": "", "measured_spec_tok_s": "", "measured_plain_tok_s": "900"}
    judged = judge(write(tmp_path / "rows.csv", fast, GOOD | {"source": "another"}))
    (refused,) = judged.refused
    assert "900 tokens per second at batch 1 are more than 1 x h100_sxm" in refused.reason
    assert [one.row.source for one in judged.columns["library as shipped, calibrated"]] == ["another"]
    assert refused.reason in document(judged)
    with pytest.raises(InputError, match="900 tokens per second"):
        Chosen.of([one.row for one in judged.columns["library as shipped"]][:1], []).costs(SHIPPED)
