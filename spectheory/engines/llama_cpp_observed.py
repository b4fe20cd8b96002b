"""llama.cpp servers as `Observed`, from the log, and what to change in llama.cpp.

The lines are from tools/server and common/speculative.cpp, read 2026-11-23: `eval time = ... ms / ... tokens` of a
request, without its prompt; and in `statistics draft-...: #calls(b,g,a) = ..., dur(b,g,a) = ... ms` the middle figures
are the calls that draft and their time, both since the start of the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from spectheory.engines.observed import Advice, Observed, nothing_decoded
from spectheory.engines.statistics import Statistics

_EVAL = r"(?<!prompt )\beval time\s*=\s*([\d.]+) ms\s*/\s*(\d+)\s*(?:tokens|runs)"
_STATISTICS = (
    r"statistics\s+([\w-]+):\s*#calls\(b,g,a\)\s*=\s*\d+\s+(\d+)\s+\d+"
    r".*?dur\(b,g,a\)\s*=\s*[\d.]+,\s*([\d.]+),\s*[\d.]+ ms"
)
_SLOT = r"draft acceptance(?: rate)?\s*=\s*[\d.]+\s*\(\s*(\d+)\s*accepted"


def observed_in_log(text: str, statistics: Callable[[], Statistics]) -> Observed:
    """A server by the times of its requests; `statistics` reads what was drafted, if anything was.

    A cycle emits one token more than it accepts, so the cycles of a request are its tokens without those accepted.

    Raises:
        InputError: the log has no time of a request, or its figures contradict each other.
    """
    timed = [(float(ms) / 1e3, int(tokens)) for ms, tokens in re.findall(_EVAL, text)]
    seconds, tokens = sum(row[0] for row in timed), sum(row[1] for row in timed)
    accepted = sum(map(int, re.findall(_SLOT, text)))
    speculating = "draft acceptance" in text or "#gen drafts" in text
    if not tokens and not speculating:
        raise nothing_decoded("llama.cpp-log")
    found = statistics() if speculating else None
    known = found is not None and found.drafts and found.drafted
    cycles = tokens - accepted
    last = {name: (int(calls), float(ms) / 1e3) for name, calls, ms in re.findall(_STATISTICS, text)}
    calls = sum(row[0] for row in last.values())
    return Observed(
        "llama.cpp",
        "llama.cpp-log",
        statistics=found,
        tau=tokens / cycles if cycles > 0 and tokens else (found.tau if found and found.tau else 1.0),
        nodes=(found.drafted / found.drafts if known else None) if found else 0.0,  # pyrefly: ignore[unsupported-operation]
        depth=_positions(found) if found else 0,
        step_seconds=seconds / cycles if cycles > 0 and tokens else None,
        draft_seconds=sum(row[1] for row in last.values()) / calls if calls else None,
        notes=("the log does not say how many requests decoded together",),
    )


def _positions(found: Statistics) -> int | None:
    """The number of positions of the drafts, if rates by position are reported."""
    counted = found.acceptance and found.acceptance.cycles_of
    return counted.budget if counted else None


ADVICE = Advice(
    length="--spec-draft-n-max {length}",
    causes={
        "acceptance": "a draft of the same family, or a higher --spec-draft-p-min, which drafts only where the draft "
        "is sure",
        "draft": "keep the draft on the GPU (--spec-draft-ngl), quantise it, or look drafts up: --spec-type "
        "ngram-simple",
        "verification": "a lower --spec-draft-n-max; layers on the CPU and mixtures of experts make every verified "
        "token expensive",
        "batch": "a lower --parallel, or --spec-type none on a server for many users",
        "overhead": "check that the draft and the target are on the same device, and that no grammar or penalty is "
        "applied to every drafted token",
    },
)
