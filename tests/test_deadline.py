"""Time limits: they hold wherever the timer runs out, and leave nothing behind."""

from __future__ import annotations

import gc
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from spectheory.certify import deadline
from spectheory.certify.deadline import within

LATE = "did not return within 5 seconds"


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Python ignored in this test, by the hook that was there before any time limit."""
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: found.append(unraisable.exc_type))
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(reported: list[Any]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    yield
    assert (signal.getsignal(signal.SIGALRM), sys.unraisablehook) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def forever() -> None:
    while True:
        pass


def out_of_time() -> None:
    signal.raise_signal(signal.SIGALRM)


def timers_set(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, ...]]:
    """(seconds, seconds between repetitions) of each timer, as it is set."""
    timers: list[tuple[float, ...]] = []
    setitimer = signal.setitimer

    def record(which: int, *timer: float) -> tuple[float, float]:
        timers.append(timer)
        return setitimer(which, *timer)

    monkeypatch.setattr(signal, "setitimer", record)
    return timers


def test_what_is_called_returns() -> None:
    assert within(5, lambda one, other: (one, other), 1, 2) == (1, 2)
    with pytest.raises(KeyError, match="its own"):
        within(5, {}.__getitem__, "its own")


def test_what_does_not_return_is_interrupted() -> None:
    with pytest.raises(TimeoutError, match="did not return within 0.1 seconds") as caught:
        within(0.1, forever)
    assert type(caught.value) is TimeoutError


def test_an_interruption_that_was_swallowed_comes_again() -> None:
    def stubborn() -> None:
        for _ in range(2):
            with suppress(TimeoutError):
                forever()
        raise ArithmeticError("interrupted twice")

    with pytest.raises(ArithmeticError, match="interrupted twice"):
        within(0.1, stubborn)


class Finalized:
    """Does as it is told when it is finalized."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do

    def __del__(self) -> None:
        self.do()


def raises_another() -> None:
    raise TimeoutError("not ours to silence")


def test_where_python_ignores_it_it_comes_again_soon_without_a_word(
    reported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = timers_set(monkeypatch)

    def finalizes() -> None:
        Finalized(raises_another)
        Finalized(out_of_time)
        Finalized(out_of_time)
        forever()

    with pytest.raises(TimeoutError, match=LATE):
        within(5, finalizes)
    assert reported == [TimeoutError]
    assert timers == [(5, 5), (deadline.SOON, 5), (deadline.SOON, 5), (0,)]


def test_callbacks_of_the_collector_are_interrupted_without_a_word(reported: list[Any]) -> None:
    def collector(phase: str, _: dict[str, int]) -> None:
        out_of_time()

    def collects() -> None:
        gc.collect()
        forever()

    gc.callbacks.append(collector)
    try:
        with pytest.raises(TimeoutError, match=LATE):
            within(5, collects)
    finally:
        gc.callbacks.remove(collector)
    assert reported == []


def test_hooks_for_what_is_ignored_are_left_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    timers = timers_set(monkeypatch)

    def hook(unraisable: Any) -> None:
        out_of_time()
        ended.append(True)

    def finalizes() -> None:
        Finalized(raises_another)
        forever()

    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", hook)
        with pytest.raises(TimeoutError, match=LATE):
            within(5, finalizes)
    assert ended == [True]
    assert timers == [(5, 5), (deadline.SOON, 5), (0,)]


def test_nothing_is_raised_once_it_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer runs out where the limit is set, and where it is lifted."""
    setitimer = signal.setitimer

    def fires(which: int, *timer: float) -> tuple[float, float]:
        found = setitimer(which, *timer)
        if timer[0] != deadline.SOON:
            out_of_time()
        return found

    monkeypatch.setattr(signal, "setitimer", fires)
    assert within(5, lambda: "returned") == "returned"


def test_short_limits_leave_nothing_behind() -> None:
    late = 0
    for i in range(300):
        try:
            within(1e-4 + i * 1e-6, time.sleep, 2e-4)
        except TimeoutError:
            late += 1
    assert 0 < late <= 300


def test_what_the_call_held_is_let_go() -> None:
    class Large:
        pass

    found: list[weakref.ref[Large]] = []

    def holds() -> None:
        large = Large()
        found.append(weakref.ref(large))
        forever()

    gc.disable()
    try:
        with suppress(TimeoutError):
            within(0.05, holds)
        assert found[0]() is None
    finally:
        gc.enable()
