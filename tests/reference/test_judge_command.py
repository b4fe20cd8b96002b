"""Tests of `spectheory head evaluate` on draft models, and of the folders that it takes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from reference.models import Pair, weights_hash, with_draft
from spectheory.results.draft_comparison import DraftComparison
from tests.command_line import Run, refused
from tests.refusals import refuses


def test_the_command_compares_and_goes_on(run: Run, tiny_folders: Path, tmp_path: Path) -> None:
    target, draft, tree = tiny_folders / "target", tiny_folders / "draft", tmp_path / "tree.json"
    tree.write_text("[-1, 0, 0, 1]")
    prompts_file = tmp_path / "prompts.jsonl"
    prompts_file.write_text(
        "\n".join(json.dumps({"text": f"def f{i}(x): return x + {i}  # of json"}) for i in range(3))
    )
    pair = "--target", target, "--draft", draft
    length = "--prompts", prompts_file, "--prompt-tokens", 8, "--new-tokens", 12, "--count", 3
    groups = "--group", f"draft={draft}", "--group", f"itself={target}"
    result = run("head", "evaluate", *pair, *length, *groups, "--tree", tree, "--temperature", 1, "--out", "out")
    assert result.exit_code == 0, result.output
    assert "E[tau] of itself is above that of draft" in " ".join(result.stdout.split())
    assert "<svg" in Path("out/index.html").read_text()
    found = DraftComparison.load("out/comparison.json")
    assert found.verifier == "Traversal"
    assert found.provenance.temperature == 1
    result = run("head", "evaluate", "--trace", "out/texts", *groups, "--tree", tree, "--out", "out", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == json.loads(json.dumps(found.to_dict()))["rows"]
    trace = "head", "evaluate", "--trace", "out/texts", "--out", "other"
    refused(run(*trace, "--group", f"a={draft}"), "groups must be at least two, got 1")
    refused(run(*trace, "--group", draft, "--group", "b"), "group must be a name with its folders")
    refused(run(*trace, *groups, "--by-file"), "prompts must be pieces of the held-out files")
    refused(run(*trace, *groups, "--temperature", 1), "--trace names its target, device and sampling")
    refused(run(*trace, *groups, "--search", "EAGLE-2", "--verifier", "Block"), "--search grows its own trees")
    refused(run(*trace, *groups, "--verifier", "Greedy"), "verifier must be a verifier of sampled text")


def test_a_draft_of_another_vocabulary_is_refused(tiny: Pair, tiny_folders: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_folders / "draft", tmp_path / "other")
    tokenizer = json.loads((tmp_path / "other" / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (tmp_path / "other" / "tokenizer.json").write_text(json.dumps(tokenizer))
    refuses("vocabularies differ", with_draft, tiny, tmp_path / "other")
    same = with_draft(tiny, tiny_folders / "draft")
    assert same.target is tiny.target
    assert weights_hash(same.draft) == weights_hash(tiny.draft)
    assert same.fingerprint == tiny.fingerprint
