"""`simulate.collect` when it is killed, when workers die, and when its folder is in use, full, read-only or damaged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import simulate
import spectheory as st
from simulate import CollectWarning, Stop, Task
from simulate.collecting.block_file import BlockFile
from tests.refusals import refuses
from tests.simulate.counted import SLOW, TASKS, Unreadable, dies, dies_once

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys, simulate
from tests.simulate.counted import SLOW
simulate.collect(SLOW, stop=simulate.Stop(blocks=40), folder=sys.argv[1])
"""
FULL = """
import resource, signal, sys, simulate
from tests.simulate.counted import TASKS
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
simulate.collect(TASKS, stop=simulate.Stop(blocks=8), folder=sys.argv[1])
"""
WITHOUT = """
import sys
for name in ("dask", "distributed", "ray"):
    sys.modules[name] = None
import simulate, spectheory
from tests.simulate.counted import TASKS
for backend in ("dask", "ray"):
    try:
        simulate.collect(TASKS, stop=simulate.Stop(blocks=2), backend=backend)
    except spectheory.InputError as error:
        print(error)
assert len(simulate.collect(TASKS, stop=simulate.Stop(blocks=2), workers=2, backend="threading").results) == 3
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(folder: Path) -> list[bytes]:
    return (folder / "blocks.jsonl").read_bytes().splitlines(keepends=True)


def size(folder: Path) -> int:
    file = folder / "blocks.jsonl"
    return file.stat().st_size if file.exists() else 0


def test_a_run_killed_at_random_moments_continues_to_the_same_result(tmp_path: Path) -> None:
    """Two kills, each when the file has grown by a random number of bytes. No block is lost, none counted twice."""
    rng, kills = random.Random(5), 0
    for _ in range(2):
        run, grown = python(SCRIPT, tmp_path), size(tmp_path) + rng.randrange(1_500, 5_000)
        while run.poll() is None and size(tmp_path) < grown:
            time.sleep(rng.uniform(0, 0.004))
        run.kill()
        kills += run.wait() == -signal.SIGKILL
        run.communicate()
    assert kills == 2
    saved = {line for line in lines(tmp_path) if line.endswith(b"\n")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollectWarning)
        continued = simulate.collect(SLOW, stop=Stop(blocks=40), folder=tmp_path)
    assert continued == simulate.collect(SLOW, stop=Stop(blocks=40))
    assert saved <= set(lines(tmp_path))
    assert len(lines(tmp_path)) == 1 + 2 + 2 * 40
    assert simulate.combine(tmp_path) == continued


def test_a_file_cut_at_any_byte_continues_to_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every eleventh byte of the file, and every byte around the ends of its lines. Syncing is left out for speed."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    tasks, stop = TASKS[1:], Stop(blocks=2)
    whole = simulate.collect(tasks, stop=stop, folder=tmp_path)
    file = tmp_path / "blocks.jsonl"
    text = file.read_bytes()
    ends = [i for i, byte in enumerate(text, start=1) if byte == ord("\n")]
    cuts = {*range(0, len(text), 11), *(end + near for end in ends for near in (-2, -1, 0, 1))} - {len(text) + 1}
    for cut in sorted(cuts):
        file.write_bytes(text[:cut])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert simulate.collect(tasks, stop=stop, folder=tmp_path) == whole
        assert [warning.category for warning in said] == [CollectWarning] * (cut not in (0, *ends))
        assert sorted(lines(tmp_path)[3:]) == sorted(text.splitlines(keepends=True)[3:]) or cut < ends[2]


def test_a_cut_line_is_reported(tmp_path: Path) -> None:
    whole = simulate.collect(TASKS[0], stop=Stop(blocks=3), folder=tmp_path)
    with (tmp_path / "blocks.jsonl").open("ab") as file:
        file.write(b'{"block":3,')
    with pytest.warns(CollectWarning, match="was cut by an interruption: its 11 bytes are removed"):
        assert simulate.collect(TASKS[0], stop=Stop(blocks=3), folder=tmp_path) == whole
    assert len(lines(tmp_path)) == 5


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    with (
        BlockFile.opened(tmp_path),
        pytest.raises(st.InputError, match=rf"is in use by process {os.getpid()} on .*wait until it ends, or name"),
    ):
        simulate.collect(TASKS[0], folder=tmp_path)
    assert simulate.collect(TASKS[0], stop=Stop(blocks=2), folder=tmp_path)[TASKS[0]].counted == 2


def test_results_of_other_tasks_are_kept_apart(tmp_path: Path) -> None:
    first = simulate.collect(TASKS[0], stop=Stop(blocks=3), folder=tmp_path)
    before = lines(tmp_path)
    both = simulate.collect(TASKS[:2], stop=Stop(blocks=3), folder=tmp_path)
    assert both[TASKS[0]] == first[TASKS[0]]
    assert lines(tmp_path)[: len(before)] == before
    assert simulate.combine(tmp_path) == both


def test_a_wider_rule_shows_the_first_blocks_and_keeps_all(tmp_path: Path) -> None:
    more = simulate.collect(TASKS[1], stop=Stop(blocks=20), folder=tmp_path)
    fewer = simulate.collect(TASKS[1], stop=Stop(blocks=5), folder=tmp_path)
    assert fewer == simulate.collect(TASKS[1], stop=Stop(blocks=5))
    assert simulate.combine(tmp_path) == more


def test_folders_of_other_blocks_are_put_together(tmp_path: Path) -> None:
    for number, first in enumerate((4, 0, 9)):
        simulate.collect(TASKS[0], stop=Stop(blocks=4), folder=tmp_path / str(number), first_block=first)
    whole = simulate.combine(tmp_path / "0", tmp_path / "1")
    assert whole == simulate.collect(TASKS[0], stop=Stop(blocks=8))
    assert whole + whole == whole
    gap = simulate.combine(tmp_path / "2", tmp_path / "1", tmp_path / "0")[TASKS[0]]
    assert (gap.counted, gap.left_out) == (8, 4)
    assert "4 blocks after a gap are left out" in simulate.combine(tmp_path / "1", tmp_path / "2").table().note


@pytest.mark.parametrize(
    ("line", "change", "said"),
    [
        (4, lambda line: line.replace(b'"trials":', b'"trials":1'), "line 4 of .* is damaged, its checksum is wrong"),
        (2, lambda line: line[:-10] + b"\n", "line 2 of .* is damaged, .*not JSON"),
        (5, lambda line: b"\x00" * 40 + b"\n", "line 5 of .* is damaged, .*not JSON"),
        (5, lambda line: b"\xff" * 4 + b"\n", "line 5 of .* is damaged"),
        (1, lambda line: b'{"a": 1}\n', "line 1 of .*name another folder"),
    ],
)
def test_a_damaged_line_is_refused_by_number_and_its_repair_works(
    tmp_path: Path, line: int, change: Any, said: str
) -> None:
    whole = simulate.collect(TASKS[0], stop=Stop(blocks=4), folder=tmp_path)
    file, damaged = tmp_path / "blocks.jsonl", lines(tmp_path)
    damaged[line - 1] = change(damaged[line - 1])
    file.write_bytes(b"".join(damaged))
    for refused in (lambda: simulate.collect(TASKS[0], folder=tmp_path), lambda: simulate.combine(tmp_path)):
        with pytest.raises(st.InputError, match=f"(?s){said}") as caught:
            refused()
    assert file.read_bytes() == b"".join(damaged)
    if line > 1:
        assert f"`sed -i {line}d {file}`" in str(caught.value)
        file.write_bytes(b"".join(damaged[: line - 1] + damaged[line:]))
        assert simulate.collect(TASKS[0], stop=Stop(blocks=4), folder=tmp_path) == whole


def test_a_block_that_is_not_reproducible_is_refused(tmp_path: Path) -> None:
    simulate.collect(TASKS[0], stop=Stop(blocks=2), folder=tmp_path)
    with BlockFile.opened(tmp_path) as file:
        file.add_block(TASKS[0].identity, 1, TASKS[0].run(0))
    refuses("line 5 of .*: block 1 of task 'noisy scale=1.0' was counted twice", simulate.combine, tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_FSIZE and /proc")
def test_a_full_disk_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    """The limit is in the middle of a line, so that a part of it is written."""
    whole = simulate.collect(TASKS, stop=Stop(blocks=8), folder=tmp_path / "whole")
    limit = sum(map(len, lines(tmp_path / "whole")[:12])) + 50
    run = python(FULL, tmp_path / "full", limit)
    said = run.communicate()[1].strip().splitlines()[-1]
    assert "InputError" in said
    assert "blocks.jsonl cannot be written: File too large; free space or name another folder" in said
    assert lines(tmp_path / "full")[4:] == lines(tmp_path / "whole")[4:12]
    assert simulate.collect(TASKS, stop=Stop(blocks=8), folder=tmp_path / "full") == whole


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_FSIZE and /proc")
@pytest.mark.parametrize("folder", ["/proc/results", "file/results"])
def test_a_folder_that_cannot_be_written_is_refused(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(st.InputError, match=r"results/blocks.jsonl cannot be written: .*name another folder"):
        simulate.collect(TASKS[0], folder=tmp_path / folder)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    refuses(r"blocks.jsonl cannot be read: No such file", simulate.combine, tmp_path)


def test_a_cluster_that_is_not_installed_is_refused_with_the_line_that_installs_it() -> None:
    """The imports are blocked. Other backends work as before."""
    run = python(WITHOUT)
    said, errors = run.communicate()
    assert run.returncode == 0, errors
    for line, backend, package in zip(said.splitlines(), ("dask", "ray"), ("distributed", "ray"), strict=True):
        assert line.startswith(f"the backend {backend!r} needs the package {package}, which cannot be imported")
        assert line.endswith(": pip install 'spectheory[cluster]'")


def test_processes_and_threads_give_the_result_of_one_process(tmp_path: Path) -> None:
    """A worker is killed in the middle, which is reported, and its blocks are counted again."""
    tasks = [*TASKS, Task(dies_once, {"at": 3, "marker": str(tmp_path / "died")})]
    with pytest.warns(CollectWarning, match=r"a worker died \(TerminatedWorkerError\): the \d+ unfinished blocks"):
        found = simulate.collect(tasks, stop=Stop(blocks=6), folder=tmp_path, workers=2, backend="loky")
    assert (tmp_path / "died").exists()
    assert found == simulate.collect(tasks, stop=Stop(blocks=6))
    assert found == simulate.collect(tasks, stop=Stop(blocks=6), workers=3, backend="threading")
    assert len(lines(tmp_path)) == 1 + 4 + 24


def test_a_task_that_workers_cannot_read_is_not_taken_for_a_crash() -> None:
    with pytest.raises(st.InputError, match="cannot be sent to another process: AttributeError: no such function here"):
        simulate.collect(Task(Unreadable()), stop=Stop(blocks=3), workers=2, backend="loky")


def test_a_block_that_kills_its_workers_is_named(tmp_path: Path) -> None:
    task = Task(dies, {"at": 1})
    with (
        pytest.warns(CollectWarning),
        pytest.raises(st.InputError, match="block 1 of task 'dies at=1' killed 3 workers, it is given up"),
    ):
        simulate.collect(task, stop=Stop(blocks=3), folder=tmp_path, workers=2, backend="loky")
    assert simulate.combine(tmp_path)[task].blocks == {n: task.run(n) for n in simulate.combine(tmp_path)[task].blocks}
