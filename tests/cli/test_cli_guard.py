"""`spectheory guard`: requests of two runs from files and folders, where acceptance fell, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import Run, refused
from tests.engines.examples import LOG, REPORTS, SLOT

HISTOGRAMS = {"math": [20, 10, 10, 40, 0], "chat": [40, 20, 10, 10, 0]}


def responses(name: str, math: list[int], *, model: str = "target", count: int = 100) -> None:
    """Responses of vLLM to two kinds of prompts by turns. Position 4 is never accepted, the last one drafts nothing."""
    histograms, rows = HISTOGRAMS | {"math": math}, []
    for i in range(count):
        counted = list(histograms.values())[i % 2] if i < count - 1 else [0] * 5
        rows.append({"model": model, "category": list(histograms)[i % 2], "usage": {"prompt_tokens": 10 + i // 2}})
        rows[-1]["metrics"] = {"speculative_decoding": {"acceptance_histogram": counted}}
    Path(name).write_text("\n".join(map(json.dumps, rows)))


def verdicts(out: str) -> dict[str, str]:
    return {line.partition("  ")[0]: line.split()[-1] for line in out.splitlines() if "±" in line}


def test_it_says_whether_and_where_acceptance_fell_and_before_how_many_prompts_are_needed(run: Run) -> None:
    responses("reference.jsonl", HISTOGRAMS["math"])
    responses("same.jsonl", HISTOGRAMS["math"])
    responses("few.jsonl", HISTOGRAMS["math"], count=4)
    responses("now.jsonl", [20, 20, 20, 20, 0])
    held, few, fell = (run("guard", "reference.jsonl", f"{name}.jsonl") for name in ("same", "few", "now"))
    assert (held.exit_code, few.exit_code, fell.exit_code) == (0, 2, 1), fell.output
    assert set(verdicts(held.stdout).values()) == {"HELD"}
    assert verdicts(fell.stdout) == {
        **dict.fromkeys(("all prompts", "position 2", "position 3", "category math", "longer prompts"), "FELL"),
        **{"prompts of up to 34.5 tokens": "FELL", "position 1": "HELD", "category chat": "HELD"},
    }
    assert "of 100 prompts" in fell.stdout
    assert "wrong with probability at most 0.01: FELL, HELD (less than 2% is lost, if all lose alike)" in fell.stdout
    before = run("guard", "reference.jsonl", "--drop", "5%", "--alpha", "0.001").stdout
    assert before.startswith("100 prompts, tau 2.3")
    assert "Of runs that lose 5%, 90% are found within" in before


def folder(name: str, texts: list[str]) -> None:
    Path(name).mkdir()
    for i, text in enumerate(texts):
        Path(name, f"{i}.txt").write_text(text)


def test_a_folder_has_a_report_of_each_prompt(run: Run) -> None:
    """Scrapes are subtracted from the next one, and 10.txt comes after 9.txt. A log of llama.cpp has each request."""
    names = "draft_tokens_total", "drafts_total", "accepted_tokens_total", 'accepted_tokens_per_pos_total{position="0"}'
    for name, accepted in (("reference", 60), ("now", 50)):
        rows = [dict(zip(names, (100 * i, 100 * i, accepted * i, accepted * i), strict=True)) for i in range(30)]
        folder(name, ["\n".join(f"vllm:spec_decode_num_{k} {n}" for k, n in row.items()) for row in rows])
    result = run("guard", "reference", "now", "--drop", "5%")
    assert result.exit_code == 1, result.output
    assert "of 29 prompts" in result.stdout
    assert verdicts(result.stdout) == {"all prompts": "FELL", "position 1": "FELL"}
    folder("logs", [LOG, LOG])
    Path("one.log").write_text("\n".join(SLOT.replace("task 0", f"task {i}") for i in range(7)))
    assert run("guard", "logs").stdout.startswith("2 prompts, tau 3.486")
    assert run("guard", "one.log").stdout.startswith("7 prompts, tau 2.920")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--drop", "101%"), "drop must be a number from 1e-06 to 0.999999, got 1.01"),
        (("--drop", "two"), "--drop must be a share such as 2%"),
        (("another",), """must be of one engine, model and drafter, got "model": "another\""""),
        (("sglang-response",), "got reports=sglang-response, reports=vllm-response"),
        (("vllm-log",), "vllm-log adds all requests up"),
        (("empty",), "empty has no report that can be read"),
        (("blank",), "blank is empty: give the text that the engine reported"),
    ],
)
def test_bad_runs_are_named(run: Run, arguments: tuple[str, ...], message: str) -> None:
    responses("reference", HISTOGRAMS["math"])
    responses("another", HISTOGRAMS["math"], model="another")
    folder("empty", [])
    Path("blank").write_text("")
    for name in ("sglang-response", "vllm-log"):
        Path(name).write_text(REPORTS[name][0])
    refused(run("guard", "reference", *arguments), message)
