"""The table of engine costs: which row holds for an engine and a version, and what a wrong table is told."""

from __future__ import annotations

from dataclasses import fields

import pytest

from spectheory.hardware.engine_costs import ANY, EngineCosts, chosen, origin, parsed, shipped_rows, split
from spectheory.hardware.placement import usual_parallel
from tests.refusals import refuses

TABLE = """engine,versions,name,value,spread,source
*,,step_seconds,1,0.5,prior: a guess
*,,level_seconds,2,0.5,fitted to A; B (docs/validation.md)
vllm,,step_seconds,3,0.5,fitted to A (docs/validation.md)
vllm,"<0.11",step_seconds,4,0.5,fitted to C (docs/validation.md)
vllm,">=0.11,<0.13",step_seconds,5,0.5,fitted to D (docs/validation.md)
"""


@pytest.mark.parametrize(
    ("engine", "value"),
    [
        ("vllm", 3),
        ("vllm@0.13", 3),
        ("vllm@0.13.2", 3),
        ("vllm@0.12.5", 5),
        ("vllm@0.11", 5),
        ("vllm@v0.9.1", 4),
        ("vllm@0.11.0rc1", 5),
        ("another", 1),
        ("sglang@0.5", 1),
    ],
)
def test_a_version_selects_its_row(engine: str, value: float) -> None:
    """A row for some versions replaces the row for all, and a row of the engine the one of any engine."""
    found = chosen(parsed(TABLE), engine)
    assert found["step_seconds"].value == value
    assert found["level_seconds"].value == 2


def test_the_newest_version_is_above_every_limit() -> None:
    rows = parsed(TABLE + 'vllm,">=99.1",step_seconds,6,0.5,prior: a guess\n')
    assert chosen(rows, "vllm")["step_seconds"].value == 6
    assert chosen(rows, "vllm@0.14")["step_seconds"].value == 3


@pytest.mark.parametrize("engine", ["", "@0.1", None, 3])
def test_an_engine_needs_a_name(engine: str) -> None:
    refuses("engine must be a name such as vllm or vllm@0.11, got", EngineCosts.of, engine)


def test_a_version_needs_a_number() -> None:
    refuses("the version of vllm must be a number such as 0.11, got 'latest'", split, "vllm@latest")


HEADER = "engine,versions,name,value,spread,source\n"


def test_a_wrong_table_is_named_with_its_line_and_repair() -> None:
    refuses("must have the columns engine, versions, name, value, spread, source: add", parsed, "engine,name,value\n")
    refuses("line 2: name must be one of .*, got 'speed'", parsed, HEADER + "vllm,,speed,1,1,x\n")
    refuses("line 2: versions must be like", parsed, HEADER + "vllm,~=1,step_seconds,1,1,x\n")
    refuses("line 2: value must be a finite number", parsed, HEADER + "vllm,,step_seconds,fast,1,x\n")
    refuses(
        "line 2: spread must be a finite number of at least 0, got '-1'", parsed, HEADER + "vllm,,step_seconds,1,-1,x\n"
    )


def test_the_shipped_table() -> None:
    """Any engine has every number; each number has one row for each engine and range of versions, and a source."""
    rows = shipped_rows()
    assert {row.name for row in rows if row.engine == ANY} == {field.name for field in fields(EngineCosts)}
    assert len({(row.engine, row.versions, row.name) for row in rows}) == len(rows)
    assert all(row.source.startswith(("fitted to ", "prior: ")) for row in rows)
    assert {"vllm", "sglang", "hf", "gpt-fast", "llama.cpp", "trt-edge"} < {row.engine for row in rows}
    assert EngineCosts.of("mlx-lm") == EngineCosts.of(ANY)
    assert EngineCosts.of("vllm@0.9") != EngineCosts.of("vllm@0.11") == EngineCosts.of("vllm")
    assert EngineCosts.of("eagle") == EngineCosts.of("hf") != EngineCosts.of(ANY)


def test_the_origin_of_costs_is_said() -> None:
    """The sources of published measurements, and that an unknown engine has no costs of its own."""
    assert "ML.ENERGY leaderboard v3" in origin("vllm@0.11")
    assert "no costs of" not in origin("vllm")
    assert "no costs of mlx-lm are known: those of any engine are used" in origin("mlx-lm@0.31")


def test_usual_ways_to_share_a_model() -> None:
    engines = ("vllm", "sglang@0.5", "trtllm", "hf", "llama.cpp@b100")
    assert [usual_parallel(engine) for engine in engines] == ["tensor"] * 3 + ["layers"] * 2
