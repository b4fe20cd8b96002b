"""Limits of memory: what does not fit is refused before it starts, and a lack of memory is one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import spectheory as st
from reference.model_folders import PairError, load_folder
from spectheory.core import memory
from tests.command_line import Run, refused
from tests.faults.killing import POSIX


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 1,000 kB available, no control groups and no limits."""
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 1000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "PROCESS", tmp_path / "self")
    files = [(row[0], tmp_path / "groups" / row[0], *row[2:]) for row in memory.CGROUP_FILES]
    monkeypatch.setattr(memory, "CGROUP_FILES", files)
    (tmp_path / "self").mkdir()
    return tmp_path


def group(folder: Path, names: tuple[str, str, str], limit: object, used: int, returnable: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(names, (str(limit), str(used), f"anon 7\n{names[2]} {returnable}\n"), strict=True):
        (folder / (name if name != names[2] else "memory.stat")).write_text(text + "\n")


TWO = ("memory.max", "memory.current", "inactive_file")
ONE = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@pytest.mark.parametrize(
    ("line", "place", "limit", "free"),
    [
        ("0::/job/step", "job/step", 500_000, 210_000),
        ("0::/job/step", "job", 500_000, 210_000),
        ("0::/", "", 500_000, 210_000),
        ("0::/../outside", "", 500_000, 210_000),
        ("0::/job", "job", "max", 1_024_000),
        ("0::/job", "other", 500_000, 1_024_000),
        ("0::/job", "job", 300_000, 10_000),
        ("0::/job", "job", 100_000, 0),
        ("0::/job", "job", 5_000_000, 1_024_000),
    ],
)
def test_limits_of_control_groups_are_respected(machine: Path, line: str, place: str, limit: object, free: int) -> None:
    (machine / "self/cgroup").write_text(f"12:cpu:/elsewhere\n{line}\n")
    group(machine / "groups" / place, TWO, limit, used=300_000, returnable=10_000)
    assert memory.available_bytes() == free


def test_limits_of_the_first_version_of_control_groups_are_respected(machine: Path) -> None:
    (machine / "self/cgroup").write_text("5:cpu,cpuacct:/\n4:memory:/slurm/job\n")
    group(machine / "groups/memory/slurm/job", ONE, 2**63 - 4096, 300_000)
    assert memory.available_bytes() == 1_024_000
    group(machine / "groups/memory/slurm", ONE, 700_000, 300_000, 50_000)
    assert memory.available_bytes() == 450_000


@POSIX
@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_ulimit_is_respected(machine: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    import resource

    (machine / "self/status").write_text("Name: python\nVmSize:\t 300 kB\nVmData:\t 100 kB\n")
    unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    limits = {getattr(resource, name): (400 * 1024, resource.RLIM_INFINITY)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits.get(which, unlimited))
    assert memory.available_bytes() == {"RLIMIT_AS": 100, "RLIMIT_DATA": 300}[name] * 1024


@POSIX
def test_a_search_that_exceeds_ulimit_is_refused() -> None:
    """In a fork, whose address space may grow by 200 MB."""
    import resource

    rising = st.Acceptance(np.array([[0.1, 0.6]]))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            size = memory._fields(Path("/proc/self/status"))["VmSize"] * 1024
            resource.setrlimit(resource.RLIMIT_AS, (size + 200_000_000, resource.RLIM_INFINITY))
            try:
                st.best_trees(rising, 20_000)
            except st.InputError as error:
                os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    said = os.read(reading, 10_000).decode()
    os.waitpid(child, 0)
    assert "0.20 GB are available: a budget up to about 6," in said


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(
    tiny_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference.model_folders.available_bytes", lambda: 250_000)
    match = r"target .* needs 0.0 GB of memory in float32, 0.0 GB are available: use a smaller type"
    with pytest.raises(PairError, match=match):
        load_folder("target", tiny_folders / "target", "cpu", torch.float32, "sdpa")


@pytest.mark.parametrize(
    "fault",
    [lambda: np.empty(2**60, np.uint8), lambda: torch.empty(2**60, dtype=torch.uint8), lambda: bytearray(2**62)],
)
def test_a_lack_of_memory_is_one_line(plan: Run, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object]) -> None:
    monkeypatch.setattr("spectheory.planning.candidates.Candidates.__init__", lambda *_, **__: fault())
    refused(plan("--latency", "latency.json"), "memory ran out (")
