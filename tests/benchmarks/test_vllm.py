"""The measurement of vLLM, on a module of that name: every cycle drafts, and accepts all but one of its tokens."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from benchmarks.engines import vllm
from spectheory import Replays
from spectheory.replay import GreedyText
from tests.helpers import refuses

MODULE = """
import time
from types import SimpleNamespace
__version__ = "0.26.0"
SamplingParams = SimpleNamespace

class LLM:
    def __init__(self, speculative_config=None, **more):
        self.length, self.drafts = (speculative_config or {}).get("num_speculative_tokens", 0), 0

    def generate(self, prompts, sampling, use_tqdm):
        time.sleep(sampling.max_tokens / 500)
        self.drafts += len(prompts) * (sampling.max_tokens - 1) // max(self.length, 1)

    def get_metrics(self):
        each = [self.drafts] * (self.length - 1) + [0]
        named = {"num_drafts": self.drafts, "num_accepted_tokens": sum(each)}
        found = [SimpleNamespace(name="vllm:spec_decode_" + name, value=value) for name, value in named.items()]
        found.append(SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens_per_pos", values=each))
        return found if self.length else []
"""


def test_runs_are_predicted_measured_in_processes_of_their_own_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vllm.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(vllm, "replays", lambda folder: Replays([GreedyText(np.array([0, 0, 1] * 20))] * 2))
    monkeypatch.setattr("benchmarks.engines.read_trace", lambda folder: [{"prompt": [0], "text": [0, 0, 1] * 20}])
    monkeypatch.setattr(vllm, "RUNS", (vllm.PLAIN, "draft_model:3", "ngram:5"))
    monkeypatch.setattr(vllm, "get_context", lambda way: get_context("fork"))  # starts at once
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"text": "a"}\n' * 40)
    run = dict.fromkeys(("target", "draft", "trace"), tmp_path) | {"prompts": prompts, "out": tmp_path / "out"}
    options = {"gpu": "h200_sxm", "names": vllm.NAMES, "skip": 0, "count": 40, "new_tokens": 16}
    vllm.main(**run, **options)
    said = capsys.readouterr().out
    assert "none:0, batch 8: tau 1.000, predicted 1.000" in said
    assert "draft_model:3, batch 32: tau 3.000" in said
    assert "ngram:5, batch 1: tau 5.000, predicted 4.214" in said
    assert said.count("predicted") == 15
    (tmp_path / "vllm.py").unlink()
    vllm.main(**run, **options)
    assert capsys.readouterr().out == said
    refuses(
        r"the record was begun with other new_tokens \(16, here 9\)", vllm.main, **run, **options | {"new_tokens": 9}
    )
