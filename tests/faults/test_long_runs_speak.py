"""A long stage says how long it takes, what shortens it and, off a terminal, what is left; a short one says nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from spectheory.certify.request import Request
from spectheory.cli import certifying, output
from spectheory.cli.certifying import certify
from spectheory.cli.judging import evaluate
from spectheory.cli.measuring import profile, trace
from spectheory.cli.options import SHIPPED_PROMPTS, Count, PromptOptions, quick, with_groups
from spectheory.cli.training import head, selector, texts
from spectheory.cli.tuning import tune

Steps = list[tuple[float, int, int]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The lines of a stage, from the steps (seconds since its start, finished, total)."""

    def of(
        steps: Steps,
        shorter: str = "lower --count",
        terminal: bool = False,
        scaling: tuple[str, ...] = (),
        announced: bool = False,
        what: str = "",
    ) -> list[str]:
        now = [1000.0]
        monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
        console = Console(stderr=True, record=True, force_terminal=terminal, width=200, quiet=False)
        monkeypatch.setattr(output, "errors", console)
        monkeypatch.setattr(output, "Progress", lambda *columns, **options: _Bar())
        monkeypatch.setattr(output, "Timer", _Soon)
        with output.progress("clock", shorter, *scaling, announced=announced, what=what) as done:
            for seconds, finished, total in steps:
                now[0] = 1000.0 + seconds
                done(finished, total)
        return console.export_text().splitlines()

    return of


class _Soon:
    """A timer that has no patience."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self.start = function

    def cancel(self) -> None:
        """Nothing is left to cancel."""


class _Bar:
    """A bar that is not drawn."""

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def add_task(self, *_: object, **__: object) -> int:
        return 0

    def update(self, *_: object, **__: object) -> None:
        pass


def test_a_long_stage_off_a_terminal_speaks(lines: Callable[..., list[str]]) -> None:
    assert lines([(180.0 * n, n, 8) for n in range(1, 9)]) == [
        "clock: takes about 24 minutes on this machine; lower --count to shorten it",
        *[f"clock: {n} of 8, about {3 * (8 - n)} minutes left" for n in range(3, 8)],
    ]


def test_on_a_terminal_the_bar_shows_what_is_left(lines: Callable[..., list[str]]) -> None:
    assert lines([(180.0 * n, n, 8) for n in range(1, 9)], "", terminal=True) == [
        "clock: takes about 24 minutes on this machine"
    ]


@pytest.mark.parametrize("steps", [[(4.0 * n, n, 10) for n in range(1, 11)], [(100.0, 1, 1)], [(0.0, 0, 9)], []])
def test_a_short_stage_is_silent(lines: Callable[..., list[str]], steps: Steps) -> None:
    assert lines(steps) == []


def test_an_announced_stage_says_what_it_does_and_how_long_it_takes_even_if_it_is_short(
    lines: Callable[..., list[str]],
) -> None:
    assert lines([(2.0 * n, n, 8) for n in range(1, 9)], what="times eight decoders") == [
        "clock: times eight decoders",
        "clock: takes about 16 seconds on this machine",
    ]
    assert lines([], what="times no decoder") == ["clock: times no decoder"]


def test_an_announced_stage_that_is_long_speaks_as_others_do(lines: Callable[..., list[str]]) -> None:
    first, *others = lines([(180.0 * n, n, 8) for n in range(1, 9)], what="times eight decoders")
    assert first == "clock: times eight decoders"
    assert others == lines([(180.0 * n, n, 8) for n in range(1, 9)])


def test_many_quick_steps_give_few_lines(lines: Callable[..., list[str]]) -> None:
    found = lines([(0.1 * n, n, 1000) for n in range(1, 1000)])
    assert found[0] == "clock: takes about 2 minutes on this machine; lower --count to shorten it"
    assert len(found) == 5
    assert found[-1].endswith("about 15 seconds left")


def test_what_happens_once_does_not_count_for_the_speed(lines: Callable[..., list[str]]) -> None:
    """A first step of a minute, which compiles, and 38 steps of 2 seconds."""
    found = lines([(60 + 2.0 * (n - 1), n, 39) for n in range(1, 39)])
    assert found[0] == "clock: takes about 2 minutes on this machine; lower --count to shorten it"
    assert found[1] == "clock: 14 of 39, about 50 seconds left"


def test_steps_of_an_earlier_run_are_not_counted_as_fast_ones(lines: Callable[..., list[str]]) -> None:
    found = lines([(0.0, 90, 100), (60.0, 91, 100), (120.0, 92, 100)])
    assert found == [
        "clock: takes about 10 minutes on this machine; lower --count to shorten it",
        "clock: 92 of 100, about 8 minutes left",
    ]


def test_a_quick_run_is_offered_with_the_time_that_it_would_take(lines: Callable[..., list[str]]) -> None:
    """A quarter of the prompts and a third of the rounds take a twelfth of 24 minutes, the finished part included."""
    before = output.LOWERED.set({"count": 0.25, "rounds": 1 / 3, "skip": 0.1})
    found = lines([(180.0 * n, n, 8) for n in range(1, 3)], scaling=("count", "rounds"))
    output.LOWERED.reset(before)
    assert found[0] == (
        "clock: takes about 24 minutes on this machine; lower --count to shorten it, or give --quick: about 2 minutes"
    )


MEASURING = "clock: measuring its speed; if it takes over 45 seconds, an estimate follows; lower --count to shorten it"


def test_the_first_screen_of_a_long_command_says_what_shortens_it(lines: Callable[..., list[str]]) -> None:
    first, second = lines([(2.0, 1, 100), (12.0, 2, 100)], announced=True)
    assert first == MEASURING
    assert second == "clock: takes about 17 minutes on this machine; lower --count to shorten it"


def test_a_stage_that_ends_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("clock", announced=True) as done:
        done(1, 1)
    assert capsys.readouterr() == ("", "")


def test_the_first_screen_offers_a_quick_run(lines: Callable[..., list[str]]) -> None:
    before = output.LOWERED.set({"count": 0.25})
    found = lines([(0.0, 0, 8)], scaling=("count",), announced=True)
    output.LOWERED.reset(before)
    assert found == [f"{MEASURING}, or give --quick"]


def test_a_slow_first_step_gives_an_upper_estimate(lines: Callable[..., list[str]]) -> None:
    """A stage that reports 0 steps at its start: its first step of 90 seconds, which holds what happens once."""
    found = lines([(0.0, 0, 8), (90.0, 1, 8), (120.0, 2, 8)])
    assert found == [
        "clock: takes up to about 12 minutes on this machine; lower --count to shorten it",
        "clock: 2 of 8, about 3 minutes left",
    ]


@pytest.mark.parametrize("first", [4.0, 5.0])
def test_a_first_step_counts_only_if_it_is_long_and_of_this_run(lines: Callable[..., list[str]], first: float) -> None:
    assert len(lines([(0.0, 0, 80), (first, 1, 80)])) == int(first == 5.0)
    assert lines([(first, 41, 80)]) == []


def test_worlds_and_runs_are_two_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of whole steps that follow an enumeration are timed for themselves, with advice of their own."""
    said: list[tuple[str, str]] = []

    @contextmanager
    def progress(label: str, shorter: str, *scaling: str, announced: bool) -> Iterator[Callable[[int, int], None]]:
        said.append((label, f"begins; {shorter}"))
        yield lambda finished, total: said.append((label, f"{finished} of {total}"))
        said.append((label, "ends"))

    monkeypatch.setattr(certifying, "progress", progress)
    request = Request("m:f", False, False, (), (), 300, 1e-6, 0.02, 1000, 10.0, False, 0, False)
    with certifying._Stages(request) as stages:
        for message in ({"worlds": 1}, {"worlds": 2}, {"runs": 50}):
            stages.report(message)
    worlds, runs = "worlds", "runs, at most"
    assert said == [
        *((worlds, does) for does in ("begins; lower --cases", "1 of 300", "2 of 300", "ends")),
        *((runs, does) for does in ("begins; lower --max-samples, or raise --tv,", "50 of 1000", "ends")),
    ]


@quick(count=4, new_tokens=16)
def command(count: Count = 20, text: PromptOptions = SHIPPED_PROMPTS) -> None:
    print(count, text.new_tokens, dict(sorted(output.LOWERED.get().items())))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "20 128 {'count': 0.2, 'new_tokens': 0.125}"),
        ("--quick", "4 16 {}"),
        ("--count 40 --quick", "40 16 {}"),
        ("--quick --count 20", "20 16 {}"),
        ("--count 40", "40 128 {'new_tokens': 0.125}"),
    ],
)
def test_quick_lowers_what_is_not_given(given: str, said: str) -> None:
    app = typer.Typer()
    app.command()(with_groups(command))
    assert CliRunner().invoke(app, given.split()).stdout == f"{said}\n"


LONG: list[Callable[..., None]] = [
    *(trace, profile, evaluate, tune),
    *(certify, texts, head, selector),
]


@pytest.mark.parametrize("long", LONG, ids=lambda one: one.__name__)
def test_every_long_command_has_a_quick_run(long: Callable[..., None]) -> None:
    options = inspect.signature(with_groups(long)).parameters
    values: dict[str, int] = getattr(long, "quick")  # noqa: B009
    assert all(value < options[name].default for name, value in values.items())
    stated = options["quick"].annotation.__metadata__[0].help
    assert all(f"--{name.replace('_', '-')} {value}" in stated for name, value in values.items())


def test_a_second_part_of_a_stage_is_timed_for_itself(lines: Callable[..., list[str]]) -> None:
    """The trace and the profile of a plan: after 40 quick prompts, 10 rounds of 10 seconds."""
    found = lines([(0.5 * n, n, 40) for n in range(1, 41)] + [(20 + 10.0 * n, n, 10) for n in range(1, 11)])
    assert found[0] == "clock: takes about 2 minutes on this machine; lower --count to shorten it"
    assert found[1] == "clock: 4 of 10, about 60 seconds left"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "1 second"),
        (1.2, "1 second"),
        (59, "59 seconds"),
        (89, "89 seconds"),
        (90, "2 minutes"),
        (9000, "2.5 hours"),
    ],
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert output.duration(seconds) == said
