"""Loads: exact properties and moments of synthetic ones, with a stated error level, and readers of traces."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from simulate.load import Geometric, Lognormal, Requests, bursts, closed, parse, poisson, profile, read_trace
from tests.helpers import refuses

COUNT = 40_000
SIX = 6.0
"""Standard errors by which a mean may be off: an error level of 2e-9 for each, if the mean is about normal."""


def equal(one: Requests, other: Requests) -> bool:
    names = ("arrival_seconds", "prompt_tokens", "output_tokens", "kinds")
    return one.concurrency == other.concurrency and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in names
    )


def within(values: np.ndarray, mean: float) -> bool:
    """Whether the mean of independent values is as stated, up to `SIX` standard errors."""
    return abs(values.mean() - mean) <= SIX * values.std() / np.sqrt(len(values))


def test_a_seed_fixes_a_load_and_a_longer_load_begins_as_a_shorter_one() -> None:
    shapes = {"prompt": Lognormal(500, 1.2), "output": Geometric(80), "shares": (0.3, 0.7)}
    assert equal(poisson(3, 100, seed=4, **shapes), poisson(3, 100, seed=4, **shapes))
    longer = poisson(3, 150, seed=4, **shapes)
    assert equal(poisson(3, 100, seed=4, **shapes), longer.until(float(longer.arrival_seconds[100])))
    assert not np.array_equal(longer.arrival_seconds, poisson(3, 150, seed=5, **shapes).arrival_seconds)


def test_a_change_of_lengths_or_of_the_rate_leaves_everything_else() -> None:
    base, other = poisson(3, 100, output=Geometric(80), seed=1), poisson(6, 100, output=9, prompt=7, seed=1)
    loop = closed(32, 100, output=Geometric(80), seed=1)
    assert (loop.concurrency, loop.arrival_seconds.any()) == (32, False)
    assert np.array_equal(loop.output_tokens, base.output_tokens)
    assert np.allclose(base.arrival_seconds, 2 * other.arrival_seconds, rtol=1e-15)
    mixture = poisson(3, 100, output=Geometric(80), prompt=Lognormal(900, 2), shares=(0.5, 0.5), seed=1)
    assert np.array_equal(base.output_tokens, mixture.output_tokens)
    assert np.array_equal(base.arrival_seconds, mixture.arrival_seconds)


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gaps_of_bursts_have_the_stated_mean_and_variation(cv: float) -> None:
    gaps = np.diff(bursts(5, COUNT, cv=cv, seed=2).arrival_seconds)
    assert within(gaps, 1 / 5)
    assert within((gaps - 1 / 5) ** 2, (cv / 5) ** 2)


def test_a_profile_is_the_same_process_where_its_rates_agree() -> None:
    calm, burst = profile((8, 8), (60, 60), seed=7), profile((8, 40), (60, 60), seed=7)
    before = calm.arrival_seconds < 60
    assert np.array_equal(calm.arrival_seconds[before], burst.arrival_seconds[: before.sum()])


@pytest.mark.parametrize("mean", [1, 1.5, 300])
def test_geometric_lengths_have_the_stated_distribution(mean: float) -> None:
    draws = Geometric(mean).draw(np.random.default_rng(1), COUNT)
    assert draws.min() == 1
    assert within(draws, mean) or mean == 1
    assert within((draws > 2).astype(float), (1 - 1 / mean) ** 2) or mean == 1
    assert Geometric(300, most=400).draw(np.random.default_rng(1), COUNT).max() == 400


def test_lognormal_lengths_have_the_stated_mean_and_variation() -> None:
    draws = Lognormal(900, 0.8).draw(np.random.default_rng(1), COUNT)
    assert within(draws, 900)
    assert within((draws - 900.0) ** 2, (0.8 * 900) ** 2 + 1 / 12)
    assert Lognormal(2, 3).draw(np.random.default_rng(1), COUNT).min() == 1


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("poisson:12,count=50", lambda seed: poisson(12, 50, seed=seed)),
        ("bursts:12,cv=3,count=50", lambda seed: bursts(12, 50, cv=3, seed=seed)),
        (
            "poisson:2,count=50,prompt=lognormal:512:1.5:900,output=geometric:80,shares=0.5/0.5",
            lambda seed: poisson(
                2, 50, prompt=Lognormal(512, 1.5, 900), output=Geometric(80), shares=(0.5, 0.5), seed=seed
            ),
        ),
        ("profile:8/40,seconds=6/5,output=7", lambda seed: profile((8, 40), (6, 5), output=7, seed=seed)),
        ("closed:32,count=50", lambda seed: closed(32, 50, seed=seed)),
    ],
)
def test_a_text_describes_a_load(text: str, same) -> None:
    load = parse(text)
    assert all(equal(load.requests(seed), same(seed)) for seed in (0, 5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poison:12", "unknown load 'poison': did you mean poisson"),
        ("poisson:0", "rate must be a finite number above 0, at most 1e+12, got 0.0"),
        ("poisson:12,cv=3", "unknown option 'cv'"),
        ("bursts:12", "needs cv"),
        ("closed:0", "concurrency must be at least 1, got 0"),
        ("poisson:1,output=geometric:0.5", "output=geometric:0.5: mean must be at least 1 token"),
        ("poisson:1,shares=0.5/0.6", "shares must be a probability for each class and sum to 1"),
        ("trace.csv", "there is no file 'trace.csv'"),
        ("", "load must not be empty: give poisson:RATE"),
    ],
)
def test_a_text_that_describes_no_load_is_refused(text: str, message: str) -> None:
    refuses(re.escape(message), parse, text)


def test_a_file_is_changed_as_its_options_say(tmp_path: Path) -> None:
    file = tmp_path / "a,b.csv"
    rows = [f"2023-11-16 18:17:{i:02d}.5,{10 + i},{1 + i}" for i in range(40)]
    file.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    assert len(parse(str(file)).requests()) == 40
    plain = file.rename(tmp_path / "trace.csv")
    load = parse(f"{plain},seconds=20,rate=4")
    assert len(load.requests()) == 20
    assert load.requests().rate == pytest.approx(4)
    assert load.requests(1).concurrency is None
    assert parse(f"{plain},concurrency=8").requests().concurrency == 8
    assert len(parse(f"{plain},first=7").requests()) == 7
    refuses("no rate", parse, f"{plain},rate=4,concurrency=2")


# Traces: one small file of each format, and the ways in which a file can be wrong

AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:17:03.9799600,4808,10",
    "2023-11-16 18:17:04.0319600,110,27",
    "2023-11-16 18:18:04.0319600,20,1",
]
AZURE_2024 = [AZURE[0], "2024-05-10 23:59:59.500000+00:00,2162,5", "2024-05-11 00:00:00.009930+00:00,2399,6"]
MOONCAKE = [
    '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}',
    '{"timestamp": 27482, "input_length": 7322, "output_length": 490, "hash_ids": [0]}',
]
VLLM = {
    "input_lens": [10, 20, 30],
    "output_lens": [4, 5, 6],
    "start_times": [100.5, 100.25, 101.0],
    "errors": ["", "", ""],
    "duration": 3.0,
}


def written(folder: Path, lines: list[str]) -> Path:
    file = folder / "trace"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("lines", "seconds", "prompts", "outputs"),
    [
        (AZURE, [0, 0.052, 60.052], [4808, 110, 20], [10, 27, 1]),
        (AZURE_2024, [0, 0.50993], [2162, 2399], [5, 6]),
        (MOONCAKE, [0, 27.482], [6758, 7322], [500, 490]),
        (json.dumps(VLLM, indent=1).split("\n"), [0, 0.25, 0.75], [20, 10, 30], [5, 4, 6]),
    ],
)
def test_each_format_is_recognised_and_read(
    tmp_path: Path, lines: list[str], seconds: list[float], prompts: list[int], outputs: list[int]
) -> None:
    for text in (lines, [*lines, "", ""], ["\ufeff" + lines[0], *lines[1:]]):
        read = read_trace(written(tmp_path, text))
        assert read.prompt_tokens.tolist() == prompts
        assert read.output_tokens.tolist() == outputs
        assert np.allclose(read.arrival_seconds, seconds, atol=1e-6)


@pytest.mark.parametrize("lines", [AZURE, MOONCAKE])
def test_the_start_of_a_file_can_be_read_alone(tmp_path: Path, lines: list[str]) -> None:
    broken = [*lines, "damaged"]
    assert len(read_trace(written(tmp_path, broken), first=2)) == 2
    refuses(f"trace, line {len(broken)}", read_trace, written(tmp_path, broken))


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ([*AZURE, "2023-11-16 18:19:00,20,0"], "1 of 4 requests failed or have no tokens, the first at .*line 5"),
        ([MOONCAKE[0], MOONCAKE[0].replace("500", "0")], "1 of 2 .*line 2"),
        ([json.dumps(VLLM | {"errors": ["", "timeout", ""]})], "1 of 3 .*request 1"),
    ],
)
def test_failed_requests_are_refused_or_left_out(tmp_path: Path, lines: list[str], where: str) -> None:
    file = written(tmp_path, lines)
    refuses(where, read_trace, file)
    assert (read_trace(file, skip_failed=True).output_tokens > 0).all()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*AZURE, AZURE[1]], "line 5 arrives 60.052 s before the one above it"),
        (MOONCAKE[::-1], "line 2 arrives 27.482 s before"),
        ([*AZURE, "2023-11-16 18:19:00,-5,3"], "line 5: ContextTokens must be a whole number from 0 to"),
        ([*AZURE, "18 o'clock,5,2"], "line 5: TIMESTAMP must be a date"),
        ([*AZURE, "2023-11-16 18:19:00,5"], "line 5: GeneratedTokens must be a number, got None"),
        ([MOONCAKE[0], '{"timestamp": 5, "input_length": 3}'], "line 2 must have timestamp, input_length"),
        (["a,b,c", "1,2,3"], "is in no known format: give an Azure trace"),
        ([json.dumps(VLLM | {"start_times": None})], "must have equally long lists start_times"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(tmp_path: Path, lines: list[str], message: str) -> None:
    refuses(message, read_trace, written(tmp_path, lines), skip_failed=True)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"TIMESTAMP,\xff\xfe\n")
    for path in (tmp_path / "nothing.csv", tmp_path, tmp_path / "bytes"):
        refuses("cannot be read", read_trace, path)
    refuses("first must be at least 1", read_trace, written(tmp_path, AZURE), first=0)
