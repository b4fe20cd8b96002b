from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
from hypothesis import settings
from xdist import is_xdist_controller

from reference.library_sources import standard_library
from tests.command_line import plan, run

if TYPE_CHECKING:
    from reference.models import Pair

__all__ = ["plan", "run"]

# Tiny models gain nothing from threads, and threads of several runs on one machine fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
HERE = Path(__file__).parent
WITHOUT_MODELS = {"certify", "core", "engines", "goose", "hardware", "otlp", "planning", "proofs_check", "report"} | {
    "search",
    "simulate",
    "verify",
    "yields",
}
"""Rooms whose tests import no torch."""


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """`spectheory certify` runs the code under test in this process: a child would import all that it needs again."""
    from spectheory.certify.process import answer_of

    monkeypatch.setattr("spectheory.certify.process.answer_of_child", answer_of)
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture(autouse=True, scope="session")
def commands_made_once() -> Iterator[None]:
    """Typer builds the command-line interface once per session, not again each time that a test runs a command."""
    once = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", once)
        patch.setattr("typer.testing._get_command", once)
        yield


@pytest.fixture(autouse=True)
def short_overheads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles time few sizes and short texts, clocks warm up on 2 tokens: no test reads these seconds.

    Deep tests run them whole.
    """
    room = request.path.relative_to(HERE).parts[0]
    if room not in WITHOUT_MODELS and not request.node.get_closest_marker("deep"):
        monkeypatch.setattr("reference.planning_loop.forward_sizes", lambda most: sorted({1, min(9, most), most}))
        monkeypatch.setattr("reference.compare.WARM_UP_TOKENS", 2)
        monkeypatch.setattr("reference.profiling.OVERHEAD_TEXT", 4)
        monkeypatch.setattr("reference.profiling.OVERHEAD_TEXTS", 1)


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests that wait for a process, a timer or a disk leave a core idle."""
    return 1 + (os.cpu_count() or 1)


def pytest_collection(session: pytest.Session) -> None:
    """The process that only shares tests out among workers does without torch."""
    if not is_xdist_controller(session) and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        _import_own_part()


def _import_own_part() -> None:
    """In a whole run, each worker imports its own part of the test files before the others'.

    On a clean clone an import rewrites the assertions, and those of the replays compile kernels; both are kept on disk.
    Workers that begin with different parts find the rest done. The replays are the first and the last to be imported.
    """
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    if worker is None:
        return
    files = sorted(HERE.rglob("test_*.py"), key=lambda file: (file.parent.name != "replay", file))
    start = len(files) * int(worker.removeprefix("gw")) // int(workers)
    for file in files[start:] + files[:start][::-1]:
        # The collection that follows reports what cannot be imported.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(HERE.parent).with_suffix("").parts))


def pytest_configure(config: pytest.Config) -> None:
    """Try each property on 40 examples, or 100 with the deep tests, unless it asks for another number; no deadline."""
    few = "not deep" in config.option.markexpr
    settings.register_profile("untimed", max_examples=40 if few else 100, deadline=None)
    settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with the longest tests first, so that no worker is left alone with one of them at the end."""
    longest = ("site", "lossless_end_to_end", "readme", "gpu_script", "cli", "docs", "certify")
    items.sort(key=lambda item: item.path.stem.removeprefix("test_") not in longest)


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `target` and `draft` of a random pair; the draft is the target with noise, so it is often right."""
    import torch

    from reference.train.target import export, new_model, train_tokenizer
    from tests.reference.sampled_text import TINY, restless

    folder = tmp_path_factory.mktemp("tiny")
    text = [file.text for file in standard_library() if file.name.startswith("json/")]
    tokenizer = train_tokenizer(text, TINY.vocab_size)
    for role, noise in (("target", 0.0), ("draft", 0.02)):
        torch.manual_seed(0)
        model = new_model(TINY)
        restless(model, seed=1, scale=0.15)
        restless(model, seed=2, scale=noise)
        export(model, tokenizer, folder / role)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folders: Path) -> Pair:
    """The random pair in float64 (norms and rotary embedding stay in float32 inside transformers)."""
    import torch

    from reference.models import load_pair

    return load_pair(tiny_folders / "target", tiny_folders / "draft", dtype=torch.float64)
