"""The table of engine costs: which row holds for an engine and a version; and kernels that unpack weights."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.hardware.engine_costs import ANY, EngineCosts, chosen, origin, parsed, shipped_rows, split
from tests.helpers import refuses

TABLE = """engines,name,value,spread,source
*,step_seconds,1,0.5,prior: a guess
*,level_seconds,2,0.5,fitted to A; B (docs/validation.md)
vllm trtllm<1.2,step_seconds,3,0.5,fitted to A (docs/validation.md)
sglang<0.4 vllm<0.13,step_seconds,5,0.5,fitted to D (docs/validation.md)
vllm<0.11,step_seconds,4,0.5,fitted to C (docs/validation.md)
trtllm>=1.2,step_seconds,6,0.5,fitted to E (docs/validation.md)
"""


@pytest.mark.parametrize(
    ("engine", "value"),
    [
        ("vllm", 3),
        ("vllm@0.13", 3),
        ("vllm@0.12.5", 5),
        ("vllm@0.11", 5),
        ("vllm@v0.9.1", 4),
        ("vllm@0.11.0rc1", 5),
        ("another", 1),
        ("sglang@0.3.9", 5),
        ("trtllm@1.1", 3),
        ("trtllm", 6),
    ],
)
def test_a_version_selects_its_row(engine: str, value: float) -> None:
    """The last row that holds counts; engines and versions share a row."""
    found = chosen(parsed(TABLE), engine)
    assert found["step_seconds"].value == value
    assert found["level_seconds"].value == 2


def test_unknown_engines_and_versions_are_refused() -> None:
    refuses("unknown engine 'vlm': did you mean vllm", EngineCosts.of, "vlm")
    for version in ("0.0.1", "0.34", "11"):
        refuses("known: name a version of vllm from 0.7 to 0.33", EngineCosts.of, f"vllm@{version}")
    refuses("the version of vllm must be a number such as 0.11, got 'latest'", split, "vllm@latest")
    assert EngineCosts.of("vllm@0.33.1") == EngineCosts.of("vllm")


def test_the_shipped_table() -> None:
    """Any engine has every number; each number has one row for its engines, and a source; there are few."""
    rows = shipped_rows()
    assert {row.name for row in rows if row.engines == ANY} == {field.name for field in fields(EngineCosts)}
    assert len({(row.engines, row.name) for row in rows}) == len(rows) <= 45
    assert all(row.source.startswith(("fitted to ", "prior: ")) for row in rows)
    assert all(0 <= row.value < np.inf and 0 <= row.spread < np.inf for row in rows)
    assert {"vllm", "sglang", "hf", "gpt-fast", "llama.cpp", "trt-edge"} < {name for row in rows for name in row.names}
    assert EngineCosts.of("mlx-lm") == EngineCosts.of(ANY)
    assert EngineCosts.of("vllm@0.9") != EngineCosts.of("vllm@0.11") == EngineCosts.of("vllm")
    assert EngineCosts.of("eagle") == EngineCosts.of("hf") != EngineCosts.of(ANY)


def test_the_origin_of_costs_is_said() -> None:
    """The sources of published measurements, and that an unknown engine has no costs of its own."""
    assert re.search(r"numbers are fitted to \d\d sources \(see engine_costs.csv\)", origin("vllm@0.11"))
    assert "no costs of" not in origin("vllm")
    assert "no costs of mlx-lm are known: those of any engine are used" in origin("mlx-lm@0.31")


def test_what_kernels_that_unpack_weights_reach_is_said() -> None:
    place: dict[str, Any] = {"gpu": "rtx3090", "draft": None, "context": 0, "engine": "llama.cpp"}
    packed, dense = (st.Latency.roofline(target=f"llama-3.1-8b{name}", **place) for name in ("-q4_0", ""))
    said = "the kernels that unpack the weights of llama-3.1-8b-q4_0 were not measured on rtx3090: they reach "
    share = f"{said}{EngineCosts.of('llama.cpp').packed_flops_share:.0%} of"
    assert any(one.startswith(share) for one in packed.provenance.assumptions)
    assert not any("unpack" in one for one in dense.provenance.assumptions)
