"""The table of the errors of each class of deployments, as the validation writes it."""

from __future__ import annotations

import json

from benchmarks.validation.errors import Prediction, class_errors, classes_text
from benchmarks.validation.predicting import Seconds
from benchmarks.validation.rows import Row, parse
from spectheory.hardware.deployment_class import ClassErrors, LogErrors, classes_parsed
from tests.benchmarks.validation.test_validation import GOOD


def row(**cells: str) -> Row:
    """A row whose measured plain rate and speedup are 100 tokens a second and 1.5."""
    measured = {"measured_plain_tok_s": "100", "measured_spec_tok_s": "", "measured_speedup": "1.5"}
    (found,) = parse([GOOD | measured | cells])
    return found


def off_by(one: Row, gain: float, plain: float = 1.0) -> Prediction:
    """A prediction whose speedup is `gain` times the measured one, and whose plain rate is `plain` times it."""
    assert one.plain_seconds is not None
    seconds = one.plain_seconds / plain
    return Prediction(one, Seconds(seconds, one.tau * seconds / (1.5 * gain)))


FOUND = [off_by(row(source=source), gain) for source, gain in (("a", 2.0), ("a", 0.5), ("b", 4.0))]
PLAIN = row(source="c", batch="8", gpus="4", shape="none", acceptance_tau="", measured_speedup="", engine="sglang")
FORWARD = row(source="d", gpus="4", shape="forward of 8 tokens", acceptance_tau="", measured_speedup="")


def test_errors_are_sizes_of_logarithms_by_class() -> None:
    one, several = class_errors([*FOUND, off_by(PLAIN, 1.0, 0.5), off_by(FORWARD, 1.0, 0.5)])
    assert one.name == "dense 16-bit, one request"
    assert one.engines == ("vllm",)
    assert one.speedup == LogErrors(median=0.6931, most=1.109, rows=3, sources=2)
    assert one.plain == LogErrors(0.0, 0.0, 3, 2)
    assert several == ClassErrors("several GPUs", None, LogErrors(0.6931, 0.6931, 1, 1), ("sglang",))


def test_the_table_is_read_as_it_was_written() -> None:
    text = classes_text(FOUND, FOUND[:1])
    assert "3 rows of 2 sources in " in json.loads(text)["judged"]
    (absent,), (calibrated,) = class_errors(FOUND), class_errors(FOUND[:1], calibrated=True)
    assert classes_parsed(text) == {(absent.name, False): absent, (absent.name, True): calibrated}
