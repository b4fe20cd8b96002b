"""llama.cpp: statistics from its log, files of `llama-bench`, and a chain as flags.

Builds b9235 (2026-05-22) to b11434, which ran here on 2026-11-27. Flags: `--spec-draft-n-max` by PR #22397,
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
trace level. The mean length is tau: 1 + accepted tokens / drafts. `eval time = ... ms / ... tokens` is the time of a
request after its first token, which is counted. In `statistics draft-...: #calls(b,g,a) = ..., dur(b,g,a) = ... ms`
(common/speculative.cpp) the middle figures are the calls that draft and their time, both since the start of the server.

llama-bench, from tools/llama-bench/llama-bench.cpp (stored commit 0104b151 of https://github.com/ggml-org/llama.cpp,
read 2026-11-22): a test processes `n_prompt` tokens in forwards of at most `n_ubatch`, then `n_gen` tokens one by one,
of one sequence with `n_depth` tokens in the cache before (older builds: none). `avg_ns` and `samples_ns` are the times
of the whole test, `avg_ts` is the mean of the rates of the samples. `gpu_info` lists all GPUs of the machine, with ", "
or, in older builds, "/" between them; `devices` lists those that were chosen, and with `split_mode` none one is used.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.engines import statistics
from spectheory.engines.benchmark_file import BenchmarkFormat, Entry
from spectheory.engines.engine import Engine, Export, Observed, Reader, nothing_decoded
from spectheory.engines.report_values import agree, missing, require_whole
from spectheory.engines.serving_run import mean_context
from spectheory.engines.statistics import ROUNDED_TAU, TOTALS_ONLY, Counts, Line, Statistics
from spectheory.hardware.runs import Conditions, Run
from spectheory.planning.fitting import Fitting

VERSIONS = dict.fromkeys(map(str, range(9235, 11435)), "--spec-draft-n-max")
TYPES = {"model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp", "ngram": "ngram-simple"}
"""The values of `--spec-type` for a whole model, an EAGLE-3 head, the module in the target's file, and n-gram lookup.
"""
LOOKED_UP, LONGEST_LOOKUP = 12, 1024
"""The usual number of tokens that n-gram lookup looks for, and the largest number that it drafts."""
P_MIN_NOTE = "p-min 0 keeps all drafts at full length; otherwise llama.cpp shortens a draft where the draft is unsure"


def export(length: int, *, version: str, model: str | None, spec_type: str = "draft-simple") -> Export:
    """A chain of `length` tokens, the same for every cycle, as flags of llama-server and llama-cli.

    `model` is the GGUF file of the draft, None for the types "draft-mtp" and "ngram-simple".
    """
    key = ENGINE.release(version)
    flag = VERSIONS[key]
    check_whole("length", length, 1, ": name no draft to run without speculation")
    args, notes = ["--spec-type", spec_type], [P_MIN_NOTE]
    if spec_type == "ngram-simple":
        if length > LONGEST_LOOKUP:
            raise InputError(f"length must be at most {LONGEST_LOOKUP} for ngram-simple, got {length}: draft fewer")
        simple, size = "--spec-ngram-simple-size", min(LOOKED_UP, length)
        args += [f"{simple}-n", str(size), f"{simple}-m", str(length), flag, str(length)]
        note = (
            f"drafts follow the last place in the text where the last {size} tokens stand: count the acceptance with "
            "the same number, because fewer tokens are found more often and accepted less"
        )
        return Export("llama.cpp", f"b{key}", tuple(args), {}, (note,))
    if model:
        args += ["-md", model]
        if not model.endswith(".gguf"):
            notes.append(
                f"-md takes a GGUF file: convert {model} to GGUF and give that file, or give a GGUF repository with "
                "-hfd"
            )
    elif spec_type == "draft-mtp":
        notes.append("the target's GGUF file must contain the module, and --help of the build must list draft-mtp")
    else:
        raise InputError("model must name the draft's GGUF file")
    if spec_type == "draft-eagle3":
        notes.append(
            "draft-eagle3 works since PR #18039 (merged 2026-06); earlier builds accept the name but do not draft"
        )
    args += [flag, str(length), "--spec-draft-p-min", "0"]
    return Export("llama.cpp", f"b{key}", tuple(args), {}, tuple(notes))


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest chain at the first batch size."""
    spec_type = fitting.of_family(TYPES)
    made = export(fitting.chain, version=version, model=fitting.loaded, spec_type=spec_type)
    return made.after(*fitting.notes_at_first(fitting.chain))


_RATES = r"(?:acceptance rate per position|acc per pos|#acc rate/pos)\s*=\s*\(?\s*([\d.]+(?:\s*,\s*[\d.]+)*)"
_TAU = r"(?:mean acceptance length|mean len|#mean acc len)\s*=\s*([\d.]+)"
ROUNDED_SHARE = 0.5e-5 + 1e-7
"""Tolerance for `draft acceptance`, a quotient in single precision with five decimals."""
_SLOT = r"draft acceptance(?: rate)?\s*=\s*([\d.]+)\s*\(\s*(\d+)\s*accepted\s*/\s*(\d+)\s*generated\s*\)"
_NOTHING = r"draft acceptance(?: rate)?\s*=.*/\s*0\s*generated"
_CALLS = r"#calls(?:\(b,g,a\)\s*=\s*\d+\s+|\s*=\s*)(\d+)"
_TOTALS = r"#gen drafts\s*=\s*(\d+),\s*#acc drafts\s*=\s*(\d+),\s*#gen tokens\s*=\s*(\d+),\s*#acc tokens\s*=\s*(\d+)"
_EVAL = r"(?<!prompt )\beval time\s*=\s*([\d.]+) ms\s*/\s*(\d+)\s*(?:tokens|runs)"
_DRAFTING = (
    r"statistics\s+([\w-]+):\s*#calls\(b,g,a\)\s*=\s*\d+\s+(\d+)\s+\d+"
    r".*?dur\(b,g,a\)\s*=\s*[\d.]+,\s*([\d.]+),\s*[\d.]+ ms"
)


def from_log(text: str, min_trials: int = 100) -> Statistics:
    """Statistics of a log: the sum over the lines of all requests, or one line with the server's running totals.

    A request has a line `draft acceptance = ...`, and perhaps a line `acc per pos = ...` that follows it.
    """
    require_whole(text, r"draft acceptance(?: rate)?\s*=", f"{_SLOT}|{_NOTHING}")
    totals = [line for line in text.splitlines() if re.search(_TOTALS, line)]
    parts = _requests(text)
    fuller = f"{_RATES}|{_TAU}" if totals and not re.search(_RATES, totals[0]) else _RATES
    if not parts or (len(parts) == len(totals) == 1 and not re.search(fuller, parts[0])):
        if len(totals) != 1:
            names = re.findall(r"#?[A-Za-z][\w /]*(?=\s*=)", text[:10_000])
            if totals:
                raise InputError(f"the log must have one line of running totals, got {len(totals)}: give the last one")
            raise missing(
                "the log", ["draft acceptance", "draft acceptance rate", "#gen drafts"], map(str.strip, names)
            )
        return _of_server(totals[0], min_trials)
    read = [_of_request(part) for part in parts if len(parts) == 1 or not re.search(_NOTHING, part)]
    lines = [each for each in read if isinstance(each, Line)]
    if lines and len(lines) == len(read):
        return statistics.from_lines(lines, min_trials)
    counts, cycles = [Counts(None, each.drafted, each.accepted or 0) for each in read], _timed(text)[2]
    if len(parts) > 1:
        return statistics.added(counts, "lines of the log", min_trials)
    if isinstance(read[0], Statistics) and (read[0].tau is not None or cycles <= 0):
        return read[0]
    said = ["cycles are counted as the timed tokens that were not accepted"]
    return statistics.added([replace(counts[0], drafts=cycles)], "", min_trials, said)


def _requests(text: str) -> list[str]:
    kept = [line for line in text.splitlines() if not re.search(_TOTALS, line)]
    starts = [i for i, line in enumerate(kept) if re.search(_SLOT, line)]
    return ["\n".join(kept[a:b]) for a, b in pairwise([*starts, len(kept)])]


def _rates(text: str) -> list[float]:
    """The rates by position; empty if there are none."""
    found = re.search(_RATES, text)
    return [float(rate) for rate in found[1].split(",")] if found else []


def _of_request(text: str) -> Line | Statistics:
    """The figures of the lines of one request; statistics if they have no rates by position."""
    share, accepted, drafted = re.findall(_SLOT, text)[0]
    accepted, drafted, tau = int(accepted), int(drafted), re.search(_TAU, text)
    if drafted:
        agree("draft acceptance", float(share), accepted / drafted, "accepted / generated", ROUNDED_SHARE)
    if tau and (rates := _rates(text)):
        return Line(float(tau[1]), rates, accepted, drafted)
    length, said = None, "the line does not say how many cycles there were"
    if tau:  # each draft has at least one token
        length, most = float(tau[1]), 1 + accepted
        least = 1 + accepted / max(drafted, 1)
        agree("mean acceptance length", length, least, f"{accepted} of {drafted}", ROUNDED_TAU, most)
    return Statistics(None, length, None, drafted, accepted, (TOTALS_ONLY, said))


def _of_server(line: str, min_trials: int) -> Statistics:
    """Statistics of a line of running totals."""
    drafts, taken, drafted, accepted = map(int, re.findall(_TOTALS, line)[0])
    if taken > drafts or accepted < taken or drafted < drafts:
        raise InputError(
            f"#gen drafts={drafts}, #acc drafts={taken}, #gen tokens={drafted}, #acc tokens={accepted} contradict each "
            "other: pass the line as the server wrote it"
        )
    tau, calls = re.search(_TAU, line), [int(n) for n in re.findall(_CALLS, line)]
    if tau and (rates := _rates(line)):
        found = statistics.from_lines([Line(float(tau[1]), rates, accepted, drafted)], min_trials)
    else:
        found = statistics.added([Counts(drafts, drafted, accepted)], "", min_trials)
    return statistics.of_steps(found, calls[0] if calls else drafts)


def _timed(text: str) -> tuple[float, int, int]:
    """Seconds, tokens and cycles of all timed requests.

    A cycle emits one token more than it accepts, and the first token comes with the prompt, before the time starts. So
    the cycles of a request are its tokens without the first one and those accepted.
    """
    timed = [(float(ms) / 1e3, int(tokens) - 1) for ms, tokens in re.findall(_EVAL, text)]
    seconds, tokens = sum(row[0] for row in timed), sum(row[1] for row in timed)
    return seconds, tokens, tokens - sum(int(accepted) for _, accepted, _ in re.findall(_SLOT, text))


def observe_log(text: str, min_trials: int) -> Observed:
    """A server by the times of its requests, and with the tau that `from_log` reads."""
    seconds, tokens, cycles = _timed(text)
    found = from_log(text, min_trials) if "draft acceptance" in text or "#gen drafts" in text else None
    if not tokens and found is None:
        raise nothing_decoded()
    last = {name: (int(calls), float(ms) / 1e3) for name, calls, ms in re.findall(_DRAFTING, text)}
    calls = sum(row[0] for row in last.values())
    timed_cycles = tokens > 0 and cycles > 0
    if found and found.tau is None and timed_cycles:
        found = replace(found, tau=tokens / cycles)
    return Observed(
        statistics=found,
        step_seconds=seconds / cycles if timed_cycles else None,
        draft_seconds=sum(row[1] for row in last.values()) / calls if calls else None,
        notes=("the log does not say how many requests decoded together",),
    )


LONGEST_FORWARD = 256
"""A prompt of at most this many tokens is like the forward of a verified tree; a longer prompt is only a prefill."""
LAST_LOGITS = "a forward of a prompt computes the logits of its last token only; a verification computes all of them"
SPREAD = 0.1
"""By this share the mean rate may differ from the times: without samples, it is above the rate of the mean time."""


def _bench(entry: Entry, conditions: Conditions) -> Run | str:
    """The run of a test of `llama-bench`: `tg` is plain steps of batch 1, a short `pp` is a forward.

    Tests `pg`, which time a prompt and generated tokens together, and long prompts are not used, and neither are tests
    with a part of the model on the CPU. The seconds are the median of the samples.
    """
    del conditions
    prompt, generated = entry.count("n_prompt"), entry.count("n_gen")
    depth = entry.count("n_depth") if entry.has("n_depth") else 0
    test = f"pp{prompt}+tg{generated}" if prompt and generated else f"tg{generated}" if generated else f"pp{prompt}"
    entry = Entry(f"{entry.where} ({test})", entry.data)
    if reason := _why_not(entry, prompt, generated):
        return f"{entry.where} {reason}"
    gpus = [name for name in re.split(r"\s*[,/]\s*", entry.text("gpu_info") or "") if name]
    devices = entry.text("devices")
    most = 1 if entry.data.get("split_mode") == "none" else len(devices.split("/")) if devices else len(gpus)
    used = gpus[:most]
    named: dict[str, Any] = {
        "model": entry.text("model_filename"),
        "gpu": " + ".join(dict.fromkeys(used)) or None,
        "gpus": len(used) or None,
        "engine": "llama.cpp",
        "version": f"b{entry.count('build_number')}" if entry.has("build_number") else None,
        "source": entry.where,
    }
    tokens = prompt + generated
    times, rate = entry.numbers("samples_ns") or [entry.positive("avg_ns")], entry.positive("avg_ts")
    low, high = 1e9 * tokens / max(times), 1e9 * tokens / min(times)
    agree(f"{entry.where}: avg_ts", rate, low, f"{tokens} tokens and the times", SPREAD * rate, high)
    seconds = median(times) / 1e9
    if generated:
        return Run("plain", 1, mean_context(depth, generated), seconds / generated, **named)
    return Run("forward", 1, depth, seconds, tokens=prompt, **named)


def _why_not(entry: Entry, prompt: int, generated: int) -> str:
    """Why a test is not used; empty if it is."""
    if prompt and generated:
        return "times a prompt and generated tokens together"
    if not prompt and not generated:
        return "processes no tokens"
    if not generated and prompt > LONGEST_FORWARD:
        return f"is a prefill of more than {LONGEST_FORWARD} tokens"
    if not generated and entry.has("n_ubatch") and prompt > entry.count("n_ubatch"):
        return f"splits its prompt into forwards of n_ubatch={entry.count('n_ubatch')} tokens"
    if entry.data.get("backends") != "CPU" and entry.data.get("n_gpu_layers") == 0:
        return "has no layer on the GPU (n_gpu_layers=0)"
    if entry.has("n_cpu_moe") and entry.count("n_cpu_moe"):
        return f"has the experts of {entry.count('n_cpu_moe')} layers on the CPU (n_cpu_moe)"
    return "has the KV cache on the CPU (no_kv_offload)" if entry.data.get("no_kv_offload") is True else ""


ENGINE = Engine(
    name="llama.cpp",
    title="llama.cpp",
    versions=VERSIONS,
    parts=1,
    exporter=_fitted,
    readers={"llama.cpp-log": Reader(from_log, observe_log, requests=_requests)},
    off=("--spec-type", "none"),
    benchmarks={"llama.cpp-bench": BenchmarkFormat(("n_prompt", "n_gen", "avg_ts"), _bench, assumed=(LAST_LOGITS,))},
)
