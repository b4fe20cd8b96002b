"""--device and --dtype: every command applies them to the models, and records hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from tests.cli.test_cli import Run, pair, records, run

__all__ = ["pair", "run"]

FEW = ("--prompt-tokens", 16, "--new-tokens", 40)
COARSE = ("--dtype", "bfloat16")
WRITTEN: dict[str, Any] = {"device": "cpu", "dtype": "torch.bfloat16"}


def test_records_say_how_the_models_ran(run: Run, pair: list[object]) -> None:
    trace = ("trace", *pair, *FEW, "--count", 5, "--out", "trace")
    assert run(*trace, *COARSE)[0] == 0
    profile = ("profile", *pair[:4], *COARSE, "--largest", 2, "--contexts", "8", "--rounds", 2, "--out", "latency.json")
    assert run(*profile)[0] == 0
    found = [json.loads(Path("trace/provenance.json").read_text())]
    found += [st.Acceptance.load("trace/acceptance.json").provenance.facts]
    found += [st.Latency.load("latency.json").provenance.facts]
    records(run)
    one = ("--count", 1, "--skip", 0, "--plan", "plan.json", "--out", "measured.json")
    assert run("decode", *pair, *FEW, *COARSE, *one)[0] == 0
    found += [st.Tally.load("measured.json").provenance.facts]
    for details in found:
        assert {name: details[name] for name in WRITTEN} == WRITTEN
    status, _, err = run(*trace)
    assert status == 2
    assert "holds a trace with another dtype (torch.bfloat16, here torch.float32)" in err


COMMANDS = [
    ("trace", "--out", "out"),
    ("profile", "--out", "out.json"),
    ("decode", "--plan", "plan.json"),
    ("compare", "--out", "out"),
    ("demo", "--out", "out"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_device_that_is_not_there_is_refused(run: Run, command: tuple[str, ...]) -> None:
    records(run)
    before = sorted(Path().rglob("*"))
    status, out, err = run(*command, "--device", "cuda:99")
    assert (status, out) == (2, "")
    assert err.startswith("error: device must be one of this machine, such as cpu, got 'cuda:99': ")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before
