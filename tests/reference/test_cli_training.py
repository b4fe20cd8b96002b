"""The commands `train texts`, `train head` and `train selector` on the tiny pair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reference.heads import inspect_head
from reference.selector import Selector
from spectheory import Latency
from tests.command_line import Run, refused, succeeded


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A file of texts."""
    file = tmp_path / "corpus.jsonl"
    file.write_text("\n".join(json.dumps({"text": f"def f{i}(x): return x + {i}  # of json"}) for i in range(6)))
    return file


def test_a_head_is_trained_by_two_commands(run: Run, tiny_folders: Path, corpus: Path) -> None:
    target = "--target", tiny_folders / "target"
    sizes = "--rows", 4, "--prompt-tokens", 6, "--new-tokens", 10, "--layers", "0,1"
    texts = "train", "texts", "--corpus", corpus, *target, *sizes, "--out", "texts"
    for share in ("0/2", "1/2"):
        succeeded(run(*texts, "--share", share))
    head = "train", "head", *target, "--texts", "texts", "--rows", 2, "--steps", 2, "--intermediate", 16
    succeeded(run(*head, "--loss", "eagle", "--out", "first"))
    assert inspect_head("first").config.kind == "eagle1"
    succeeded(run(*head, "--loss", "hass", "--set", "passes=2", "--start", "first", "--out", "second"))
    assert json.loads(Path("second/training.json").read_text())["texts"] == 4
    rates = [
        json.loads((Path(name) / "provenance.json").read_text())["settings"]["matrix_rate"]
        for name in ("first", "second")
    ]
    assert rates == [0.02, 0.003]  # the rate of a new head makes a trained one worse
    refused(run(*texts, "--share", "2/2"), "share must be k/n with 0 <= k < n")
    refused(run(*head, "--loss", "talff", "--out", "third"), "unknown loss 'talff': did you mean talf?")
    refused(run(*head, "--loss", "talf", "--set", "k", "--out", "third"), "set must be NAME=VALUE, such as passes=3")
    refused(run(*head, "--loss", "talf", "--set", "j=2", "--out", "third"), "setting of the loss talf")
    refused(run(*head, "--loss", "talf", "--set", "k=two", "--out", "third"), "k must be a number, got 'two'")
    refused(run(*head, "--loss", "eagle3", "--out", "third"), "must be different layers of the target")
    refused(run(*head, "--loss", "eagle", "--out", "first", "--seed", 1), "another seed")
    refused(run(*head, "--loss", "eagle", "--out", "third", "--rate", "inf"), "rate must be a positive number, got inf")
    assert not Path("third").exists()


def test_a_selector_is_trained_from_a_trace(run: Run, tiny_folders: Path, corpus: Path) -> None:
    pair = "--target", tiny_folders / "target", "--draft", tiny_folders / "draft"
    length = "--prompts", corpus, "--prompt-tokens", 6, "--new-tokens", 34, "--count", 6
    succeeded(run("trace", *pair, *length, "--temperature", 1, "--out", "trace"))
    Latency.constant(draft_seconds=0.1).save("latency.json")
    asked = "train", "selector", "--trace", "trace", "--latency", "latency.json", "--draws", 2, "--steps", 2
    succeeded(run(*asked, "--out", "selector"))
    assert Selector.load(Path("selector")).card.verifier == "SpecInfer"
    refused(
        run(*asked, "--verifier", "Traversal", "--out", "other"), "verifier Traversal must be a node solver that is"
    )
