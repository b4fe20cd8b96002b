"""The measurement of llama-server, on a program that answers as it does: every cycle accepts all tokens but one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.engines import llama_cpp
from spectheory import Replays
from spectheory.hardware.gpus import gpu
from spectheory.replay import GreedyText

SERVER = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

def option(name, usual=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else usual

if "--version" in sys.argv:
    sys.exit(print("version: 1", file=sys.stderr))
length = int(option("--spec-draft-n-max", 0))

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        self.do_GET()
        cycle = max(length, 1)  # tokens of a cycle
        for n in range(1, 41):
            begun = -(-(n - 1) // cycle)
            timing = {{"predicted_n": n, "predicted_ms": 10.0 * (n - 1), "prompt_n": 7}}
            drafted = {{"draft_n": begun * length, "draft_n_accepted": begun * (length - 1)}} if length else {{}}
            line = {{"tokens": [n], "timings": timing | drafted}}
            self.wfile.write(b"data: " + json.dumps(line).encode() + b"\\n\\n")

    def log_message(self, *words):
        pass

HTTPServer(("127.0.0.1", int(option("--port"))), Answer).serve_forever()
"""


def test_tau_is_counted_to_the_end_of_a_cycle_and_a_second_call_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, prompts = tmp_path / "llama-server", tmp_path / "prompts.jsonl"
    server.write_text(SERVER.format(python=sys.executable))
    server.chmod(0o755)
    prompts.write_text('{"text": "a"}\n{"text": "b"}\n')
    monkeypatch.setattr(llama_cpp, "CALIBRATED", "3")
    monkeypatch.setattr(llama_cpp, "machine", lambda threads: gpu("rtx4090"))
    monkeypatch.setattr(llama_cpp, "replays", lambda folder: Replays([GreedyText(np.array([0, 0, 1] * 20))] * 2))
    monkeypatch.setattr("benchmarks.engines.read_trace", lambda folder: [{"prompt": [5] * 9, "text": [0, 0, 1] * 20}])
    run = dict.fromkeys(("target", "draft"), tmp_path / "model.gguf") | {"trace": tmp_path, "prompts": prompts}
    given = {"names": llama_cpp.QWEN, "skip": 0, "count": 2, "new_tokens": 9, "threads": 1, "runs": "0,3,1,2,ngram:2"}
    llama_cpp.main(server, **run, **given, out=tmp_path / "out")
    said = capsys.readouterr().out
    assert "0: tau 1.000 predicted, 1.000" in said
    assert "predicted, 3.000 +- 0.000 measured; tokens a second" in said
    assert "ngram:2: tau 2.565 predicted, 2.000" in said
    assert said.count("100.00 measured; 2 of 2 texts as plain") == 5
    server.unlink()
    llama_cpp.main(server, **run, **given, out=tmp_path / "out")
    assert capsys.readouterr().out == said
