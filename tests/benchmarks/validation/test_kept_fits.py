"""Fits: they end at one minimum whatever they start from, and a file of them is taken up again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.validation.fitting import Problem, fit, kept_in
from benchmarks.validation.parameters import PRIOR, Parameters, highest, names, parameters_of
from benchmarks.validation.predicting import predict
from benchmarks.validation.rows import Row
from tests.benchmarks.validation.test_validation import row


def rows() -> list[Row]:
    """Plain rows of vLLM whose rates are those of shares at their largest, and of a fifth of the time of a sequence."""
    which = names(["vllm"])
    logarithms = np.where(np.isfinite(highest(which)), highest(which), 0.0)
    logarithms[which.index(("vllm", "sequence_seconds"))] = np.log(0.2)
    truth = parameters_of(logarithms, which)
    plain = [
        row(shape="none", draft="", measured_spec_tok_s="", batch=batch, source=batch) for batch in ("1", "8", "64")
    ]
    return [replace(one, plain_rate=one.batch / predict(one, truth.of_row(one)).plain) for one in plain]


def test_a_fit_ends_at_one_minimum_and_no_share_is_above_one() -> None:
    """From the priors, and from parameters far from them; the rates ask for shares of 1 and more."""
    known = [replace(one, plain_rate=1.2 * (one.plain_rate or 0)) for one in rows()]
    far = parameters_of(np.full(len(names(["vllm"])), -0.3), names(["vllm"]))
    one, other = fit(known), fit(known, far)
    for name, value in vars(one.of("vllm")).items():
        assert getattr(other.of("vllm"), name) == pytest.approx(value, rel=0.01), name
        assert value <= 1 or not name.endswith("_share")


def test_kept_fits_are_not_computed_again_and_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, known = kept_in(tmp_path / "fits.jsonl"), rows()
    first = [kept(known, None), kept(known[:2], PRIOR)]
    assert first[0] == fit(known)

    def refuse(self: Problem, start: Parameters | None = None) -> Parameters:
        raise AssertionError("computed again")

    monkeypatch.setattr(Problem, "fit", refuse)
    assert [kept(known, None), kept(known[:2], PRIOR)] == first
    for other in (known[1:], [replace(known[0], plain_rate=1.0), *known[1:]]):
        with pytest.raises(AssertionError, match="computed again"):
            kept(other, None)
