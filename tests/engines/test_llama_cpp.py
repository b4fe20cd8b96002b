"""llama.cpp."""

from __future__ import annotations

from typing import Any

import pytest

from spectheory.engines import llama_cpp
from tests.engines.examples import acceptance
from tests.refusals import refuses


def test_golden_llama_cpp() -> None:
    made = llama_cpp.export(6, version="b9235", model="draft.gguf")
    assert made.command == ("--spec-type draft-simple -md draft.gguf --spec-draft-n-max 6 --spec-draft-p-min 0"), (
        "without --spec-type a draft is loaded and never used (#25345)"
    )
    assert len(made.notes) == 1
    head = llama_cpp.export(3, version="b11000", model="owner/head", spec_type="draft-eagle3")
    assert head.args[:4] == ("--spec-type", "draft-eagle3", "-md", "owner/head")
    assert "-md takes a GGUF file: convert owner/head" in head.notes[1]
    assert "since PR #18039" in head.notes[2]


@pytest.mark.parametrize(("length", "looked_up"), [(1, 1), (5, 5), (12, 12), (40, 12)])
def test_n_gram_lookup_looks_for_no_more_tokens_than_it_drafts(length: int, looked_up: int) -> None:
    """If fewer tokens than it looks for follow the match, ngram-simple drafts nothing."""
    made = llama_cpp.export(length, version="b11000", model=None, spec_type="ngram-simple")
    assert made.command == (
        f"--spec-type ngram-simple --spec-ngram-simple-size-n {looked_up} --spec-ngram-simple-size-m {length} "
        f"--spec-draft-n-max {length}"
    )
    assert f"the last {looked_up} tokens" in made.notes[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": "b9234"}, r"of llama.cpp .* \(9235 to 11382\), got 'b9234'"),
        (
            {"spec_type": "draft"},
            "spec_type must be one of draft-simple, draft-eagle3, draft-mtp, ngram-simple, got 'draft'",
        ),
        ({"spec_type": "ngram-simple"}, "model must be None for ngram-simple, .* got 'd.gguf'"),
        ({"spec_type": "ngram-simple", "model": None, "length": 1025}, "length must be at most 1024 for ngram-simple"),
        ({"model": ""}, "model must name the draft's GGUF file, got ''"),
        ({"length": 0}, "length must be at least 1, got 0"),
    ],
)
def test_llama_cpp_refuses_what_it_cannot_run(arguments: dict[str, Any], message: str) -> None:
    refuses(message, llama_cpp.export, **{"length": 3, "version": "b11000", "model": "d.gguf", **arguments})


SLOT = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), "
    "mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)"
)
SERVER = (
    "statistics     draft-eagle3: #calls(b,g,a) =    1     87     87, #gen drafts =     87, #acc drafts =    70, "
    "#gen tokens =    259, #acc tokens =   167, #mean acc len = 2.92, #acc rate/pos = (0.805, 0.632, 0.483), "
    "dur(b,g,a) = 0.005, 325.555, 0.114 ms"
)
OLD_SERVER = "statistics draft: #calls = 10, #gen drafts = 10, #acc drafts = 10, #gen tokens = 110, #acc tokens = 98"
NGRAM_SERVER = (
    "statistics ngram_simple: #calls = 15, #gen drafts = 5, #acc drafts = 5, #gen tokens = 187, #acc tokens = 73"
)


NEWER = SLOT.split(", mean acceptance")[0] + ", mean len =  2.92"
BARE = SLOT.replace("(0.805", "0.805").replace("0.483)", "0.483")
LINES = {
    "request": SLOT,
    "server": SERVER,
    "no parentheses": BARE,
    "server, no parentheses": SERVER.replace("(0.805", "0.805").replace("0.483)", "0.483"),
    "trace": NEWER + "\n0.06.9 T slot print_timing: id  1 | task 0 |      acc per pos = (0.805, 0.632, 0.483)",
}


def test_a_log_of_one_request_and_the_totals_of_the_server_after_it() -> None:
    """Both lines are about the same request: the one with rates by position is read, and nothing counts twice."""
    for log in (f"{SLOT}\n{SERVER}\n", f"{NEWER}\n{SERVER}\n", f"{SLOT}\n{OLD_SERVER}\n{NGRAM_SERVER}"):
        found = llama_cpp.from_log(log, min_trials=1)
        assert (found.drafts, found.drafted, found.accepted, found.tau) == (87, 259, 167, 2.92)
    totals = llama_cpp.from_log(f"{NEWER}\n{OLD_SERVER}\n{NGRAM_SERVER}", min_trials=1)
    assert (totals.acceptance, totals.drafted, totals.tau) == (None, 259, 2.92)


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_llama_cpp_log(line: str) -> None:
    found = llama_cpp.from_log_line(line, min_trials=1)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (87, 259, 167, 2.92)
    assert acceptance(found).hits is not None
    assert acceptance(found).hits[:, 0].tolist() == [70, 55, 42]  # pyrefly: ignore[unsupported-operation]


def test_llama_cpp_log_before_positions() -> None:
    found = llama_cpp.from_log_line(OLD_SERVER)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (10, 110, 98, 10.8)
    assert not any("drafted nothing" in one for one in found.assumed)
    lookup = llama_cpp.from_log_line(NGRAM_SERVER)
    assert (lookup.drafts, lookup.accepted, lookup.tau) == (5, 73, 15.6)
    assert "10 of 15 cycles drafted nothing and are not counted" in lookup.assumed
    newer = llama_cpp.from_log_line(NGRAM_SERVER.replace("#calls = ", "#calls(b,g,a) =  2  "))
    assert newer.assumed == lookup.assumed
    slot = llama_cpp.from_log_line("draft acceptance rate = 0.57576 (  171 accepted /   297 generated)")
    assert (slot.drafts, slot.drafted, slot.accepted, slot.tau) == (None, 297, 171, None)
    newer = llama_cpp.from_log_line(NEWER)
    assert (newer.drafts, newer.drafted, newer.accepted, newer.tau) == (None, 259, 167, 2.92)
    assert newer.assumed[1] == "the line does not say how many cycles there were"
    for text, message in [
        (OLD_SERVER.replace("#acc drafts = 10", "#acc drafts = 11"), "#gen drafts=10, #acc drafts=11, .* contradict"),
        (SLOT.replace("0.64479", "0.7"), "draft acceptance is 0.7, but accepted / generated makes it 0.644788"),
        (SLOT.replace("0.632", "0.9"), "position 1 must be between 0 and the rate of position 0, 0.805, got 0.9"),
        (SLOT.replace("2.92", "3.92"), "mean acceptance length is 3.92, but"),
        (NEWER.replace("2.92", "1.2"), "mean acceptance length is 1.2, but 167 of 259 makes it 1.64479 to 168"),
        (NEWER.replace("2.92", "1690"), "mean acceptance length is 1690, but"),
        (OLD_SERVER + ", #mean acc len = 9.0", "#mean acc len is 9, but 1 . #acc tokens / drafts makes it 10.8"),
        (SLOT.replace("0.64479", "0.64481"), "draft acceptance is 0.64481, but"),
        (SLOT + "\n" + SERVER, "text must hold one line of statistics, got 2"),
        ("draft acceptance ratio = 0.5", "the log has none of draft acceptance, .* found are draft acceptance ratio"),
    ]:
        refuses(message, llama_cpp.from_log_line, text)
