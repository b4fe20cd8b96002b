"""Serving engines, one file each: plans are exported to them, and their reports are read as statistics.

Each exporter translates a plan into the flags and files of its engine, in the engine's own counting, and refuses what
the given version of the engine cannot run.

>>> chains = [ChainRange(1, 64, 3), ChainRange(65, 512, 0)]
>>> tensorrt_llm.export(chains, version="1.3.0rc27", model="draft").files["speculative_config.yaml"].splitlines()[-1]
'  draft_len_schedule: {64: 3}'
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from spectheory.core.checks import check_number, check_whole, checked
from spectheory.core.errors import InputError, unknown
from spectheory.core.plugins import plugins
from spectheory.engines import eagle, hugging_face, llama_cpp, mlx_lm, reports, sglang, tensorrt_llm, vllm
from spectheory.engines.benchmark_file import BenchmarkRuns, read_benchmark
from spectheory.engines.diagnosing import Diagnosis, Times, diagnosed
from spectheory.engines.engine import Engine, Export, Reader
from spectheory.engines.reports import Report
from spectheory.engines.statistics import NothingDraftedError, Statistics
from spectheory.hardware.engine_costs import DEFAULT_ENGINE, shipped_rows
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.runs import Conditions, Run
from spectheory.planning.envelope import Envelope
from spectheory.planning.fitting import ChainRange, Fitting
from spectheory.planning.schedule_record import Schedule

__all__ = [
    "ALL",
    "BenchmarkRuns",
    "ChainRange",
    "Conditions",
    "Diagnosis",
    "Engine",
    "Envelope",
    "Export",
    "Reader",
    "Run",
    "Statistics",
    "diagnose",
    "engine",
    "engine_of",
    "engines",
    "export",
    "names",
    "read_report",
    "read_runs",
    "recognised_reports",
    "release_of",
    "report_names",
    "timed_engine",
]

ALL: tuple[Engine, ...] = (
    vllm.ENGINE,
    sglang.ENGINE,
    tensorrt_llm.ENGINE,
    eagle.ENGINE,
    hugging_face.ENGINE,
    llama_cpp.ENGINE,
    mlx_lm.ENGINE,
)
"""The engines of this package."""


def engines() -> Iterator[Engine]:
    """The engines of `ALL`, then those that installed packages register in the group `spectheory.engines`."""
    yield from ALL
    taken = [each.name for each in ALL]
    yield from plugins("spectheory.engines", Engine, taken=taken, name_of=lambda each: each.name)


def names() -> list[str]:
    """The names of all `engines`."""
    return [each.name for each in engines()]


def report_names() -> list[str]:
    """The names of all reports that can be read, such as "vllm-log"."""
    return [name for each in engines() for name in each.readers]


@checked
def engine(name: str) -> Engine:
    """The engine with this name.

    Raises:
        InputError: no engine has this name. The message lists similar names.
    """
    found = next((each for each in engines() if each.name == name), None)
    if found is None:
        raise InputError(unknown("engine", name, names()))
    return found


def release_of(name: str) -> tuple[Engine, str]:
    """The engine, and the key of its version, of a name such as "vllm@0.31"; without a version, of the newest.

    Raises:
        InputError: the engine or the version is unknown, or plans cannot be exported to the engine.

    >>> release_of("vllm@0.31.2")[1], release_of("eagle")[1]
    ('0.31', '3')
    """
    wanted, _, version = name.partition("@")
    found = engine(wanted)
    return found, found.release(version or None)


def engine_of(kind: str) -> Engine:
    """The engine that has a reader for this kind of report."""
    found = next((each for each in engines() if kind in each.readers), None)
    if found is None:
        raise InputError(unknown("report", kind, report_names()))
    return found


@checked
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


@checked
def read_report(
    report: Report,
    name: str,
    *,
    model: str | None = None,
    min_trials: int = 100,
    assume_constant: int | None = None,
    add: bool = False,
) -> Statistics:
    """Read what an engine reports about its speculation.

    The `acceptance` of the statistics is a record for `spectheory.plan`. Its provenance lists what had to be assumed.

    Args:
        report: text of a report, or Path of its file. Several logs or responses are read as one; of two scrapes of
            Prometheus, the first is subtracted from the second.
        name: kind of the report, one of `spectheory.engines.report_names()`.
        model: value of the label `model_name`, for scrapes of a server with several models.
        min_trials: depths that were reached in fewer cycles are left out.
        assume_constant: if only totals are reported, assume chains of this many drafted tokens, and one acceptance
            rate for all of them.
        add: add reports that do not say that one server with one model and drafter wrote them, and lines given twice.

    Raises:
        InputError: `name` or `model` is unknown, a report cannot be read or is given twice, reports do not belong
            together (see `add`), or scrapes are not of one run of a server or are of several models.

    >>> read_report("draft acceptance rate = 0.50000 (  300 accepted /   600 generated)", "llama.cpp-log").drafted
    600
    """
    check_whole("min_trials", min_trials, 0)
    return reports.read(engine_of(name), name, report, model, min_trials, assume_constant, add)


def timed_engine(kind: str) -> str:
    """The engine whose shipped costs suit a server with this kind of report: its own if they are known, else `vllm`."""
    found = engine_of(kind).name
    return found if found in {name for row in shipped_rows() for name in row.names} else DEFAULT_ENGINE


@checked
def diagnose(
    report: Report,
    kind: str,
    *,
    plain: Report | None = None,
    times: Times | None = None,
    model: str | None = None,
    shape: tuple[int, int] | None = None,
    batch: float | None = None,
    min_trials: int = 100,
    add: bool = False,
) -> list[Diagnosis]:
    """What speculation does on a server, beside what forward times predict: a diagnosis for each model that it serves.

    Args:
        report: a log, or one or two scrapes, see `read_report`.
        kind: kind of the report: a log or metrics, such as "vllm-metrics".
        plain: the same kind of report, of the same server and load without speculation.
        times: forward times: a `Deployment`, whose times are measured or computed for the batch size of the server, or
            latencies of one or several batch sizes. Without them nothing is predicted.
        model: value of the label `model_name`; default: every model that decoded.
        shape: drafted tokens per cycle, the root excluded, and their levels, if the report does not say it.
        batch: mean number of sequences that decode together, if the report does not say it.
        min_trials: see `read_report`.
        add: see `read_report`.

    Raises:
        InputError: see `read_report`; or the report has no times, or a figure contradicts it.

    >>> line = "Decode batch. #running-req: 4, accept len: 1.30, gen throughput (token/s): 130.0, #queue-req: 0"
    >>> (found,) = diagnose(line, "sglang-log")
    >>> found.tau, found.observed.cycle
    (1.3, 0.04)
    """
    engine = engine_of(kind)
    if batch is not None:
        check_number("batch", batch, 1, 1e6)
    seen = reports.observe(engine, kind, report, model, min_trials, add)
    without = {} if plain is None else reports.observe(engine, kind, plain, None, min_trials, add)
    if any(each.statistics is not None for each in without.values()):
        raise InputError("plain must be without speculation, but tokens were drafted in it")
    if plain is not None and not seen.keys() & without.keys():
        raise InputError(f"plain must be of the same model, {next(iter(seen))}, got {', '.join(without)}")
    found = {name: each if batch is None else replace(each, batch=batch) for name, each in seen.items()}
    return [diagnosed(engine.title, name, each, without.get(name), times, shape) for name, each in found.items()]


def recognised_reports(text: str, *, min_trials: int = 1) -> list[str]:
    """The kinds of reports as which `read_report` can read a text: its format is recognised by its own fields.

    >>> recognised_reports("draft acceptance rate = 0.50000 (  300 accepted /   600 generated)")
    ['llama.cpp-log']
    """
    found = []
    for name in report_names():
        with suppress(InputError):
            with suppress(NothingDraftedError):
                read_report(text, name, min_trials=min_trials)
            found.append(name)
    return found


@checked
def read_runs(path: str | Path, conditions: Conditions | None = None) -> BenchmarkRuns:
    """Read the file of an engine's own benchmark as runs: measured times from which a latency can be calibrated.

    The format is recognised by the fields in the file, not by its name.

    Args:
        path: the file that the benchmark wrote.
        conditions: what the file does not say, such as tau. They hold for every entry of the file.

    Raises:
        InputError: the file cannot be read, is in no known format, or is damaged; its figures contradict each other or
            `conditions`; it measures several deployments, or it has no run that can be used.
    """
    known = {name: form for each in engines() for name, form in each.benchmarks.items()}
    return read_benchmark(Path(path), known, Conditions() if conditions is None else conditions)
