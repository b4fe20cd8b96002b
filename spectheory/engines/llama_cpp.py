"""llama.cpp: statistics from its log; a chain as flags.

Builds b9085 (2026-05-08) to b11382 (2026-10-04). PR #22397 (2026-04) replaced `--draft-max` by `--spec-draft-n-max`:
older builds refuse the new name. Log lines: PR #24536 (2026-06), with vLLM's definitions, and those before it, whose
tau is ours: 1 + accepted tokens / generated drafts. The root is not counted.
"""

from __future__ import annotations

import re

from spectheory.engines import statistics
from spectheory.engines.exported import Export, release
from spectheory.engines.names import agree, missing
from spectheory.engines.shapes import check_length
from spectheory.engines.statistics import TOTALS_ONLY, Statistics

VERSIONS = dict.fromkeys(map(str, range(9085, 11383)), "--spec-draft-n-max")

_RATES = r"(?:acceptance rate per position|#acc rate/pos)\s*=\s*\(([\d.,\s]+)\)"
_TAU = r"(?:mean acceptance length|#mean acc len)\s*=\s*([\d.]+)"
_SLOT = r"draft acceptance(?: rate)?\s*=\s*([\d.]+)\s*\(\s*(\d+)\s*accepted\s*/\s*(\d+)\s*generated\s*\)"
_TOTALS = r"#gen drafts\s*=\s*(\d+),\s*#acc drafts\s*=\s*(\d+),\s*#gen tokens\s*=\s*(\d+),\s*#acc tokens\s*=\s*(\d+)"


def from_log_line(text: str, *, min_trials: int = 100) -> Statistics:
    """Statistics of one line, of a request (`draft acceptance = ...`) or of the server (`statistics draft: ...`).

    Raises:
        ValueError: no line of a known form is there or several are, or the figures contradict each other.
    """
    slots, totals = re.findall(_SLOT, text), re.findall(_TOTALS, text)
    if len(slots) + len(totals) != 1:
        if slots or totals:
            raise ValueError(f"text must hold one line of statistics, got {len(slots) + len(totals)}: pass one of them")
        names = re.findall(r"#?[A-Za-z][\w /]*(?=\s*=)", text)
        raise missing("the log", ["draft acceptance", "draft acceptance rate", "#gen drafts"], map(str.strip, names))
    accepted, drafted = (int(n) for n in (slots[0][1:] if slots else (totals[0][3], totals[0][2])))
    if slots and drafted:
        agree("draft acceptance", float(slots[0][0]), accepted / drafted, "accepted / generated", 2e-5)
    if totals:
        _check_drafts(*(int(n) for n in totals[0]))
    rates, tau = re.search(_RATES, text), re.search(_TAU, text)
    if rates and tau:
        found = [float(rate) for rate in rates.group(1).split(",") if rate.strip()]
        return statistics.from_rounded(
            "llama_cpp",
            "log line",
            tau=float(tau.group(1)),
            rates=found,
            accepted=accepted,
            drafted=drafted,
            min_trials=min_trials,
        )
    if totals:
        drafts = int(totals[0][0])
        return statistics.from_totals(
            "llama_cpp", "log line", drafts=drafts, drafted=drafted, accepted=accepted, min_trials=min_trials
        )
    sentences = (TOTALS_ONLY, "the line does not say how many cycles there were: tau is unknown")
    return Statistics("llama_cpp", "log line", None, None, None, drafted, accepted, sentences)


def _check_drafts(drafts: int, taken: int, drafted: int, accepted: int) -> None:
    """`taken` drafts had at least one token accepted."""
    if taken > drafts or accepted < taken or drafted < drafts:
        raise ValueError(
            f"#gen drafts={drafts}, #acc drafts={taken}, #gen tokens={drafted}, #acc tokens={accepted} contradict each "
            "other: drafts with a token accepted are at most all drafts, and each has at least one token"
        )


def export(length: int, *, version: str) -> Export:
    """A chain of `length` tokens, the same for every cycle, as flags of llama-server and llama-cli.

    Args:
        length: drafted tokens, at least 1.
        version: the build, such as "b11000".
    """
    key, flag = release("llama.cpp", version, VERSIONS, parts=1)
    check_length(length)
    args = (flag, str(length), "--spec-draft-p-min", "0")
    return Export("llama_cpp", f"b{key}", args, {}, ("with p-min 0 no draft is cut short where the draft is unsure",))
