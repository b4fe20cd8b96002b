"""Reading the published measurements: a `Row` for each line of the CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from spectheory import InputError
from spectheory.core.files import read_text
from spectheory.hardware.engine_costs import Parallel

COLUMNS = (
    *("group", "source", "url", "engine", "gpu", "gpus", "target", "draft", "shape", "batch", "context"),
    *("acceptance_tau", "acceptance_kind", "measured_plain_tok_s", "measured_spec_tok_s", "measured_speedup", "note"),
)
Kind = Literal["plain", "forward", "chain", "tree"]

SHAPES: dict[Kind, str] = {
    "plain": r"none|",
    "forward": r"forward of (?P<nodes>\d+) tokens?",
    "chain": r"chain (?P<depth>\d+)",
    "tree": r"tree depth (?P<depth>\d+) nodes (?P<nodes>\d+)",
}
MOST = 10_000
"""The largest number of drafted levels or nodes that is read."""
ENGINES = {"trt-llm": "trtllm", "tensorrt-llm": "trtllm"}
"""Other spellings of engines."""
WITH_PROMPTS = "throughput with prefill"
"""So notes say that a rate is output tokens over the whole time of the requests, that of their prompts included."""
PUBLISHED, MORE = (Path(__file__).with_name(name) for name in ("published.csv", "more.csv"))
"""The files of measurements beside this program."""
VERSIONS = Path(__file__).with_name("versions.csv")
"""The versions of the engines in sources whose rows do not state them, with the evidence."""
FAULTS = Path(__file__).with_name("faults.csv")
"""Rows that report a fault or an offset, with the reason: they judge nothing, and nothing is fitted to them."""
PROJECTS = {
    "lm-sys": "sgl-project",
    "safeailab": "sgl-project",
    "arxiv.org/abs/2503.01840": "sgl-project",
    "nvidia.github.io": "nvidia",
}
"""Owners and addresses of one project; the EAGLE-3 paper was measured with the team of SGLang."""
LAYER_SPLIT = ("hf", "llama.cpp")
"""Engines that split layers over several GPUs unless they are told otherwise."""
TOLERANCE = 0.05
"""A stated speedup may differ from the quotient of the two stated rates by this share."""


@dataclass(frozen=True)
class Row:
    """One published measurement. Rates are tokens a second of the whole batch.

    Attributes:
        file, number: the name of the CSV file, and the line in it, the header being line 1.
        group, source, url, engine, gpu, gpus, target, draft, note: as in the CSV.
        version: the version of the engine, from the note or from `versions.csv`; empty if it is unknown.
        parallel: how several GPUs share the models, by the note (`TP 1 EP 8`, `layers split`) and the engine.
        kind: a plain step, a forward without step overhead, or a step that verifies a chain or a tree.
        depth: drafted levels.
        nodes: drafted tokens that are verified, the root excluded; in a forward, its tokens.
        batch, context: sequences that run together, and tokens of each in the cache.
        tau: tokens of a sequence in one step; 1 for a plain step.
        drafted_share: the share of the steps that draft, by the note `drafts in 0.24 of steps`; None without one.
        plain_rate, spec_rate, speedup: what was measured; None where the source does not state it.
    """

    file: str
    number: int
    group: str
    source: str
    url: str
    engine: str
    version: str
    gpu: str
    gpus: int
    target: str
    draft: str
    parallel: Parallel
    kind: Kind
    depth: int
    nodes: int
    batch: int
    context: int
    tau: float
    drafted_share: float | None
    plain_rate: float | None
    spec_rate: float | None
    speedup: float | None
    note: str

    @property
    def engine_version(self) -> str:
        """The engine with its version, if that is known, such as `vllm@0.9`."""
        return f"{self.engine}@{self.version}" if self.version else self.engine

    @property
    def plain_seconds(self) -> float | None:
        """Measured seconds of a plain step, or of a forward; None if the rate counts the time of prompts too."""
        if self.plain_rate is None or WITH_PROMPTS in self.note:
            return None
        return (self.nodes if self.kind == "forward" else self.batch) / self.plain_rate

    @property
    def gain(self) -> float | None:
        """The measured speedup, stated or as the quotient of the two rates."""
        if self.speedup is None and self.plain_rate and self.spec_rate:
            return self.spec_rate / self.plain_rate
        return self.speedup

    @property
    def project(self) -> str:
        """Who published the row: the owner of a repository, a paper or a site. Sources of one project are siblings."""
        address = self.url.lower().removeprefix("https://")
        host, _, path = address.partition("/")
        name = {"github.com": path.partition("/")[0], "arxiv.org": address}.get(host, host) or self.source
        return PROJECTS.get(name, name)

    @property
    def fault(self) -> str:
        """Why the row judges nothing, as `faults.csv` has it; empty if it does."""
        for line in lines_of(FAULTS):
            if line["note"] in self.note and all(
                line[name] in ("", str(getattr(self, name))) for name in ("source", "gpu", "gpus", "target")
            ):
                return line["reason"]
        return ""

    @property
    def deployment(self) -> tuple[str, ...]:
        """What rows have in common that one calibration serves: source, engine, GPUs, placement and the two models."""
        return self.source, self.engine, self.gpu, str(self.gpus), self.parallel, self.target, self.draft

    @property
    def machine(self) -> tuple[str, ...]:
        """The deployment without its draft: plain steps do not depend on the draft."""
        return self.deployment[:-1]


@dataclass(frozen=True)
class Unread:
    """A row without a prediction: its file and number, what it names, and the reason."""

    file: str
    number: int
    name: str
    reason: str


@cache
def read(path: Path) -> list[Row]:
    """The rows of a CSV file.

    Raises:
        InputError: the file cannot be read, a column is missing, or a line is wrong; the message has its number.
    """
    reader = csv.DictReader(read_text(path).splitlines())
    if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
        raise InputError(
            f"{path} lacks the columns {', '.join(missing)}: the first line must name all of {', '.join(COLUMNS)}"
        )
    return parse(reader, path.name)


def parse(lines: Iterable[Mapping[str, str | None]], file: str = "") -> list[Row]:
    """The rows of lines of a file, given as mappings from column to text.

    Raises:
        InputError: a line is wrong; the message has its number, what is wrong, and the repair.
    """
    rows = []
    for number, line in enumerate(lines, start=2):
        cells = {name: (line.get(name) or "").strip() for name in COLUMNS}
        try:
            rows.append(_row(file, number, cells))
        except InputError as error:
            raise InputError(f"line {number} of {file}: {error}") from None
    return rows


def _row(file: str, number: int, cells: Mapping[str, str]) -> Row:
    if absent := [name for name in ("source", "engine", "gpu", "target") if not cells[name]]:
        raise InputError(f"{', '.join(absent)} must not be empty: name it")
    kind, depth, nodes = _shape(cells["shape"])
    plain, spec, gain = (_number(cells, f"measured_{name}") for name in ("plain_tok_s", "spec_tok_s", "speedup"))
    tau, engine, gpus = _number(cells, "acceptance_tau"), cells["engine"].lower(), _whole(cells, "gpus")
    if kind not in ("chain", "tree"):
        tau = 1.0
    elif tau is None or not 1 <= tau <= nodes + 1:
        raise InputError(
            f"acceptance_tau must be between 1 and drafted tokens + 1 = {nodes + 1}, got {tau}: state the mean number "
            "of tokens of a step, the target's own token included"
        )
    if plain is None and (gain is None or kind in ("plain", "forward")):
        raise InputError("nothing was measured: state measured_speedup, or the rates in tokens a second")
    if plain and spec and gain and abs(spec / plain / gain - 1) > TOLERANCE:
        raise InputError(
            f"measured_speedup={gain:g} contradicts the two rates, quotient {spec / plain:.3g}: correct one of them"
        )
    return Row(
        file=file,
        number=number,
        group=cells["group"] or "no group",
        source=cells["source"],
        url=cells["url"],
        engine=ENGINES.get(engine, engine),
        version=_version(cells["source"], engine, cells["note"]),
        gpu=cells["gpu"].lower(),
        gpus=gpus,
        target=cells["target"].lower(),
        draft=cells["draft"].lower() or "none",
        parallel=_parallel(gpus, engine, cells["note"]),
        kind=kind,
        depth=depth,
        nodes=nodes,
        batch=_whole(cells, "batch"),
        context=_whole(cells, "context"),
        tau=tau,
        drafted_share=float(share[1]) if (share := re.search(r"drafts in (0\.\d+) of steps", cells["note"])) else None,
        plain_rate=plain,
        spec_rate=spec,
        speedup=gain,
        note=cells["note"],
    )


def _shape(text: str) -> tuple[Kind, int, int]:
    for kind, pattern in SHAPES.items():
        if found := re.fullmatch(pattern, text):
            numbers = {name: int(value) for name, value in found.groupdict().items()}
            depth = numbers.get("depth", 0)
            nodes = numbers.get("nodes", depth)
            if all(1 <= number <= MOST for number in numbers.values()) and nodes >= depth:
                return kind, depth, nodes
    raise InputError(
        "shape must be 'none', 'chain 3', 'tree depth 6 nodes 59' (depth at most nodes) or 'forward of 8 tokens', "
        f"got {text!r}: write one of these"
    )


def _number(cells: Mapping[str, str], name: str) -> float | None:
    if not cells[name]:
        return None
    try:
        value = float(cells[name])
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise InputError(f"{name} must be a finite number above 0, got {cells[name]!r}: correct it, or leave it empty")
    return value


def _whole(cells: Mapping[str, str], name: str) -> int:
    value = _number(cells, name)
    if value is None or value != int(value):
        raise InputError(f"{name} must be a whole number of at least 1, got {cells[name]!r}: correct it")
    return int(value)


def _version(source: str, engine: str, note: str) -> str:
    """The version of the engine: in the note, such as `vLLM 0.12.0` or `vLLM of April 2025 (0.8)`, or of the source."""
    found = re.search(rf"\b{re.escape(engine.replace('-', ''))}\b[^.;,]*?\bv?(\d+\.\d+[.\w]*)", note, re.IGNORECASE)
    stated = [line["version"] for line in lines_of(VERSIONS) if (line["source"], line["engine"]) == (source, engine)]
    return found[1] if found else "".join(stated)


@cache
def lines_of(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file beside this program."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def _parallel(gpus: int, engine: str, note: str) -> Parallel:
    found = re.search(r"\bTP ?(\d+)\b(?:.*?\bEP ?(\d+)\b)?", note)
    if gpus > 1 and found and int(found[1]) == 1 and int(found[2] or 1) > 1:
        return "expert"
    split = "layers split" in note or (engine in LAYER_SPLIT and not found)
    return "layers" if gpus > 1 and split else "tensor"
