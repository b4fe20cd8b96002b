"""What several sources measured of one setting, wrong decisions with their reasons, and rows of edge engines."""

from __future__ import annotations

import pytest

from benchmarks.validation.decision_tables import break_even_table, costly_table
from benchmarks.validation.judged import Judged
from benchmarks.validation.measures import break_evens, decisions, disagreements
from benchmarks.validation.names import draft_of, target_of
from benchmarks.validation.predicting import Seconds
from benchmarks.validation.protocol import Prediction
from benchmarks.validation.rows import Row
from tests.benchmarks.validation.test_validation import row
from tests.known import known

PLAIN = {"shape": "none", "draft": "", "measured_spec_tok_s": "", "acceptance_tau": ""}


def test_settings_of_several_sources_are_compared() -> None:
    """10 and 12.1 ms differ by 21%, so one prediction is off by 10% for one of them. Another batch is not compared."""
    first = row(**PLAIN, source="a", measured_plain_tok_s="100")
    again = row(**PLAIN, source="b", measured_plain_tok_s=str(1 / 0.0121))
    alone = row(**PLAIN, source="c", batch="8", measured_plain_tok_s="700")
    (found,) = disagreements([first, again, alone])
    assert (found.what, [one.source for one in found.rows]) == ("plain", ["a", "b"])
    assert found.spread == pytest.approx(0.21)
    assert found.least_error == pytest.approx(0.1)


def test_speedups_are_compared_over_tau_and_contexts_must_be_near() -> None:
    one = row(source="a", measured_plain_tok_s="", measured_spec_tok_s="", measured_speedup="1.5")
    other = row(
        source="b", acceptance_tau="3", measured_plain_tok_s="", measured_spec_tok_s="", measured_speedup="1.44"
    )
    (found,) = disagreements([one, other])
    assert found.values == pytest.approx((0.6, 0.48))
    far = row(source="b", context="800", measured_plain_tok_s="", measured_spec_tok_s="", measured_speedup="1.44")
    assert disagreements([one, far]) == []


def sweep() -> list[Row]:
    """Measured speedups of 1.5, 1.2 and 0.8 at the batches 1, 4 and 16: break-even at the batch 8."""
    return [
        row(batch=batch, measured_plain_tok_s="", measured_spec_tok_s="", measured_speedup=gain)
        for batch, gain in (("1", "1.5"), ("4", "1.25"), ("16", "0.8"))
    ]


def test_break_even_says_which_speedup_and_tau_would_explain_it() -> None:
    """The prediction is 1.25 at every batch, so tau 2.5 would have to be 2 for break-even at the measured batch."""
    rows, seconds = sweep(), Seconds(1.0, 2.0)
    predictions = [Prediction(one, seconds) for one in rows]
    (found,) = break_evens(predictions, lambda _: seconds)
    assert found.gain == 1.25
    judged = Judged({"a": predictions}, [], {"a": lambda _: seconds})
    (line,) = break_even_table(judged, "a").rows
    assert line[2:7] == ("8 (4 to 16)", "above 4096", "512.00", "1.25", "2.50, 2.00")


def test_costly_decisions_are_listed_with_their_reason() -> None:
    """Speculation is predicted to pay and costs 20%; the other two decisions are right."""
    predictions = [Prediction(one, Seconds(1.0, 2.0)) for one in sweep()]
    assert [round(one.cost, 3) for one in decisions(predictions)] == [0, 0, 0.2]
    (line,) = costly_table("a", predictions).rows
    assert line[3:] == ("0.80", "1.25", "20%", "not known")


def test_nvfp4_of_the_edge_engine_packs_the_output_head() -> None:
    """Its layers are those of NVFP4 elsewhere, its head of 128,256 x 4096 and that of the draft have 4.5 bits."""
    here, there = (target_of("llama-3.1-8b-nvfp4", engine) for engine in ("trt-edge", "vllm"))
    assert here.linear_bytes == there.linear_bytes == 0.5625
    assert there.weight_bytes - here.weight_bytes == pytest.approx(128_256 * 4096 * (2 - 0.5625))
    heads = [draft_of("eagle3-llama-3.1-8b-nvfp4", "llama-3.1-8b-nvfp4", engine) for engine in ("trt-edge", "vllm")]
    assert known(heads[1]).weight_bytes - known(heads[0]).weight_bytes == pytest.approx(32_000 * 4096 * (2 - 0.5625))
