"""Several processes that write one file or one folder at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import spectheory as st
from reference.compare import CompareSettings, compare
from reference.models import Pair
from reference.tracing import TraceSettings, record_trace
from spectheory.core.files import owned
from tests.faults.killing import POSIX
from tests.reference.test_measuring import PROMPTS

pytestmark = POSIX
SETTINGS = TraceSettings("numbers", candidates=2, new_tokens=4, batch=2)


@contextmanager
def beside(run: Callable[[], object]) -> Iterator[int]:
    """Context manager with a fork that calls `run`; it must end without an error."""
    child = os.fork()
    if not child:
        status = 1
        try:
            run()
            status = 0
        finally:
            os._exit(status)
    yield child
    assert os.waitpid(child, 0)[1] == 0


def test_a_record_that_two_processes_write_is_always_whole(tmp_path: Path) -> None:
    """400 writes by two processes, and 200 readings in between: each reads what one of them wrote."""
    file, tables = tmp_path / "rates.json", [[0.002] * 400, [0.25] * 3]

    def write(table: list[float]) -> None:
        for _ in range(200):
            st.Acceptance.by_rank(table).save(file)

    st.Acceptance.by_rank(tables[0]).save(file)
    with beside(lambda: write(tables[0])), beside(lambda: write(tables[1])):
        for _ in range(200):
            assert st.Acceptance.load(file).table[0].tolist() in tables
    assert [path.name for path in tmp_path.iterdir()] == ["rates.json"]


@contextmanager
def held(place: Path, lock: Path) -> Iterator[int]:
    """Context manager with a process that owns `place` until the end, and never lets go of it by itself."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with owned(place, lock, "end it"):
                os.write(writing, b"!")
                signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"!"
        yield child
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_trace_has_one_writer_until_that_is_killed(tiny: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    with held(folder, folder / "writer.lock"):
        with pytest.raises(st.InputError, match="trace is in use by another process: wait until it ends, or"):
            record_trace(tiny, PROMPTS, SETTINGS, folder)
        assert [path.name for path in folder.iterdir()] == ["writer.lock"]
    record_trace(tiny, PROMPTS, SETTINGS, folder)
    assert not (folder / "writer.lock").exists()


def test_a_comparison_has_one_writer(tiny: Pair, tmp_path: Path) -> None:
    with held(tmp_path, tmp_path / "writer.lock"), pytest.raises(st.InputError, match="is in use by another process"):
        compare(tmp_path, tiny, PROMPTS, PROMPTS, CompareSettings())
