"""The command `replay`, and records of accepted lengths as other people keep them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spectheory as st
from reference.models import Pair
from reference.tracing import TraceSettings, record_trace
from spectheory.replay import Replays, read_chain_records
from spectheory.verify import Greedy
from tests.command_line import Run, succeeded
from tests.replay.inputs import prompts

LENGTHS = [[1, 3, 2, 1, 1, 2, 1, 4, 3, 2, 1, 1], [2, 1, 1, 1, 3, 2, 1, 1, 1, 1]]


def walked(lengths: list[int], chain: int) -> tuple[int, int]:
    """(Tokens, cycles) by walking through the record as its authors' simulator does, from position 1."""
    position, tokens, cycles = 1, 0, 0
    while position + chain + 1 <= len(lengths):
        step = min(lengths[position], chain + 1)
        position, tokens, cycles = position + step, tokens + step, cycles + 1
    return tokens, cycles


@pytest.mark.parametrize("chain", [1, 2, 3])
def test_a_record_is_replayed_as_its_authors_walk_through_it(run: Run, tmp_path: Path, chain: int) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text("".join(json.dumps({"id": "7", "acc_eagle": {"acc_len": row}}) + "\n" for row in LENGTHS))
    replayed = Replays(read_chain_records(records)).replay(st.Tree.chain(chain), Greedy())
    counted = [walked(row, chain) for row in LENGTHS]
    assert list(zip(replayed.emitted, replayed.cycles, strict=True)) == counted
    assert f"chain of {chain}" in succeeded(run("replay", records, "--chains", f"{chain},3")).stdout
    (row,) = json.loads(run("replay", records, "--chains", chain, "--json").stdout)
    assert (row["tau"], row["verifier"]) == (replayed.tau, None)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_command_replays_trees_on_a_trace(tiny: Pair, run: Run, tmp_path: Path, temperature: float) -> None:
    record_trace(tiny, prompts(3), TraceSettings("random", temperature=temperature, new_tokens=20), tmp_path / "trace")
    (tmp_path / "tree.json").write_text("[-1, 0, 0]")
    asked = ("replay", tmp_path / "trace", "--tree", tmp_path / "tree.json")
    shown = succeeded(run(*asked, "--chains", "2"))
    wanted = ["Naive", "Block", "Traversal", "RRS"] if temperature else ["Greedy"]
    assert all(f"tree of 2, 1 deep, {name}" in shown.stdout or name == "Block" for name in wanted)
    assert all(f"chain of 2, {name}" in shown.stdout for name in wanted)
    asked += ("--verifier", wanted[-1], "--ends")
    shown = succeeded(run(*asked)).stdout
    assert shown.count(f"Where cycles end: tree of 2, 1 deep, {wanted[-1]}") == shown.count("Where cycles end") == 1
    *_, row = json.loads(run(*asked, "--json").stdout)
    assert row["ends"]["tau"] == pytest.approx(row["tau"])
    assert row["ends"]["reached"][1] == pytest.approx(row["tau"] - 1)
    refused = run("replay", tmp_path / "trace", "--verifier", "Unknown")
    assert "--verifier must be one that suits the texts and trees" in refused.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "named"),
    [
        ("{", (), "line 1 is damaged: not JSON"),
        ('{"a": {"acc_len": [1, 2, 1, 1]}}', ("--chains", "2"), "chain of at most 1"),
        ('{"a": {"acc_len": [1, 3]}}', ("--chains", "2"), "must have at least 1 + 3 tokens for a cycle"),
        ('{"a": {"acc_len": [1, 3]}}', ("--chains", "0"), "--chains must be numbers of at least 1, got '0'"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    run: Run, tmp_path: Path, text: str, arguments: tuple[str, ...], named: str
) -> None:
    (tmp_path / "records.jsonl").write_text(text)
    result = run("replay", tmp_path / "records.jsonl", *arguments)
    assert result.exit_code == 2
    assert named in result.stderr.replace("\n", " ")
