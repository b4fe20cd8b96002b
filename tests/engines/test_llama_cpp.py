"""llama.cpp."""

from __future__ import annotations

import pytest

from spectheory.engines import llama_cpp
from tests.engines.examples import acceptance


def test_golden_llama_cpp() -> None:
    assert llama_cpp.export(6, version="b9085").command == "--spec-draft-n-max 6 --spec-draft-p-min 0"


def test_llama_cpp_refuses_what_it_cannot_run() -> None:
    with pytest.raises(ValueError, match=r"of llama.cpp .* \(9085 to 11382\), got 'b8000'"):
        llama_cpp.export(3, version="b8000")


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


@pytest.mark.parametrize("line", [SLOT, SERVER], ids=["request", "server"])
def test_llama_cpp_log(line: str) -> None:
    found = llama_cpp.from_log_line(line, min_trials=1)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (87, 259, 167, 2.92)
    assert acceptance(found).hits is not None
    assert acceptance(found).hits[:, 0].tolist() == [70, 55, 42]  # pyright: ignore[reportOptionalSubscript]


def test_llama_cpp_log_before_positions() -> None:
    found = llama_cpp.from_log_line(OLD_SERVER)
    assert (found.drafts, found.drafted, found.accepted, found.tau) == (10, 110, 98, 10.8)
    slot = llama_cpp.from_log_line("draft acceptance rate = 0.57576 (  171 accepted /   297 generated)")
    assert (slot.drafts, slot.drafted, slot.accepted, slot.tau) == (None, 297, 171, None)
    for text, message in [
        (OLD_SERVER.replace("#acc drafts = 10", "#acc drafts = 11"), "#gen drafts=10, #acc drafts=11, .* contradict"),
        (SLOT.replace("0.64479", "0.7"), "draft acceptance is 0.7, but accepted / generated makes it 0.644788"),
        (SLOT.replace("0.632", "0.9"), "rate of position 1 is 0.9, but must be at most that of position 0, 0.805"),
        (SLOT.replace("2.92", "3.92"), "mean acceptance length is 3.92, but"),
        (SLOT + "\n" + SERVER, "text must hold one line of statistics, got 2"),
        ("draft acceptance ratio = 0.5", "the log has none of draft acceptance, .* found are draft acceptance ratio"),
    ]:
        with pytest.raises(ValueError, match=message):
            llama_cpp.from_log_line(text)
