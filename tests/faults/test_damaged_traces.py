"""Folders of traces whose provenance or parts were removed, exchanged, cut, or edited: refused with the file's name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from reference.models import Pair
from reference.part_files import STAMP
from reference.tracing import PROMPTS, TraceSettings, acceptance, by_request, record_trace
from spectheory.core.errors import InputError
from tests.reference.test_measuring import PROMPTS as TEXTS
from tests.refusals import refuses

SETTINGS = TraceSettings("numbers", candidates=4, new_tokens=12, batch=2)
PARTS = [f"part-{first:06d}.parquet" for first in (0, 2, 4)]
COLUMNS = ("target_rank", "target_top_rank", "target_token")


@pytest.fixture(scope="module")
def recorded(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of three traces: `one`, `other` with another seed, and `more` with another number of candidates."""
    folder = tmp_path_factory.mktemp("traces")
    for name, settings in {
        "one": SETTINGS,
        "other": replace(SETTINGS, seed=1),
        "more": replace(SETTINGS, candidates=5),
    }.items():
        record_trace(tiny, TEXTS, settings, folder / name)
    return folder


@pytest.fixture
def trace(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the trace `one`."""
    return shutil.copytree(recorded / "one", tmp_path / "trace")


def refused(folder: Path, match: str, column: str = "target_rank") -> None:
    refuses(match, by_request, folder, column)


def test_what_was_recorded_is_read(trace: Path) -> None:
    for column in COLUMNS:
        assert [len(text) for text in by_request(trace, column)] == [12] * 5


def test_parts_without_a_provenance_are_neither_read_nor_adopted(trace: Path, tiny: Pair) -> None:
    (trace / STAMP).unlink()
    refused(trace, "holds no trace")
    with pytest.raises(InputError, match=r"holds part-\d+.parquet without its provenance.json: name an empty folder"):
        record_trace(tiny, TEXTS, SETTINGS, trace)
    assert not (trace / STAMP).exists()


def test_prompts_without_a_provenance_are_replaced(tiny: Pair, tmp_path: Path) -> None:
    (tmp_path / PROMPTS).write_text("[[1]]")
    record_trace(tiny, TEXTS, SETTINGS, tmp_path)
    assert json.loads((tmp_path / PROMPTS).read_text()) == TEXTS


@pytest.mark.parametrize("run", ["other", "more"])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_another_run_is_refused(recorded: Path, trace: Path, tiny: Pair, run: str, part: str) -> None:
    shutil.copy(recorded / run / part, trace / part)
    refused(trace, f"{part} does not belong to the run that provenance.json describes: remove {part} and record again")
    (trace / part).unlink()
    record_trace(tiny, TEXTS, SETTINGS, trace)
    assert acceptance(trace, min_trials=1).table.tolist() == acceptance(recorded / "one", min_trials=1).table.tolist()


def test_the_provenance_of_another_run_is_refused(recorded: Path, trace: Path) -> None:
    shutil.copy(recorded / "more" / STAMP, trace / STAMP)
    refused(trace, "does not belong to the run")


@pytest.mark.parametrize("part", PARTS[:2])
def test_a_gap_is_refused(trace: Path, part: str) -> None:
    (trace / part).unlink()
    refused(trace, f"lacks {part}: repeat `spectheory trace`")


@pytest.mark.parametrize(("part", "name"), [(PARTS[0], PARTS[1]), (PARTS[1], PARTS[0]), (PARTS[2], PARTS[1])])
def test_a_part_under_the_name_of_another_is_refused(trace: Path, part: str, name: str) -> None:
    shutil.copy(trace / part, trace / name)
    refused(trace, f"{name} does not hold the requests from {int(name[5:11])} on")


Edit = Callable[[pa.Table], pa.Table]


def with_value(column: str, value: object) -> Edit:
    """An edit that sets a value in row 3."""

    def edited(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[3] = value
        place = table.schema.get_field_index(column)
        return table.set_column(place, table.schema.field(column), pa.array(values, table.schema.field(column).type))

    return edited


EDITS: dict[str, tuple[str, Edit]] = {
    **{f"null {name}": (name, with_value(name, None)) for name in COLUMNS},
    **{f"{name} {v}": (name, with_value(name, v)) for name in COLUMNS[:2] for v in (-2, 4, 3000)},
    "token -1": ("target_token", with_value("target_token", -1)),
    "null request": ("target_rank", with_value("request_id", None)),
    "another request": ("target_rank", with_value("request_id", 7)),
    "a request of the next part": ("target_rank", with_value("request_id", 2)),
    "a position twice": ("target_rank", with_value("pos", 0)),
    "a position ahead": ("target_rank", with_value("pos", 11)),
    "a null position": ("target_rank", with_value("pos", None)),
    "a row fewer": ("target_rank", lambda table: table.slice(1)),
    "rows turned": ("target_rank", lambda table: table.take(np.arange(len(table))[::-1].copy())),
    "every row twice": ("target_rank", lambda table: pa.concat_tables([table, table])),
    "no row": ("target_rank", lambda table: table.slice(0, 0)),
    "one request": ("target_rank", lambda table: table.filter(pc.field("request_id") == 0)),
    "ranks as numbers of another type": (
        "target_rank",
        lambda table: table.set_column(5, "target_rank", table["target_rank"].cast("int64")),
    ),
    "no column of ranks": ("target_rank", lambda table: table.drop_columns(["target_rank"])),
    "another name": ("target_rank", lambda t: t.rename_columns([n.replace("pos", "place") for n in t.column_names])),
    "no metadata": ("target_rank", lambda table: table.replace_schema_metadata(None)),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_part_is_refused(trace: Path, name: str) -> None:
    (column, edit), part = EDITS[name], trace / PARTS[0]
    pq.write_table(edit(pq.read_table(part)), part)
    refused(
        trace, rf"{PARTS[0]} (does not hold the requests|is damaged|does not belong to the run).*record again", column
    )


def test_a_part_with_one_changed_byte_is_refused_or_read_as_it_was(trace: Path) -> None:
    """Every 19th byte, one at a time."""
    part, right = trace / PARTS[1], [text.tolist() for text in by_request(trace, "target_rank")]

    def found() -> list[list[int]] | str:
        try:
            return [text.tolist() for text in by_request(trace, "target_rank")]
        except InputError as error:
            return str(error)

    whole, refusals = part.read_bytes(), 0
    for place in range(0, len(whole), 19):
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 0x24]) + whole[place + 1 :])
        answer = found()
        assert answer == right or str(part) in answer
        refusals += answer != right
    assert refusals


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_part_that_was_cut_is_refused(trace: Path, share: float) -> None:
    part = trace / PARTS[2]
    part.write_bytes(part.read_bytes()[: int(share * part.stat().st_size)])
    refused(trace, f"{PARTS[2]} is damaged: remove it and record again")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"source": 3}', "[" * 100_000, '{"source": "\\ud800"}', "null"])
def test_a_damaged_provenance_is_refused(trace: Path, tiny: Pair, text: str) -> None:
    (trace / STAMP).write_text(text)
    refused(trace, "provenance.json is damaged")
    refuses(r"provenance.json is damaged", record_trace, tiny, TEXTS, SETTINGS, trace)


@pytest.mark.parametrize("name", ["batch", "new_tokens", "candidates"])
def test_a_provenance_without_its_settings_is_refused(trace: Path, name: str) -> None:
    stamp = json.loads((trace / STAMP).read_text())
    del stamp["settings"][name]
    (trace / STAMP).write_text(json.dumps(stamp))
    refused(trace, "provenance.json is not of a trace: record the trace again")
