"""Where and how the models of a command run: --device, --dtype and --attention reach them and are written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spectheory as st
from tests.test_cli import Run, pair, records, run

__all__ = ["pair", "run"]

FEW = ("--prompt-tokens", 16, "--new-tokens", 40)
COARSE = ("--dtype", "bfloat16", "--attention", "eager")
WRITTEN = {"device": "cpu", "dtype": "torch.bfloat16", "attention": "eager"}


def test_records_say_how_the_models_ran(run: Run, pair: list[object]) -> None:
    trace = ("trace", *pair, *FEW, "--count", 5, "--top-k", 4, "--out", "trace")
    assert run(*trace, *COARSE)[0] == 0
    profile = ("profile", *pair[:4], *COARSE, "--largest", 2, "--contexts", "8", "--rounds", 2, "--out", "latency.json")
    assert run(*profile)[0] == 0
    found = [json.loads(Path("trace/provenance.json").read_text())["details"]]
    found += [st.Acceptance.load("trace/acceptance.json").provenance.details]
    found += [st.Latency.load("latency.json").provenance.details]
    records(run)
    decode = (
        "decode",
        *pair,
        *FEW,
        *COARSE,
        "--count",
        1,
        "--skip",
        0,
        "--plan",
        "plan.json",
        "--out",
        "measured.json",
    )
    assert run(*decode)[0] == 0
    found += [st.Tally.load("measured.json").provenance.details]
    for details in found:
        assert {name: details[name] for name in WRITTEN} == WRITTEN
    status, _, err = run(*trace)
    assert status == 2
    assert "holds a trace with another attention (eager, here sdpa), dtype (torch.bfloat16, here torch.float32)" in err


@pytest.mark.parametrize(
    "command",
    [
        ("trace", "--out", "out"),
        ("profile", "--out", "out.json"),
        ("decode", "--plan", "plan.json"),
        ("decode", "--plan", "plan.json", "--text", "def "),
        ("clock", "--plan", "plan.json"),
        ("compare", "--out", "out"),
        ("demo", "--out", "out"),
    ],
    ids=" ".join,
)
def test_a_device_that_is_not_there_is_refused(run: Run, command: tuple[str, ...]) -> None:
    records(run)
    before = sorted(Path().rglob("*"))
    status, out, err = run(*command, "--device", "cuda:99")
    assert (status, out) == (2, "")
    assert err.startswith("error: device must be one of this machine, such as cpu, got 'cuda:99': ")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("device", ["nowhere", "meta", "cpu:x"])
def test_no_device_is_refused(run: Run, device: str) -> None:
    status, _, err = run("profile", "--device", device, "--out", "latency.json")
    assert status == 2
    assert f"got {device!r}" in err
