"""Files of other programs in which any one value is hostile: they are read, or refused in one short line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from simulate.load.traces import read_trace
from spectheory.engines import read_runs
from spectheory.hardware.model_config import read_config
from tests.core.test_records import edited, leaves
from tests.engines.examples import BENCH, ITERATION, SERVE, SERVING

NESTED: list[Any] = []
for _ in range(60):
    NESTED = [NESTED]
HOSTILE = [None, True, -1, 0.5, 1e308, 10**400, math.nan, "", "9" * 2000, NESTED, [], {"a": 1}]
Values = dict[str, Any]


def shipped(name: str) -> Values:
    return json.loads(files("spectheory").joinpath("data", "models", f"{name}.json").read_text())


def read_model(file: Path) -> None:
    config, where = read_config(file)
    model = st.ModelConfig.from_hf(config, name=where)
    for name in dir(type(model)):
        if isinstance(getattr(type(model), name), property):
            getattr(model, name)


def report(kind: str) -> Callable[[Path], object]:
    return lambda file: st.read_report(file, kind, min_trials=1)


Read = Callable[[Path], object]
FILES: dict[str, tuple[Read, Values]] = {
    "configuration of experts": (read_model, shipped("deepseek-v3")),
    "configuration of a head": (read_model, shipped("eagle1-llama-2-7b")),
    "response of SGLang": (
        report("sglang-response"),
        {
            "spec_verify_ct": 1000,
            "spec_accept_token_num": 1500,
            "spec_accept_histogram": [200, 300, 300, 200],
            "spec_accept_length": 2.5,
            "spec_draft_token_num": 3000,
            "spec_accept_rate": 0.5,
        },
    ),
    "statistics of TensorRT-LLM": (report("trtllm-stats"), ITERATION),
    "llama-bench": (read_runs, BENCH),
    "vllm bench serve": (read_runs, SERVE),
    "bench_serving": (read_runs, SERVING),
    "trace of Mooncake": (read_trace, {"timestamp": 10, "input_length": 10, "output_length": 5, "hash_ids": [1]}),
}


@pytest.mark.parametrize("name", FILES)
def test_one_hostile_value_is_read_or_refused(tmp_path: Path, name: str) -> None:
    """Any other exception than InputError is raised here. A place has a third of the values."""
    (read, data), file = FILES[name], tmp_path / "given"
    file.write_text(json.dumps(data))
    read(file)
    said: dict[str, tuple[Any, ...]] = {}
    for turn, path in enumerate(leaves(data)):
        for new in HOSTILE[turn % 3 :: 3]:
            file.write_text(json.dumps(edited(data, path, new)))
            try:
                read(file)
            except st.InputError as error:
                said[str(error)] = path, new
    assert {text: place for text, place in said.items() if len(text) > 1000 or str(file) not in text} == {}
