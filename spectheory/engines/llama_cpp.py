"""llama.cpp: statistics from its log; a chain as flags. Its benchmarks: `llama_cpp_benchmarks`.

Builds b9235 (2026-05-22) to b11382 (2026-10-04), read 2026-11-21. Flags: `--spec-draft-n-max` by PR #22397,
`--spec-type draft-simple` and `draft-eagle3` by PR #22964 (merged 2026-05-13). The first build with these names is
not known; b9235 has them (#23544). The default of `--spec-type` is `none`: `-md` alone loads a draft and never uses it
(https://github.com/ggml-org/llama.cpp/issues/25345). The root is not counted.

N-gram lookup is `ngram-simple` (common/ngram-map.cpp, read 2026-11-22; flags by PR #22397). It finds the last n tokens,
of which the token that was just sampled is one, earlier in the text, and drafts the m tokens that follow there. It
drafts nothing if fewer than n follow, so n must not exceed m. The server cuts drafts to `--spec-draft-n-max` tokens.
Lines of its statistics count the cycles in `#calls`, and in `#gen drafts` only those that drafted.

Log lines of a request, from tools/server/server-context.cpp, where rates by position are always in parentheses:
`draft acceptance rate = ...` before PR #24536 (2026-06), then `draft acceptance = ..., mean acceptance length = ...,
acceptance rate per position = (...)`, later `..., mean len = ...` with `acc per pos = (...)` on a line of its own, at
trace level. Rates without parentheses are read too, although no build is known to write them. The mean length is tau:
1 + accepted tokens / drafts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from spectheory.core.errors import InputError
from spectheory.engines import statistics
from spectheory.engines.engine import Engine
from spectheory.engines.exports import Export, release
from spectheory.engines.llama_cpp_benchmarks import FORMATS
from spectheory.engines.llama_cpp_observed import ADVICE, observed_in_log
from spectheory.engines.observed import Observer
from spectheory.engines.report_values import agree, missing, within
from spectheory.engines.statistics import RECOVERED, ROUNDED_TAU, TOTALS_ONLY, Statistics
from spectheory.planning.fitting import Fitting
from spectheory.planning.runnable import check_length

VERSIONS = dict.fromkeys(map(str, range(9235, 11383)), "--spec-draft-n-max")
TYPES = {"model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp", "ngram": "ngram-simple"}
"""The values of `--spec-type` for a whole model, an EAGLE-3 head, the module in the target's file, and n-gram lookup.
"""
LOOKED_UP, LONGEST_LOOKUP = 12, 1024
"""The usual number of tokens that n-gram lookup looks for, and the largest number that it drafts."""
P_MIN_NOTE = "p-min 0 keeps all drafts at full length; otherwise llama.cpp shortens a draft where the draft is unsure"

_RATES = r"(?:acceptance rate per position|acc per pos|#acc rate/pos)\s*=\s*\(?\s*([\d.]+(?:\s*,\s*[\d.]+)*)"
_TAU = r"(?:mean acceptance length|mean len|#mean acc len)\s*=\s*([\d.]+)"
ROUNDED_SHARE = 0.5e-5 + 1e-7
"""Tolerance for `draft acceptance`, a quotient in single precision with five decimals."""
_SLOT = r"draft acceptance(?: rate)?\s*=\s*([\d.]+)\s*\(\s*(\d+)\s*accepted\s*/\s*(\d+)\s*generated\s*\)"
_NOTHING = r"draft acceptance(?: rate)?\s*=.*/\s*0\s*generated"
_CALLS = r"#calls(?:\(b,g,a\)\s*=\s*\d+\s+|\s*=\s*)(\d+)"
_TOTALS = r"#gen drafts\s*=\s*(\d+),\s*#acc drafts\s*=\s*(\d+),\s*#gen tokens\s*=\s*(\d+),\s*#acc tokens\s*=\s*(\d+)"


def from_log_line(text: str, *, min_trials: int = 100) -> Statistics:
    """Statistics of one log line, for a request (`draft acceptance = ...`) or for the server (`statistics draft: ...`).

    The line `acc per pos = ...` that follows the line of a request may be given together with it.

    Raises:
        InputError: `text` has no such line or several, or the figures contradict each other.
    """
    slots, totals = re.findall(_SLOT, text), re.findall(_TOTALS, text)
    if len(slots) + len(totals) != 1:
        if slots or totals:
            raise InputError(
                f"text must hold one line of statistics, got {len(slots) + len(totals)}: pass a single line"
            )
        names = re.findall(r"#?[A-Za-z][\w /]*(?=\s*=)", text)
        raise missing("the log", ["draft acceptance", "draft acceptance rate", "#gen drafts"], map(str.strip, names))
    accepted, drafted = (int(n) for n in (slots[0][1:] if slots else (totals[0][3], totals[0][2])))
    if slots and drafted:
        agree("draft acceptance", float(slots[0][0]), accepted / drafted, "accepted / generated", ROUNDED_SHARE)
    if totals:
        _check_drafts(*(int(n) for n in totals[0]))
    rates, tau = re.search(_RATES, text), re.search(_TAU, text)
    if rates and tau:
        found = [float(rate) for rate in rates.group(1).split(",")]
        return statistics.from_rounded(
            "llama.cpp",
            "log line",
            tau=float(tau.group(1)),
            rates=found,
            accepted=accepted,
            drafted=drafted,
            min_trials=min_trials,
        )
    if totals:
        drafts = int(totals[0][0])
        if tau and drafts:  # by the drafts that were judged, of which #acc drafts are a part
            low, high = (1 + accepted / max(1, n) for n in (drafts, int(totals[0][1])))
            within("#mean acc len", float(tau.group(1)), low, high, "1 + #acc tokens / drafts", ROUNDED_TAU)
        calls = [int(n) for n in re.findall(_CALLS, text)]
        return statistics.from_totals(
            "llama.cpp",
            "log line",
            drafts=drafts,
            drafted=drafted,
            accepted=accepted,
            min_trials=min_trials,
            assumed=[f"{calls[0] - drafts} of {calls[0]} cycles drafted nothing and are not counted"]
            if calls and calls[0] > drafts
            else [],
        )
    length, said = None, "the line does not say how many cycles there were"
    if tau:
        length = float(tau.group(1))
        _check_length(length, drafted, accepted)
    else:
        said += ": tau is unknown"
    return Statistics("llama.cpp", "log line", None, length, None, drafted, accepted, (TOTALS_ONLY, said))


def from_log(text: str, *, min_trials: int = 100) -> Statistics:
    """Statistics of a log: the sum over the lines of all requests, or one line with the server's running totals.

    Raises:
        InputError: the log has no such line, it has several lines of running totals and no line of a request, or the
            figures contradict each other.
    """
    kept = [line for line in text.splitlines() if not re.search(_TOTALS, line)]
    starts = [i for i, line in enumerate(kept) if re.search(_SLOT, line)]
    if len(starts) < 2:
        return from_log_line(_one_line(text, kept, starts), min_trials=min_trials)
    parts = ["\n".join(kept[a:b]) for a, b in pairwise([*starts, len(kept)])]
    read = [(from_log_line(part, min_trials=1), part) for part in parts if not re.search(_NOTHING, part)]
    drafted, accepted = (sum(getattr(found, name) or 0 for found, _ in read) for name in ("drafted", "accepted"))
    assumed = [f"{len(read)} lines of the log are added"]
    assumed += ["lines with running totals are ignored"] if len(kept) < len(text.splitlines()) else []
    if any(found.acceptance is None for found, _ in read):
        sentences = (TOTALS_ONLY, *assumed, "some lines do not say how many cycles there were: tau is unknown")
        return Statistics("llama.cpp", "log", None, None, None, drafted, accepted, sentences)
    counted = []
    for found, part in read:
        rates = [float(rate) for rate in re.findall(_RATES, part)[0].split(",")]
        counted.append(statistics.counts_behind(rates, found.tau or 1, found.accepted or 0, found.drafted or 0))
    assumed.append(RECOVERED)
    total = statistics.added(statistics.from_prefix_counts(row, cycles) for cycles, row in counted)
    drafts = sum(cycles for cycles, _ in counted)
    return statistics.from_positions(
        "llama.cpp", "log", total, drafts=drafts, drafted=drafted, min_trials=min_trials, assumed=assumed
    )


def _one_line(text: str, kept: Sequence[str], starts: Sequence[int]) -> str:
    """The lines of one request, or its line of running totals if only that one has more than totals."""
    totals = [line for line in text.splitlines() if re.search(_TOTALS, line)]
    own = "\n".join(kept)
    if not starts or not totals:
        return text
    return totals[0] if len(totals) == 1 and re.search(_RATES, totals[0]) and not re.search(_RATES, own) else own


def _check_length(tau: float, drafted: int, accepted: int) -> None:
    """Check `tau`, which is 1 + accepted / drafts, rounded to two decimals. Each draft has at least one token."""
    most = 1 + accepted if accepted else 1
    within("mean acceptance length", tau, 1 + accepted / max(drafted, 1), most, f"{accepted} of {drafted}", ROUNDED_TAU)


def _check_drafts(drafts: int, taken: int, drafted: int, accepted: int) -> None:
    """Check the totals of a server; in `taken` of its `drafts` at least one token was accepted."""
    if taken > drafts or accepted < taken or drafted < drafts:
        raise InputError(
            f"#gen drafts={drafts}, #acc drafts={taken}, #gen tokens={drafted}, #acc tokens={accepted} contradict each "
            "other: pass the line as the server wrote it"
        )


def export(length: int, *, version: str, model: str | None, spec_type: str = "draft-simple") -> Export:
    """A chain of `length` tokens, the same for every cycle, as flags of llama-server and llama-cli.

    Args:
        length: number of drafted tokens per cycle, at least 1.
        version: build of llama.cpp, such as "b11000".
        model: GGUF file of the draft; None for "draft-mtp", whose module is in the target's file, and "ngram-simple".
        spec_type: "draft-simple" if the draft is a whole model, "draft-eagle3" if it is an EAGLE-3 head, "draft-mtp" if
            it is a multi-token-prediction module, "ngram-simple" if drafts are looked up in the text.
    """
    key, flag = release("llama.cpp", version, VERSIONS, parts=1)
    check_length(length)
    if spec_type not in TYPES.values():
        raise InputError(f"spec_type must be one of {', '.join(TYPES.values())}, got {spec_type!r:.60}")
    if spec_type == "ngram-simple":
        return _lookup(length, key, flag, model)
    if model is None and spec_type == "draft-mtp":
        args = ("--spec-type", spec_type, flag, str(length), "--spec-draft-p-min", "0")
        note = "the target's GGUF file must contain the module, and --help of the build must list draft-mtp"
        return Export("llama.cpp", f"b{key}", args, {}, (P_MIN_NOTE, note))
    if not model or not isinstance(model, str):
        raise InputError(f"model must name the draft's GGUF file, got {model!r:.60}")
    notes = [P_MIN_NOTE]
    if not model.endswith(".gguf"):
        notes.append(
            f"-md takes a GGUF file: convert {model} to GGUF and give that file, or give a GGUF repository with -hfd"
        )
    if spec_type == "draft-eagle3":
        notes.append(
            "draft-eagle3 works since PR #18039 (merged 2026-06); earlier builds accept the name but do not draft"
        )
    args = ("--spec-type", spec_type, "-md", model, flag, str(length), "--spec-draft-p-min", "0")
    return Export("llama.cpp", f"b{key}", args, {}, tuple(notes))


def _lookup(length: int, key: str, flag: str, model: str | None) -> Export:
    """N-gram lookup. What is looked up has as many tokens as usual, or as are drafted if these are fewer."""
    if model is not None:
        raise InputError(f"model must be None for ngram-simple, which looks drafts up in the text, got {model!r:.60}")
    if length > LONGEST_LOOKUP:
        raise InputError(f"length must be at most {LONGEST_LOOKUP} for ngram-simple, got {length}: draft fewer tokens")
    simple, size = "--spec-ngram-simple-size", min(LOOKED_UP, length)
    args = ("--spec-type", "ngram-simple", f"{simple}-n", str(size), f"{simple}-m", str(length), flag, str(length))
    note = (
        f"drafts follow the last place in the text where the last {size} tokens stand: count the acceptance with the "
        "same number, because fewer tokens are found more often and accepted less"
    )
    return Export("llama.cpp", f"b{key}", args, {}, (note,))


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest chain at the first batch size."""
    spec_type = fitting.of_family(TYPES)
    model = None if spec_type == "ngram-simple" else fitting.module if spec_type == "draft-mtp" else fitting.model
    made = export(fitting.chain, version=version, model=model, spec_type=spec_type)
    return made.after(*fitting.notes_of_chain())


ENGINE = Engine(
    name="llama.cpp",
    title="llama.cpp",
    versions=VERSIONS,
    parts=1,
    exporter=_fitted,
    readers={"llama.cpp-log": lambda text, least: from_log(text, min_trials=least)},
    off=("--spec-type", "none"),
    benchmarks=FORMATS,
    observers={
        "llama.cpp-log": Observer(
            lambda text, least: observed_in_log(text, lambda: from_log(text, min_trials=least)),
        )
    },
    advice=ADVICE,
)
