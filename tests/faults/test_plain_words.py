"""Pages name the shipped pair instead of folders of a machine; a wrong prediction is called wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from reference.models import SHIPPED
from spectheory.core.provenance import model_name
from spectheory.report.page import sources_html
from spectheory.results.plan_comparison import compare, differing_models

PLAN = st.plan(st.Acceptance.by_rank([0.6]), st.Latency.constant(draft_seconds=0.1), max_budget=2)


@pytest.mark.parametrize("role", ["target", "draft"])
def test_the_shipped_models_have_names(role: str) -> None:
    for folder in (SHIPPED / role, Path("/elsewhere/site-packages/reference/pair") / role):
        assert model_name(str(folder)) == f"shipped {role}"


@pytest.mark.parametrize("name", ["", "target", "pair/target", "a/pair/target", "/reference/pair/other", "meta/x"])
def test_other_models_keep_their_names(name: str) -> None:
    assert model_name(name) == name


def test_a_page_has_no_folder_of_the_machine() -> None:
    stamp = st.Provenance("spectheory trace", target=str(SHIPPED / "target"), draft=str(SHIPPED / "draft"))
    page = sources_html({"acceptance": stamp})
    assert "target: shipped target<br>draft: shipped draft" in page
    assert str(SHIPPED) not in page
    other = differing_models(stamp, st.Provenance("x", target="mine", draft=str(SHIPPED / "draft")))
    assert other == ("target shipped target", "target mine")


def counted(accepted: list[int]) -> st.Tally:
    """A tally of ten cycles for each request, in which `accepted` cycles accept two tokens and the others none."""
    two = np.array(accepted)
    return st.Tally(10 + 2 * two, np.full(len(two), 10), np.array([10 * len(two) - two.sum(), 0, two.sum()]))


@pytest.mark.parametrize(("accepted", "side"), [([0, 0, 0, 1], "high"), ([10, 10, 10, 9], "low")])
def test_a_prediction_that_the_measurement_excludes_is_wrong(accepted: list[int], side: str) -> None:
    found = compare(PLAN, counted(accepted))
    theory = replace(found.theory, tau_interval=(found.theory.tau - 0.1, found.theory.tau + 0.1))
    said = replace(found, theory=theory).verdict
    assert said.startswith(f"The prediction was wrong, too {side}: tau was predicted as {theory.tau:.3f}, from ")
    assert "The two 95% intervals exclude each other" in said
    wide = replace(found, theory=replace(theory, tau_interval=(1.0, 3.0))).verdict
    assert wide.startswith(f"The predicted tau of {theory.tau:.3f} lies outside the measured 95% interval")
