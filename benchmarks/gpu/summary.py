"""A summary of the JSON records of a folder, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.place import DRY_RUN
from benchmarks.gpu.profile import MODELS, file_of, read, seconds_of
from benchmarks.gpu.reduce import WAYS, error_of, records
from spectheory import Provenance
from spectheory.core.errors import InputError
from spectheory.report.calibration import calibration_rows, calibration_words
from spectheory.report.markdown import markdown_table
from spectheory.report.tables import TextTable
from spectheory.report.wall_clock import clock_rows, clock_words
from spectheory.results.calibration import Calibration
from spectheory.results.wall_clock import WallClock


def summary(folder: Path) -> str:
    """One section for each command whose records the folder holds.

    Raises:
        InputError: the folder holds no record.
    """
    sections = [*_profiles(folder), *_latencies(folder), *_training(folder), *_matrix(folder), *_clocks(folder)]
    if not sections:
        raise InputError(f"{folder} holds no record of python -m benchmarks.gpu: run a part with --out {folder} first")
    return "\n".join(sections)


def _profiles(folder: Path) -> Iterator[str]:
    """Seconds of the smallest and the largest forward of each model, and the roofline's error, by batch size."""
    for profile in (read(file_of(folder, name)) for name in MODELS if file_of(folder, name).exists()):
        rows = []
        for batch in profile["grid"]["batches"]:
            points = [point for point in profile["points"] if point["batch"] == batch]
            ran = [point for point in points if "launched" in point]
            if not ran:
                continue
            first, last = ran[0], max(ran, key=lambda point: (point["context"], point["tokens"]))
            ways = [_ms(seconds_of(point, way)) for point in (first, last) for way in WAYS]
            size = f"{last['tokens']} after {last['context']:,}"
            errors = [str(error_of(profile, batch, [way]) or "-") for way in WAYS]
            rows.append((str(batch), f"{len(ran)} of {len(points)}", *ways[:2], size, *ways[2:], *errors))
        one = f"1 after {profile['grid']['contexts'][0]:,}"
        header = (
            "batch",
            "points",
            f"{one}: ms",
            "graph",
            "largest",
            "ms",
            "graph",
            "roofline's error",
            "for the graph",
        )
        yield _section(f"Forwards of {profile['model']}", Provenance.from_dict(profile["provenance"]), [])
        yield markdown_table(TextTable("", header, tuple(rows)))


def _latencies(folder: Path) -> Iterator[str]:
    """Cost of 16 and 64 tokens in forwards of one token, by pair and batch size."""
    rows = []
    for latency in records(folder):
        stamp, context = latency.provenance, int(latency.contexts[0])
        one, most = latency.target(1, context), int(latency.tokens[-1])
        ratios = [f"{latency.target(n, context) / one:.2f}" if n <= most else "-" for n in (16, 64)]
        pair = f"{stamp.target} with {stamp.draft}"
        ratios.append(f"{one / latency.draft(1, context):.1f}")
        rows.append((pair, str(latency.batch), f"{context:,}", _ms(one), *ratios))
    if rows:
        header = ("pair", "batch", "context", "target ms", "x for 16", "x for 64", "target over draft")
        yield "### Latency records\n"
        yield markdown_table(TextTable("", header, tuple(rows)))


def _training(folder: Path) -> Iterator[str]:
    file = folder / "train.json"
    if not file.exists():
        return
    record = read(file)
    recipe, losses, sizes = record["recipe"], record["held_out_loss_nats"], record["parameters"]
    lines = [
        f"{sum(record['files'].values()):,} Python files, {record['training_tokens']:,} tokens to train on, "
        f"{record['held_out_tokens']:,} held out; {recipe['target_steps']:,} and {recipe['draft_steps']:,} steps of "
        f"{recipe['rows']} x {recipe['length']:,} tokens, {record['seconds_of_last_call']:.0f} s in the last call.",
        *(f"- {role}: {sizes[role] / 1e6:.1f} M parameters, held-out loss {losses[role]:.3f} nats" for role in sizes),
        f"- E[sum min(p, q)] on held-out text: {record['held_out_overlap']:.3f}",
    ]
    yield _section("The larger pair", Provenance.from_dict(record["provenance"]), lines)


def _matrix(folder: Path) -> Iterator[str]:
    file = folder / "compare.json"
    if not file.exists():
        return
    record = read(file)
    left = record.pop("left")
    found = Calibration.from_dict(record)
    missing = [f"{left} combinations were not run."] if left else []
    yield _section("Predicted against measured", found.provenance, [*missing, *calibration_words(found)])
    yield from map(markdown_table, calibration_rows(found))


def _clocks(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("clock-*.json")):
        record = WallClock.load(file)
        yield _section(
            f"Wall clock at temperature {record.provenance.temperature:g}", record.provenance, clock_words(record)
        )
        yield markdown_table(clock_rows(record))


def _section(heading: str, stamp: Provenance, lines: list[str]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in stamp.versions.items() if version != "not installed")
    device = stamp.device
    where = "**Dry run on a CPU: the numbers mean nothing.**" if device == DRY_RUN else f"Measured on {device}."
    said = f"{where} {versions}, seed {stamp.seed}, {stamp.created[:10]}."
    return "\n\n".join([f"### {heading}", said, *lines]) + "\n"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"
