"""Several processes that write one file or one folder at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import spectheory as st
from reference.heads import write_head
from reference.judging import HeldOutTexts, JudgeSettings, PairDraft, StaticTree, judge
from reference.losses import Eagle
from reference.matrix import Matrix, MatrixSettings, Texts
from reference.models import Pair
from reference.part_files import claim, claimed
from reference.tracing import TraceSettings, record_trace
from reference.train.head import HeadRecipe, train_head
from reference.train.own_texts import write_own_texts
from reference.train.pair import train_pair
from reference.train.recipe import Recipe
from spectheory.cli.measuring import measured
from spectheory.core.files import owned
from spectheory.verify import Greedy
from tests.faults.killing import POSIX
from tests.faults.test_killed_runs import PLAN
from tests.reference.test_measuring import PROMPTS
from tests.reference.train_heads import SETTINGS as TEXTS
from tests.reference.train_heads import config, corpus, head, own_texts
from tests.refusals import refuses

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


def test_a_tally_and_a_matrix_have_one_writer(tiny: Pair, tmp_path: Path) -> None:
    file, folder = tmp_path / "tally.json", tmp_path / "matrix"
    settings = {"new_tokens": 4, "temperature": 0.0, "seed": 0}
    with (
        held(file, tmp_path / "tally.json.lock"),
        pytest.raises(st.InputError, match="tally.json is in use by another process"),
    ):
        measured(tiny, PLAN, PROMPTS[:1], file, 0, **settings)
    measured(tiny, PLAN, PROMPTS[:1], file, 0, **settings)
    matrix = Matrix(folder, tiny, Texts(PROMPTS, PROMPTS, PROMPTS), MatrixSettings("numbers", 8))
    with held(folder, folder / "writer.lock"):
        refuses("matrix is in use by another process", matrix.run, [])
        with pytest.raises(st.InputError, match="matrix is in use by another process"):
            Matrix(folder, tiny, Texts(PROMPTS, PROMPTS, PROMPTS), MatrixSettings("numbers", 8))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["matrix", "tally.json"]


def test_a_folder_is_free_after_an_error_of_its_writer(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError), claimed(tmp_path, "trace"):
            raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["provenance.json"]


def test_processes_that_share_a_folder_claim_it_at_the_same_time(tmp_path: Path) -> None:
    """Each claims 40 times, while the others write: nobody is refused, and no file in the making is removed."""
    part = tmp_path / "a.partial"
    part.touch()

    def share() -> None:
        for _ in range(40):
            claim(tmp_path, "texts", seed=0)

    with beside(share), beside(share):
        share()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.partial", "provenance.json"]


def test_judged_drafts_heads_and_trainings_have_one_writer(tiny: Pair, tmp_path: Path) -> None:
    texts, chain = own_texts(tiny, tmp_path / "texts"), StaticTree(st.Tree.chain(1), Greedy())
    record_trace(tiny, PROMPTS, SETTINGS, tmp_path / "trace")
    judged, drafts = HeldOutTexts.of_trace(tmp_path / "trace"), {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}
    once = HeadRecipe(Eagle(), steps=1, rows=2)
    writers: list[tuple[str, Callable[[Path], object]]] = [
        ("writer.lock", lambda place: judge(judged, drafts, JudgeSettings(chain), place)),
        ("writer.lock", lambda place: write_head(head(tiny, "eagle1"), place, "eagle")),
        ("writer.lock", lambda place: train_pair(tmp_path / "pair", place, Recipe())),
        ("writer-0-of-1.lock", lambda place: write_own_texts(tiny, corpus(tiny), TEXTS, place)),
        ("training.lock", lambda place: train_head(tiny, texts, place, once, config(tiny, "eagle1"))),
    ]
    for number, (lock, write) in enumerate(writers):
        place = tmp_path / str(number)
        with held(place, place / lock), pytest.raises(st.InputError, match=f"{number} is in use by another process"):
            write(place)
