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


@pytest.fixture
def records(tmp_path: Path) -> Path:
    file = tmp_path / "records.jsonl"
    file.write_text("".join(json.dumps({"id": "7", "acc_eagle": {"acc_len": row}}) + "\n" for row in LENGTHS))
    return file


def walked(lengths: list[int], chain: int) -> tuple[int, int]:
    """(Tokens, cycles) by walking through the record as its authors' simulator does, from position 1."""
    position, tokens, cycles = 1, 0, 0
    while position + chain + 1 <= len(lengths):
        step = min(lengths[position], chain + 1)
        position, tokens, cycles = position + step, tokens + step, cycles + 1
    return tokens, cycles


@pytest.mark.parametrize("chain", [1, 2, 3])
def test_a_record_is_replayed_as_its_authors_walk_through_it(records: Path, chain: int) -> None:
    replayed = Replays(read_chain_records(records)).replay(st.Tree.chain(chain), Greedy())
    counted = [walked(row, chain) for row in LENGTHS]
    assert list(zip(replayed.emitted, replayed.cycles, strict=True)) == counted


def test_the_command_prints_a_table_and_json(run: Run, records: Path) -> None:
    shown = succeeded(run("replay", records, "--chains", "1,3"))
    assert "replayed on 2 texts" in shown.stdout
    assert "chain of 3" in shown.stdout
    (row,) = json.loads(run("replay", records, "--chains", "2", "--json").stdout)
    counted = [walked(lengths, 2) for lengths in LENGTHS]
    assert row["tau"] == sum(tokens for tokens, _ in counted) / sum(cycles for _, cycles in counted)
    assert (row["verifier"], row["tree"]) == (None, [-1, 0, 1])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_command_replays_trees_on_a_trace(tiny: Pair, run: Run, tmp_path: Path, temperature: float) -> None:
    record_trace(tiny, prompts(3), TraceSettings("random", temperature=temperature, new_tokens=20), tmp_path / "trace")
    (tmp_path / "tree.json").write_text("[-1, 0, 0]")
    shown = succeeded(run("replay", tmp_path / "trace", "--chains", "2", "--tree", tmp_path / "tree.json"))
    wanted = ["Naive", "Block", "Traversal", "RRS"] if temperature else ["Greedy"]
    assert all(f"tree of 2, 1 deep, {name}" in shown.stdout or name == "Block" for name in wanted)
    assert all(f"chain of 2, {name}" in shown.stdout for name in wanted)


def test_ends_are_printed_for_the_trees_that_are_given(tiny: Pair, run: Run, tmp_path: Path) -> None:
    record_trace(tiny, prompts(3), TraceSettings("random", temperature=1.0, new_tokens=20), tmp_path / "trace")
    (tmp_path / "tree.json").write_text("[-1, 0, 0]")
    asked = ("replay", tmp_path / "trace", "--tree", tmp_path / "tree.json", "--verifier", "Traversal", "--ends")
    shown = succeeded(run(*asked)).stdout
    assert shown.count("Where cycles end: tree of 2, 1 deep, Traversal") == shown.count("Where cycles end") == 1
    *_, row = json.loads(run(*asked, "--json").stdout)
    assert row["ends"]["tau"] == pytest.approx(row["tau"])
    assert row["ends"]["reached"][1] == pytest.approx(row["tau"] - 1)
    refused = run("replay", tmp_path / "trace", "--verifier", "Greedy")
    assert "--verifier must be one that suits the texts and trees" in refused.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "named"),
    [
        ("", (), "holds no record"),
        ("{", (), "line 1 is damaged: not JSON"),
        ('{"acc_len": [1]}', (), "line 1 must have one drafter, got none"),
        ('{"a": {"acc_len": [1]}, "b": {"acc_len": [1]}}', (), "line 1 must have one drafter, got a, b"),
        ('{"a": {"acc_len": [1, 2, 3]}}', ("--drafter", "b"), "line 1 has no drafter 'b', it has a"),
        ('{"a": {"acc_len": [1, 0]}}', (), "a.acc_len must be a list of whole numbers of at least 1"),
        ('{"a": {"acc_len": [1, 2, 1, 1]}}', ("--chains", "2"), "chain of at most 1"),
        ('{"a": {"acc_len": [1, 3]}}', ("--chains", "2"), "must have at least 1 + 3 tokens for a cycle"),
        ('{"a": {"acc_len": [1, 3]}}', ("--chains", "0"), "--chains must be numbers of at least 1, got '0'"),
        ('{"a": {"acc_len": [1, 3]}}', ("--chains", "x"), "--chains must be whole numbers"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    run: Run, tmp_path: Path, text: str, arguments: tuple[str, ...], named: str
) -> None:
    (tmp_path / "records.jsonl").write_text(text)
    result = run("replay", tmp_path / "records.jsonl", *arguments)
    assert result.exit_code == 2
    assert named in result.stderr.replace("\n", " ")
