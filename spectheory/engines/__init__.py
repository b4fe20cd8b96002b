"""Serving engines, one file each: plans are exported to them, and their reports are read as statistics.

Each exporter translates a plan into the flags and files of its engine, in the engine's own counting, and refuses what
the given version of the engine cannot run.

>>> chains = [ChainRange(1, 64, 3), ChainRange(65, 512, 0)]
>>> tensorrt_llm.export(chains, version="1.3.0rc27", model="draft").files["speculative_config.yaml"].splitlines()[-1]
'  draft_len_schedule: {64: 3}'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown
from spectheory.core.plugins import plugins, require_usable
from spectheory.engines import (
    aiperf,
    eagle,
    hugging_face,
    llama_cpp,
    medusa,
    mlx_lm,
    reports,
    sequoia,
    sglang,
    tensorrt_llm,
    vllm,
)
from spectheory.engines.benchmark_file import BenchmarkRuns, read_benchmark
from spectheory.engines.cycle_parts import Times
from spectheory.engines.diagnosing import diagnosed, observe, with_given
from spectheory.engines.engine import Engine
from spectheory.engines.exports import Export
from spectheory.engines.observed import Observed
from spectheory.engines.sglang_points import BenchPoint
from spectheory.engines.speed_factors import Usual
from spectheory.engines.statistics import Statistics
from spectheory.hardware.engine_costs import shipped_rows
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.placement import DEFAULT_ENGINE
from spectheory.hardware.runs import Conditions, Run
from spectheory.planning.fitting import Fitting
from spectheory.planning.runnable import ChainRange, Envelope
from spectheory.planning.schedule_record import Schedule
from spectheory.results.diagnosis import Diagnosis

__all__ = [
    "ALL",
    "BenchPoint",
    "BenchmarkRuns",
    "ChainRange",
    "Conditions",
    "Engine",
    "Envelope",
    "Export",
    "Observed",
    "Run",
    "Statistics",
    "Usual",
    "aiperf",
    "benchmark_names",
    "diagnose",
    "diagnosis_names",
    "eagle",
    "engine",
    "engines",
    "export",
    "hugging_face",
    "llama_cpp",
    "medusa",
    "mlx_lm",
    "names",
    "observed_in",
    "read_report",
    "read_runs",
    "recognised_reports",
    "report_names",
    "sequoia",
    "sglang",
    "tensorrt_llm",
    "timed_engine",
    "vllm",
]

ALL: tuple[Engine, ...] = (
    vllm.ENGINE,
    sglang.ENGINE,
    tensorrt_llm.ENGINE,
    eagle.ENGINE,
    medusa.ENGINE,
    hugging_face.ENGINE,
    llama_cpp.ENGINE,
    mlx_lm.ENGINE,
    sequoia.ENGINE,
    aiperf.ENGINE,
)
"""The engines of this package, and the load generator AIPerf, whose files are those of any engine."""


def engines() -> list[Engine]:
    """The engines of `ALL`, then the engines that installed packages register in the group `spectheory.engines`.

    An entry point that cannot be used, or has the name of another engine, is left out with a warning; see `plugins`.
    """
    return list(_lazily())


def names() -> list[str]:
    """The names of all `engines`."""
    return [each.name for each in engines()]


def report_names() -> list[str]:
    """The names of all reports that can be read, such as "vllm-log"."""
    return [name for each in engines() for name in each.readers]


def benchmark_names() -> list[str]:
    """The names of all formats of benchmarks' files that can be read, such as "llama.cpp-bench"."""
    return [name for each in engines() for name in each.benchmarks]


def engine(name: str) -> Engine:
    """The engine with this name.

    Raises:
        InputError: no engine has this name. The message lists similar names.
    """
    found = next((each for each in _lazily() if each.name == name), None)
    if found is None:
        require_usable(name, {"spectheory.engines": Engine})
        raise InputError(unknown("engine", name, names()))
    return found


def _lazily() -> Iterator[Engine]:
    """The engines of `ALL`, then the engines of other packages, which are loaded only if the caller gets that far."""
    yield from ALL
    taken = [each.name for each in ALL]
    yield from plugins("spectheory.engines", Engine, taken=taken, name_of=lambda each: each.name)


def export(
    plan: Schedule,
    name: str,
    *,
    version: str | None = None,
    draft: str | None = None,
    target: str | ModelConfig | None = None,
) -> Export:
    """The flags and files with which an engine runs a plan or a schedule, as far as the engine can.

    The notes of the export say how much slower it is than the plan. If plain decoding is fastest, the export turns
    speculation off.

    Args:
        plan: a plan or a schedule, for all of its batch sizes.
        name: name of the engine, one of `spectheory.engines.names()`.
        version: version of the engine; default: the newest version that the exporter was written against.
        draft: name or path with which the engine loads the draft; default: the draft in the plan's provenance.
        target: known model or path of its config.json; default: the target in the plan's provenance.

    Raises:
        InputError: the engine or the version is unknown, or it cannot run the plan.

    >>> import spectheory as st
    >>> plan = st.plan(st.Acceptance.by_rank([0.7]), st.Latency.constant(draft_seconds=0.1), max_budget=8)
    >>> st.export(plan, "mlx-lm", draft="owner/draft").command
    '--draft-model owner/draft --num-draft-tokens 4'
    """
    return engine(name).export(Fitting.of(plan, draft=draft, target=target), version)


def read_report(
    report: str | Path | Sequence[str | Path], name: str, *, min_trials: int = 100, assume_constant: int | None = None
) -> Statistics | list[BenchPoint]:
    """Read what an engine reports about its speculation: as statistics, or as points for the report `sglang-bench`.

    The `acceptance` of the statistics is a record for `spectheory.plan`. Its provenance lists what had to be assumed.

    Args:
        report: text of a report, or Path of its file. Several reports of one kind are added; each must count cycles of
            its own.
        name: kind of the report, one of `spectheory.engines.report_names()`.
        min_trials: depths that were reached in fewer cycles are left out.
        assume_constant: if only totals are reported, assume chains of this many drafted tokens, and one acceptance
            rate for all of them.

    Raises:
        InputError: `name` is unknown, a report cannot be read or is given twice, or the reports cannot be added.

    >>> read_report("0.6 0.2 0.05", "sequoia-vector").acceptance.table.tolist()
    [[0.6, 0.2, 0.05]]
    """
    several, reader = _several(report), _knowing("readers", "report", name)
    return reports.read(reader, name, several, min_trials, assume_constant)


def diagnosis_names() -> list[str]:
    """The names of all reports that `diagnose` can read, such as "vllm-metrics"."""
    return [name for each in engines() for name in each.observers]


def timed_engine(kind: str) -> str:
    """The engine whose shipped costs suit a server with this kind of report: its own if they are known, else `vllm`.

    Raises:
        InputError: `kind` is not a known report of a server.

    >>> timed_engine("sglang-metrics")
    'sglang'
    """
    found = _knowing("observers", "report of a server", kind).name
    return found if found in {row.engine for row in shipped_rows()} else DEFAULT_ENGINE


def observed_in(
    report: str | Path | Sequence[str | Path], kind: str, *, model: str | None = None, min_trials: int = 100
) -> list[Observed]:
    """What the models of a server did, by its log or its metrics.

    Args:
        report: text of a log or of a scrape, or Path of its file. Of two scrapes, the first is subtracted from the
            second, so that the result is about the time between them.
        kind: kind of the report, one of `spectheory.engines.diagnosis_names()`.
        model: value of the label `model_name`; None returns every model that decoded.
        min_trials: positions of a draft that were reached in fewer cycles are left out.

    Raises:
        InputError: `kind` or `model` is unknown, a report cannot be read, or the scrapes are not of one run of a
            server.
    """
    observer = _knowing("observers", "report of a server", kind)
    return observe(observer, kind, _several(report), model=model, min_trials=min_trials)


def diagnose(
    report: str | Path | Sequence[str | Path],
    kind: str,
    *,
    plain: str | Path | Sequence[str | Path] | None = None,
    times: Times | None = None,
    model: str | None = None,
    nodes: int | None = None,
    depth: int | None = None,
    batch: float | None = None,
    context: int | None = None,
    usual: Usual | None = None,
    min_trials: int = 100,
) -> list[Diagnosis]:
    """Why speculation on a server is as fast as it is: one diagnosis for each model that it serves.

    Each diagnosis says which of these make the server slower than it could be, with the numbers: acceptance is low, the
    draft is slow, verification is not flat (verifying several tokens takes longer than one), the batch is too large, or
    the overhead is large. If the report does not tell whether a cause applies, the diagnosis says which measurement
    would tell.

    Args:
        report: a log, or one or two scrapes, see `observed_in`.
        kind: see `observed_in`.
        plain: the same kind of report, of the same server and load without speculation.
        times: forward times: a `Deployment`, whose times are measured or computed for the batch size of the server and
            for 1, or latencies of one or several batch sizes. Without them, the parts of a cycle are not known.
        model: see `observed_in`.
        nodes: drafted tokens per cycle, the root excluded, if the report does not say it.
        depth: levels of the drafts, if they are trees.
        batch: mean number of sequences that decode together, if the report does not say it.
        context: tokens in the KV cache of each sequence, for latencies.
        usual: the usual values with which the factors are compared.
        min_trials: see `observed_in`.

    Raises:
        InputError: see `observed_in`; or a figure contradicts the report.

    >>> line = "Decode batch. #running-req: 4, accept len: 1.30, gen throughput (token/s): 130.0, #queue-req: 0"
    >>> (found,) = diagnose(line, "sglang-log", nodes=5)
    >>> found.causes, found.cycle_seconds, found.unknown
    (('acceptance',), 0.04, ('draft', 'verification', 'batch', 'overhead'))
    """
    engine = _knowing("observers", "report of a server", kind)
    seen = observed_in(report, kind, model=model, min_trials=min_trials)
    without = {} if plain is None else {each.model: each for each in observed_in(plain, kind, min_trials=min_trials)}
    if drafted := next((each for each in without.values() if each.statistics is not None), None):
        raise InputError(f"plain must be without speculation, but {drafted.engine} drafted tokens in it")
    if plain is not None and not any(each.model in without for each in seen):
        raise InputError(f"plain must be of the same model, {seen[0].model}, got {', '.join(without)}")
    return [
        diagnosed(
            with_given(each, nodes, depth, batch),
            engine.advice,
            plain=without.get(each.model),
            times=times,
            context=context,
            usual=usual,
        )
        for each in seen
    ]


def _knowing(part: str, what: str, name: str) -> Engine:
    """The engine whose `readers` or `observers` have this name; errors say `what` was not found."""
    found = next((each for each in _lazily() if name in getattr(each, part)), None)
    if found is None:
        raise InputError(unknown(what, name, [known for each in engines() for known in getattr(each, part)]))
    return found


def _several(report: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """The reports as a list. Raises InputError for an empty list."""
    several = [report] if isinstance(report, str | Path) else list(report)
    if not several:
        raise InputError("report must be a text, a Path or a list of them, got an empty list")
    return several


def recognised_reports(text: str, *, min_trials: int = 1) -> list[str]:
    """The kinds of reports as which `read_report` can read a text: its format is recognised by its own fields.

    Args:
        text: text of a report.
        min_trials: see `read_report`; with the least, a report with few cycles is recognised too.

    >>> recognised_reports("draft acceptance rate = 0.50000 (  300 accepted /   600 generated)")
    ['llama.cpp-log']
    """
    found = []
    for name in report_names():
        with suppress(InputError):
            read_report(text, name, min_trials=min_trials)
            found.append(name)
    return found


def read_runs(path: str | Path, conditions: Conditions | None = None) -> BenchmarkRuns:
    """Read the file of an engine's own benchmark as runs: measured times from which a latency can be calibrated.

    The format is recognised by the fields in the file, not by its name. `benchmark_names` lists the formats.

    Args:
        path: the file that the benchmark wrote.
        conditions: what the file does not say, such as tau, or the sizes of `vllm bench latency`. They hold for every
            entry of the file.

    Raises:
        InputError: the file cannot be read, is in no known format, or is damaged; its figures contradict each other or
            `conditions`; it measures several deployments, or it has no run that can be used.

    >>> import tempfile
    >>> line = '{"n_kv_max": 4096, "pp": 512, "tg": 33, "pl": 4, "t_tg": 0.66, "speed_tg": 200.0}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "batched.jsonl")
    ...     _ = file.write_text(line)
    ...     (run,) = read_runs(file).runs
    >>> run.kind, run.batch, run.context, run.seconds
    ('plain', 4, 528.0, 0.02)
    """
    known = {name: form for each in engines() for name, form in each.benchmarks.items()}
    return read_benchmark(Path(path), known, Conditions() if conditions is None else conditions)
