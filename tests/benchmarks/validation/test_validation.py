"""The judge of the time model: it reads what is right, names what is wrong, and computes the errors it prints."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.validation.__main__ import PUBLISHED, judge, main
from benchmarks.validation.decisions import break_evens, loss
from benchmarks.validation.errors import (
    Errors,
    Prediction,
    band,
    class_errors,
    class_of,
    classes_text,
    coverage,
    left_out,
    predicted,
    worst,
)
from benchmarks.validation.fitting import fit
from benchmarks.validation.parameters import FREE, PRIOR, PRIORS, Parameters, parameters_of
from benchmarks.validation.predicting import Seconds, predict, shipped
from benchmarks.validation.rows import COLUMNS, Row, parse, read
from spectheory import Latency, Tree
from spectheory.hardware.deployment_class import LogErrors, classes_parsed
from spectheory.hardware.engine_costs import parsed
from tests.helpers import known, refuses

GOOD = {
    "group": "engine",
    "source": "a source",
    "engine": "vllm",
    "gpu": "h100_sxm",
    "gpus": "1",
    "target": "llama-3.1-8b",
    "draft": "eagle3-llama-3.1-8b",
    "shape": "chain 3",
    "batch": "1",
    "context": "512",
    "acceptance_tau": "2.5",
    "measured_plain_tok_s": "140",
    "measured_spec_tok_s": "280",
}


def row(**cells: str) -> Row:
    return parse([GOOD | cells])[0]


def by(parameters: Parameters, one: Row) -> Seconds:
    """The seconds of a row with the costs of its engine."""
    return predict(one, parameters.of(one.engine_version))


def write(path: Path, *lines: dict[str, str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        out.writerows([line.get(name, "") for name in COLUMNS] for line in lines)
    return path


def test_published_rows_are_all_predicted_but_those_of_faults() -> None:
    """Seven rows have an offset of the host: they judge nothing, and the reason is said."""
    found, without = predicted(read(PUBLISHED), shipped)
    assert (len(found), len(without)) == (340, 7)
    assert {one.reason[:28] for one in without} == {"has an offset of the host: 2"}
    assert {one.row.fault for one in found} == {""}


def test_seconds_of_the_library_are_those_of_its_roofline() -> None:
    """At batch 4 and a chain of 3, for a pair that the library ships, on one GPU and split by layers."""
    for engine, gpus in (("sglang", 1), ("hf", 2)):
        one = row(batch="4", engine=engine, gpus=str(gpus))
        models: dict[str, Any] = {"target": "llama-3.1-8b", "draft": "eagle3-llama-3.1-8b"}
        latency = Latency.roofline(gpu="h100_sxm", **models, batch=4, context=512, gpus=gpus, engine=engine)
        assert shipped(one).plain == pytest.approx(latency.plain(512), rel=1e-12)
        assert shipped(one).cycle == pytest.approx(latency.cycle(Tree.chain(3), 512), rel=1e-12)


def test_rows_state_the_share_that_drafts_and_rates_that_count_prompts() -> None:
    """A plain step of 4 / 300 s contains the prompts of 4 tokens, and a cycle those of 2.5 times as many."""
    one, models = row(draft="ngram", note="drafts in 0.4 of steps"), {"target": "llama-3.1-8b", "draft": "ngram"}
    latency = Latency.roofline(gpu="h100_sxm", **models, context=512, drafted_share=0.4)
    assert shipped(one).cycle == pytest.approx(latency.cycle(Tree.chain(3), 512), rel=1e-12)
    alone, counted = shipped(row(batch="4")), row(batch="4", note="throughput with prefill", measured_plain_tok_s="300")
    prompts = 4 / 300 - alone.plain
    assert prompts > 0
    assert shipped(counted).gain(2.5) == pytest.approx(2.5 * (4 / 300) / (known(alone.cycle) + 2.5 * prompts))


def test_fitted_costs_are_written_with_their_sources(tmp_path: Path) -> None:
    """A table fitted to two rows has the rows of the priors."""
    table = tmp_path / "costs.csv"
    file = write(tmp_path / "rows.csv", GOOD, GOOD | {"batch": "32", "measured_plain_tok_s": "3000"})
    assert main([str(file), "--fit-to", str(table)]) == 0
    rows = parsed(table.read_text())
    assert [(row.engines, row.name) for row in rows] == [(row.engines, row.name) for row in PRIORS]
    assert any(row.source == "fitted to a source (docs/validation.md)" for row in rows)
    assert all(row.source.startswith(("fitted to ", "prior: ")) for row in rows)


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        ({"shape": "bush 3"}, "shape must be"),
        ({"shape": "tree depth 6 nodes 5"}, "depth at most nodes"),
        ({"batch": "two"}, "batch must be a finite number"),
        ({"acceptance_tau": "5"}, "acceptance_tau must be between 1 and drafted tokens . 1 = 4"),
        ({"measured_plain_tok_s": "nan"}, "measured_plain_tok_s must be a finite number"),
        ({"measured_plain_tok_s": "", "measured_spec_tok_s": ""}, "nothing was measured"),
        ({"measured_speedup": "3"}, "contradicts the two rates"),
        ({"target": ""}, "target must not be empty"),
    ],
)
def test_bad_line_is_named_with_its_number_and_repair(cells: dict[str, str], named: str) -> None:
    refuses(f"line 3 of .*{named}", parse, [GOOD, GOOD | cells])


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        ({"gpu": "abacus"}, "abacus"),
        ({"target": "nobody-9b"}, "nobody-9b"),
        ({"draft": "nobody-1b"}, "nobody-1b"),
        ({"draft": "eagle3-nobody"}, None),
        ({"target": "deepseek-v3", "draft": "mtp-deepseek-v3", "gpus": "8", "note": "TP 8"}, None),
        ({"draft": "dflash-llama-3.1-8b"}, None),
    ],
)
def test_unknown_names_are_listed_and_never_stop_the_judge(tmp_path: Path, cells: dict[str, str], named: str) -> None:
    judged = judge(write(tmp_path / "rows.csv", GOOD, GOOD | cells))
    assert [one.number for one in judged.unread] == [3] * (named is not None)
    assert all(named in one.reason for one in judged.unread)


def test_errors_are_of_rates() -> None:
    """A time predicted three times too short is an error of +200%, and a speedup predicted half as high of -50%."""
    one = row(measured_plain_tok_s="100", measured_spec_tok_s="250")
    found = Prediction(one, Seconds(plain=0.01 / 3, cycle=0.01 / 3 * 2))
    assert found.plain_error == pytest.approx(2.0)
    assert found.gain_error == pytest.approx(1.25 / 2.5 - 1)
    assert Errors.of([0.1, None, -0.4, 0.2]) == Errors(3, 0.2, 0.1, 0.4)
    assert worst([found], 1)[0][1] == "plain"


def test_left_out_sources_are_fitted_without_themselves() -> None:
    """The fit for each source sees the rows of the others only, also if a source has another name at its address."""
    rows = [replace(row(), source=name) for name in ("a", "b", "b")]
    known = [*rows, replace(row(), source="a again", url="at a")]
    rows[0] = replace(rows[0], url="at a")
    assert len({replace(row(), url=f"https://github.com/{one}").project for one in ("Sgl-Project/a", "lm-sys/b")}) == 1
    seen: list[list[str]] = []

    def record(known: Sequence[Row], start: Parameters | None) -> Parameters:
        assert start is PRIOR
        seen.append([one.source for one in known])
        return PRIOR

    assert left_out(rows, known, record, PRIOR, lambda one: one.source) == {"a": PRIOR, "b": PRIOR}
    assert seen == [["b", "b"], ["a", "a again"]]


def test_fit_recovers_a_planted_overhead() -> None:
    """Plain rates that the model itself computes with another step overhead: the fit moves to it.

    Twelve sources that agree move it further than one source with twelve rows, which may be wrong as a whole.
    """
    moved = [0.5 if (PRIORS[place].engines, PRIORS[place].name) == ("*", "step_seconds") else 0.0 for place in FREE]
    truth = parameters_of(moved)
    plain = [row(shape="none", draft="", measured_spec_tok_s="", target=f"qwen3-{size}") for size in ("0.6b", "8b")]
    rows = [replace(one, plain_rate=one.batch / by(truth, one).plain) for one in plain]
    many = [replace(one, source=f"source {number}") for number in range(12) for one in rows]
    agreed, alone = fit(many), fit(rows * 12)
    for one, exact in zip(rows, (by(truth, one).plain for one in rows), strict=True):
        before, by_many, by_one = (abs(np.log(by(found, one).plain / exact)) for found in (PRIOR, agreed, alone))
        assert by_many < min(0.1 * before, by_one)
        assert by_one < before


def test_placements_and_classes() -> None:
    experts = row(target="qwen3-30b-a3b", gpus="8", note="TP 1 EP 8")
    assert experts.parallel == "expert"
    assert row(gpus="4", note="layers split over 4 GPUs").parallel == "layers"
    assert row(gpus="2").parallel == "tensor"
    assert row(gpus="2", engine="llama.cpp").parallel == "layers"
    assert row(gpus="2", engine="hf", note="TP 2").parallel == "tensor"
    assert class_of(experts) == "several GPUs"
    assert class_of(row(target="llama-3.1-8b q4_0")) == "4-bit kernels"
    assert class_of(row(shape="none", draft="", batch="8", measured_spec_tok_s="")) == "plain steps in serving"


def test_the_tables_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = write(tmp_path / "rows.csv", GOOD, GOOD | {"gpu": "abacus"}), tmp_path / "page.md"
    assert main([str(file), "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    for words in ("1 rows of 1 sources in `rows.csv`", "dense 16-bit, one request", "abacus"):
        assert words in text
    assert "dense 16-bit, one request" in capsys.readouterr().out


# The table of the errors of each class of deployments

MEASURED = {"measured_plain_tok_s": "100", "measured_spec_tok_s": "", "measured_speedup": "1.5"}
PLAIN = {"measured_speedup": "", "acceptance_tau": ""}


def off_by(one: Row, gain: float, plain: float = 1.0) -> Prediction:
    """A prediction whose speedup is `gain` times the measured one, and whose plain rate is `plain` times it."""
    assert one.plain_seconds is not None
    seconds = one.plain_seconds / plain
    return Prediction(one, Seconds(seconds, one.tau * seconds / (1.5 * gain)))


FOUND = [off_by(row(**MEASURED | {"source": source}), gain) for source, gain in (("a", 2.0), ("a", 0.5), ("b", 4.0))]


def test_a_band_gives_each_source_one_vote_and_few_sources_the_errors_of_all_classes() -> None:
    """Of three sources, 80% of the votes reach the largest error, however many rows the others have."""
    thrice = [
        off_by(row(**MEASURED | {"source": source}), gain) for source, gain in zip("abc", (2.0, 3.0, 4.0), strict=True)
    ]
    again = [off_by(row(**MEASURED | {"source": "a"}), 2.0) for _ in range(9)]
    assert band([*thrice, *again], thrice) == pytest.approx(np.log(4))
    ten = [off_by(row(**MEASURED | {"source": str(n)}), 1 + n / 10) for n in range(1, 10)]
    assert band(ten, ten) == pytest.approx(np.log(1.8)), "0.8 of nine sources: the eighth"
    few = [off_by(row(**MEASURED | {"source": "d", "gpus": "4"}), 1.01)]
    one, several, _ = class_errors([*ten, *few])
    assert (one.name, one.engines) == ("dense 16-bit, one request", ("vllm",))
    assert one.speedup == LogErrors(0.5878, 9, 9, (1,))
    assert several.speedup == LogErrors(0.5306, 1, 1, (1,)), "one source: the eighth of all ten"
    assert coverage(ten)["dense 16-bit, one request"] == {str(n): [n < 8] for n in range(1, 10)}


def test_decisions_and_break_evens_are_counted() -> None:
    """A speedup of 1.5 that is predicted as 0.9 loses a third. A sweep crosses 1 between its last two batch sizes."""
    assert [loss(off_by(row(**MEASURED), gain)) for gain in (0.6, 0.7)] == [pytest.approx(1 / 3), 0]
    slow = row(**MEASURED | {"measured_speedup": "0.8"})
    assert [loss(off_by(slow, gain)) for gain in (0.6, 0.7)] == [0, pytest.approx(0.2)]
    gains = {2: ("2", 1.0), 8: ("1.25", 0.9), 32: ("0.8", 0.5)}
    sweep = [off_by(row(**MEASURED | {"batch": str(n), "measured_speedup": g}), p) for n, (g, p) in gains.items()]
    elsewhere = [off_by(row(**MEASURED | {"source": name, "batch": "4"}), 1.2) for name in "abc"]
    other_text = [replace(one, row=replace(one.row, note="another text")) for one in sweep]
    assert len(break_evens([*sweep, *other_text, *elsewhere])) == 2
    (found,) = break_evens([*sweep, *elsewhere])
    assert found.measured == (pytest.approx(16),)
    slope = np.log(1.35 / 0.75) / np.log(4)
    ends = [8 * np.exp(np.log(1.35 / by) / slope) for by in (1.2, 1 / 1.2)]
    assert found.ranges == (pytest.approx(ends, rel=1e-3),)
    assert (found.held, found.span) == (ends[0] <= 16 <= ends[1], pytest.approx(ends[1] / ends[0], rel=1e-3))


def test_the_table_is_read_as_it_was_written() -> None:
    text = classes_text(FOUND, FOUND[:1])
    assert "3 rows of 2 sources in " in json.loads(text)["judged"]
    every = [*class_errors(FOUND), *class_errors(FOUND[:1], calibrated=True)]
    assert classes_parsed(text) == {(one.name, one.calibrated): one for one in every}
