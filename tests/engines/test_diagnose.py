"""`diagnose`: causes that are planted in simulated servers are found, and a healthy server gets none.

The servers are simulated with fixed seeds, so the tests are deterministic. Each planted cause is far beyond the
threshold, and the sampling error of the rates, below 3% here, is far below the distance to it.
"""

from __future__ import annotations

import json
import runpy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import spectheory as st
from simulate import StepTimes
from spectheory.core.provenance import Provenance
from spectheory.engines import Usual, diagnosis_names, observed_in
from spectheory.results.diagnosis import NOTABLE, Factor
from tests.known import known
from tests.refusals import refuses

SAMPLES = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "generate_samples.py"))
LENGTH = 4


@dataclass(frozen=True)
class Planted:
    """A server: the rate of every position, milliseconds of a level and of overheads, and how verification grows."""

    rate: float = 0.75
    level: float = 0.5
    overhead: float = 0.6
    steep: float = 0.005
    crowded: float = 0.0001
    batch: int = 8

    def latency(self, batch: int, *, overhead: float = 0.6) -> st.Latency:
        """The times at a batch size. A forward of t tokens takes 1 + (t - 1) (steep + crowded (batch - 1)) of 10 ms."""
        tokens = np.arange(1, 2 * LENGTH + 2)
        target = 10e-3 * (1 + (tokens - 1) * (self.steep + self.crowded * (batch - 1)))
        return st.Latency(
            tokens,
            np.array([100]),
            target[None],
            np.full((1, len(tokens)), self.level / 1e3),
            overhead_seconds=overhead / 1e3,
            plain_overhead_seconds=0.3e-3,
            provenance=Provenance("planted", batch=batch),
        )

    @property
    def known(self) -> list[st.Latency]:
        """What is known of the forwards: not the overhead, which only the measured cycles show."""
        return [self.latency(1), self.latency(self.batch)]

    @property
    def ratio(self) -> float:
        """Forwards of one token that the verification takes."""
        return 1 + LENGTH * (self.steep + self.crowded * (self.batch - 1))


SERVERS = {
    "": Planted(),
    "acceptance": Planted(rate=0.25),
    "draft": Planted(level=4.0),
    "verification": Planted(steep=0.2),
    "batch": Planted(batch=64, crowded=0.004),
    "overhead": Planted(overhead=9.0),
}


@cache
def served(cause: str, length: int = LENGTH) -> Any:
    """The traffic of a server, with speculation or without it (length 0)."""
    server = SERVERS[cause]
    latencies = [server.latency(batch, overhead=server.overhead) for batch in (1, server.batch)]
    times = StepTimes.by_batch([1, server.batch], latencies)
    settings = {"count": 4 * server.batch, "prompt": 1, "output": 200, "draft_seconds": LENGTH * server.level / 1e3}
    return SAMPLES["traffic"](times, server.batch, length, [server.rate] * length, **settings)


def reports(kind: str, cause: str, length: int = LENGTH) -> list[str]:
    """The reports of one kind about the traffic: two scrapes, or a log."""
    one = served(cause, length)
    if kind == "vllm-metrics":
        return [SAMPLES["vllm_scrape"]({"m": one}, before=300, end=end) for end in (False, True)]
    make = {
        "vllm-log": "vllm_log",
        "sglang-log": "sglang_log",
        "sglang-metrics": "sglang_scrape",
        "trtllm-stats": "trtllm_stats",
        "llama.cpp-log": "llama_cpp_log",
    }
    return [SAMPLES[make[kind]](one)]


def diagnose(kind: str, cause: str, **given: Any) -> st.Diagnosis:
    server = SERVERS[cause]
    batch = server.batch if kind == "llama.cpp-log" else None
    (found,) = st.diagnose(reports(kind, cause), kind, batch=batch, min_trials=1, **given)
    return found


@pytest.mark.parametrize("cause", SERVERS)
@pytest.mark.parametrize("kind", diagnosis_names())
def test_the_planted_cause_is_found_and_no_other(kind: str, cause: str) -> None:
    found = diagnose(kind, cause, times=SERVERS[cause].known)
    assert found.causes == ((cause,) if cause else ()), found.factors
    assert not found.unknown
    for factor in found.factors:
        assert bool(factor.change) == factor.is_cause
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert st.Diagnosis.from_dict(found.to_dict()).to_dict() == found.to_dict()


@pytest.mark.parametrize("cause", SERVERS)
@pytest.mark.parametrize("kind", diagnosis_names())
def test_the_parts_of_a_cycle_are_those_of_the_server(kind: str, cause: str) -> None:
    """The whole cycle is measured; the end of the traffic, where fewer sequences run, changes it by a few percent."""
    server, found = SERVERS[cause], diagnose(kind, cause, times=SERVERS[cause].known)
    cycle = LENGTH * server.level + 10 * server.ratio + server.overhead
    assert found.cycle_seconds == pytest.approx(cycle / 1e3, rel=0.08)
    assert found.draft_seconds == pytest.approx(LENGTH * server.level / 1e3, rel=1e-6)
    assert found.verification_seconds == pytest.approx(10e-3 * server.ratio, rel=1e-9)
    assert found.nodes == pytest.approx(LENGTH, rel=0.02)
    alpha = server.rate
    assert found.tau == pytest.approx(sum(alpha**i for i in range(LENGTH + 1)), rel=0.05)
    assert found.speedup == pytest.approx(found.tau * 10.3 / (1e3 * (found.cycle_seconds or 0)), rel=1e-6)


@pytest.mark.parametrize("kind", diagnosis_names())
def test_a_run_without_speculation_gives_the_measured_speedup(kind: str) -> None:
    batch = SERVERS["draft"].batch if kind == "llama.cpp-log" else None
    (found,) = st.diagnose(reports(kind, "draft"), kind, plain=reports(kind, "draft", 0), batch=batch, min_trials=1)
    one, off = served("draft"), served("draft", 0)
    rounding = 0.5 / 7.5 if kind.endswith("-log") else 0.0  # logs print whole sequences
    assert found.speedup == pytest.approx(one.tau * off.step_seconds / one.step_seconds, rel=0.01 + rounding)
    told = {"trtllm-stats", "llama.cpp-log"}  # these two report the draft's time
    assert found.causes == (("draft",) if kind in told else ())
    assert found.unknown == ("draft",) * (kind not in told) + ("verification", "batch", "overhead")
    for factor in found.factors:
        assert bool(factor.measure) == (factor.gain is None)


@pytest.mark.parametrize("kind", diagnosis_names())
def test_what_the_report_alone_does_not_tell_is_named(kind: str) -> None:
    found = diagnose(kind, "acceptance")
    assert found.causes == ("acceptance",)
    assert found.unknown == ("draft", "verification", "batch", "overhead")
    assert found.speedup is None
    assert all("--gpu" in factor.measure for factor in found.factors if factor.gain is None)


def test_steep_and_crowded_verification_are_told_apart_only_with_times_of_one_sequence() -> None:
    (at_load,) = st.diagnose(reports("vllm-metrics", "batch"), "vllm-metrics", times=SERVERS["batch"].known[1:])
    assert at_load.causes == ()
    assert at_load.unknown == ("verification", "batch")
    assert {factor.measure for factor in at_load.factors if factor.gain is None} == {
        "forward times of batch size 1 too: --gpu, --target and --draft, or a second --latency"
    }
    (healthy,) = st.diagnose(reports("vllm-metrics", ""), "vllm-metrics", times=SERVERS[""].known[1:])
    assert not healthy.unknown, "where verification costs little, it need not be known why"


def test_gains_are_those_of_the_formula() -> None:
    found = diagnose("trtllm-stats", "draft", times=SERVERS["draft"].known)
    work, tau = 1e3 * (found.cycle_seconds or 0), found.tau
    usual = 0.1 * 10.3 * LENGTH
    gains = {factor.name: factor.gain for factor in found.factors}
    assert gains["draft"] == pytest.approx(work / (work - 16 + usual))
    assert gains["verification"] == pytest.approx(work / (work - 0.2))
    assert gains["batch"] == pytest.approx(work / (work - 10 * LENGTH * 0.0001 * 7))
    strict = diagnose("trtllm-stats", "draft", times=SERVERS["draft"].known, usual=Usual(rate=1.0, draft=0.0))
    gains = {factor.name: factor.gain for factor in strict.factors}
    assert gains["acceptance"] == pytest.approx((LENGTH + 1) / tau)
    assert gains["draft"] == pytest.approx(work / (work - 16))


def test_the_fastest_length_is_that_of_the_rates_and_times() -> None:
    found = diagnose("vllm-metrics", "draft", times=SERVERS["draft"].known)
    rates = np.cumprod([0.75] * 2 * LENGTH)
    seconds = [10.3] + [(4 * n + 10 * (1 + 0.0057 * n) + 0.6) / (1 + rates[:n].sum()) for n in range(1, 9)]
    assert found.length == int(np.argmin(seconds)) == 2
    assert found.length_gain == pytest.approx(seconds[LENGTH] / seconds[2], rel=0.03)
    assert found.length_setting == '"num_speculative_tokens": 2 in --speculative-config'
    rarely = "Decode batch. #running-req: 1, accept len: 1.05, gen throughput (token/s): 39.4737, #queue-req: 0"
    (slow,) = st.diagnose(rarely, "sglang-log", nodes=4, times=SERVERS["draft"].latency(1))
    assert (slow.length, slow.length_setting) == (0, "no speculation at this load")


@settings(deadline=None, derandomize=True, max_examples=25)
@given(hs.floats(0.05, 0.95), hs.floats(0.1, 5), hs.floats(0, 0.3), hs.floats(0, 5), hs.integers(1, 8))
def test_every_part_costs_and_the_gains_never_contradict_the_speed(
    rate: float, level: float, steep: float, overhead: float, length: int
) -> None:
    """For any server: gains are at least 1, and with all the usual values at once it is at least as fast."""
    latency = Planted(level=level, steep=steep, crowded=0.0).latency(1)
    tau = round(sum(rate**i for i in range(length + 1)), 4)
    cycle = latency.cycle(st.Tree.chain(length), 100) + overhead / 1e3
    line = (
        f"Decode batch. #running-req: 1, accept len: {tau}, gen throughput (token/s): {tau / cycle:.9f}, #queue-req: 0"
    )
    (found,) = st.diagnose(line, "sglang-log", nodes=length, times=latency)
    gains = {factor.name: factor.gain or 0.0 for factor in found.factors}
    assert min(gains.values()) >= 1
    assert found.speedup == pytest.approx(tau * latency.plain(100) / cycle, rel=1e-6)
    assert set(found.causes) == {name for name, gain in gains.items() if gain >= NOTABLE}
    assert gains["batch"] == 1, "one sequence is not a large batch"
    assert found.overhead_seconds == pytest.approx(latency.overhead_seconds + overhead / 1e3, abs=1e-8)
    assert gains["acceptance"] == pytest.approx(max(1, sum(0.6**i for i in range(length + 1)) / tau), rel=1e-3)


def test_models_of_one_server_are_kept_apart() -> None:
    two = {"good": served(""), "poor": served("acceptance")}
    scrapes = [SAMPLES["vllm_scrape"](two, before=300, end=end) for end in (False, True)]
    found = st.diagnose(scrapes, "vllm-metrics")
    assert [(one.model, one.causes) for one in found] == [("good", ()), ("poor", ("acceptance",))]
    (poor,) = st.diagnose(scrapes, "vllm-metrics", model="poor")
    (alone,) = st.diagnose(reports("vllm-metrics", "acceptance"), "vllm-metrics")
    assert replace(poor, model="m", provenance=alone.provenance).to_dict() == alone.to_dict()
    with pytest.raises(st.InputError, match=r"unknown value of the label model_name 'por': did you mean poor"):
        st.diagnose(scrapes, "vllm-metrics", model="por")


def test_what_was_before_the_first_scrape_does_not_count() -> None:
    early, late = (
        [SAMPLES["vllm_scrape"]({"m": served("")}, before=n, end=end) for end in (False, True)] for n in (0, 10**6)
    )
    one, other = (observed_in(pair, "vllm-metrics")[0] for pair in (early, late))
    assert one.tau == other.tau
    assert known(one.statistics).drafts == known(other.statistics).drafts == served("").cycles
    assert one.step_seconds == pytest.approx(other.step_seconds, rel=1e-4), "sums are printed with nine digits"
    (since_start,) = observed_in(late[1], "vllm-metrics")
    assert since_start.notes[0].startswith("a single scrape counts everything since the server started")
    assert since_start.tau < one.tau


def test_a_server_that_drafts_nothing_gets_no_causes() -> None:
    for kind in diagnosis_names():
        (found,) = st.diagnose(reports(kind, "", 0), kind)
        assert (found.factors, found.causes, found.tau, found.speedup) == ((), (), 1.0, 1.0)
        assert "nothing was drafted" in found.notes[-1]
        assert "nothing was drafted" in found.summary


def test_lengths_of_requests_and_the_prefix_cache_are_counted() -> None:
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3")
    text = reports("vllm-metrics", "")[1]
    text += 'vllm:prefix_cache_queries_total{model_name="m"} 100\nvllm:prefix_cache_hits_total{model_name="m"} 50\n'
    (seen,) = observed_in(text, "vllm-metrics")
    assert (seen.prompt_tokens, seen.cached_share, seen.output_tokens) == (1.0, 0.5, 200.0)
    (found,) = st.diagnose(text, "vllm-metrics", times=place)
    assert any("a request has 1 tokens of prompt, of which 0 are not in" in note for note in found.notes)
    own = replace(place, prompt_tokens=10.0, output_tokens=20.0)
    assert not any("a request has" in note for note in st.diagnose(text, "vllm-metrics", times=own)[0].notes)


def test_trees_have_the_nodes_and_levels_that_are_given() -> None:
    line = "Decode batch. #running-req: 1, accept len: 3.00, gen throughput (token/s): 100.0, #queue-req: 0"
    (found,) = st.diagnose(line, "sglang-log", nodes=7, depth=3, times=SERVERS[""].latency(1))
    assert (found.nodes, found.depth, found.length) == (7.0, 3, None)
    assert found.draft_seconds == pytest.approx(3 * 0.5e-3), "one forward of the draft for each level"
    assert found.verification_seconds == pytest.approx(10e-3 * (1 + 7 * 0.005))
    assert "tau 3.00 of at most 4; rates 0.81 at every position" in found.factors[0].figures
    (untimed,) = st.diagnose(line, "sglang-log", nodes=7, depth=3)
    assert untimed.unknown == ("draft", "verification", "overhead"), "one sequence is not a large batch"


def test_without_the_batch_size_forward_times_cannot_be_used() -> None:
    log = reports("llama.cpp-log", "draft")
    (found,) = st.diagnose(log, "llama.cpp-log", times=SERVERS["draft"].known)
    assert found.unknown == ("draft", "verification", "batch", "overhead")
    assert all("(--batch)" in factor.measure for factor in found.factors if factor.gain is None)
    (one,) = st.diagnose(log, "llama.cpp-log", times=SERVERS["draft"].known[1])
    assert one.causes == ("draft",)
    assert any("the batch size is taken as 8, the batch size of the forward times" in note for note in one.notes)


def test_forward_times_that_exceed_the_cycle_are_said_not_to_fit() -> None:
    slow = [replace(latency, target_seconds=3 * latency.target_seconds) for latency in SERVERS[""].known]
    found = diagnose("sglang-log", "", times=slow)
    assert any("they do not fit this server: by them a cycle takes at least 32" in note for note in found.notes)
    assert found.unknown == ("draft", "verification", "batch", "overhead")
    assert all("calibrate the forward times" in factor.measure for factor in found.factors if factor.gain is None)
    assert found.cycle_seconds == observed_in(reports("sglang-log", ""), "sglang-log")[0].step_seconds
    far = diagnose("sglang-log", "", times=[SERVERS[""].latency(64)])
    assert any("are of batch size 64, but 7" in note for note in far.notes)


def before() -> str:
    """The first scrape of the healthy server."""
    return reports("vllm-metrics", "")[0]


def after() -> str:
    """The second scrape of the healthy server."""
    return reports("vllm-metrics", "")[1]


def test_what_cannot_be_diagnosed_is_refused() -> None:
    refuses("was reset, or the scrapes are in the wrong order", st.diagnose, [after(), before()], "vllm-metrics")
    refuses(
        "the server was started between the scrapes .process_start_time_seconds changed.",
        st.diagnose,
        [before().replace("1790000000", "1780000000"), after()],
        "vllm-metrics",
    )
    refuses(
        "the later scrape has no vllm:.* with the labels .*other",
        st.diagnose,
        [after().replace('"m"', '"other"'), after()],
        "vllm-metrics",
    )
    refuses("report 2 is the same report as report 1", st.diagnose, [after(), after()], "vllm-metrics")
    refuses("vllm-metrics shows no decoding", st.diagnose, [before(), before() + "\n"], "vllm-metrics")
    refuses("one scrape, or two of which", st.diagnose, [before(), after(), after() + "\n"], "vllm-metrics")
    refuses("has none of vllm:inter_token", st.diagnose, reports("sglang-metrics", ""), "vllm-metrics")
    refuses("has none of sglang:inter_token", st.diagnose, after(), "sglang-metrics")
    refuses("sglang-log shows no decoding", st.diagnose, after(), "sglang-log")
    refuses("llama.cpp-log shows no decoding", st.diagnose, reports("vllm-log", ""), "llama.cpp-log")
    refuses("the report must hold JSON", st.diagnose, "hello", "trtllm-stats")
    refuses("trtllm-stats shows no decoding", st.diagnose, "{}", "trtllm-stats")
    refuses("is empty: give the text", st.diagnose, "", "vllm-log")
    refuses("got an empty list", st.diagnose, [], "vllm-log")
    refuses("vllm-log must be one log, got 2 files", st.diagnose, ["a", "b"], "vllm-log")
    refuses("unknown report of a server 'vllm-response'", st.diagnose, "x", "vllm-response")
    refuses("does not tell models apart", st.diagnose, reports("vllm-log", ""), "vllm-log", model="m")
    refuses("plain must be without speculation", st.diagnose, [before(), after()], "vllm-metrics", plain=after())
    refuses("depth must be at least 2.*, because tau is 3", st.diagnose, [before(), after()], "vllm-metrics", depth=1)
    refuses("nodes must be at least 1", st.diagnose, after(), "vllm-metrics", nodes=0)
    refuses("depth must be at most nodes=3", st.diagnose, after(), "vllm-metrics", nodes=3, depth=4)
    refuses("batch must be at least 1", st.diagnose, after(), "vllm-metrics", batch=0.5)
    refuses("times must have at least one latency", st.diagnose, after(), "vllm-metrics", times=[])
    refuses("rate must be at most 1", Usual, rate=1.5)
    refuses("gain of draft must be finite and at least 1", Factor, "draft", "", 0.5, "", "")
    refuses(
        "must end in _total, or be declared as a counter",
        st.diagnose,
        [before().replace("_total", ""), after().replace("_total", "")],
        "vllm-metrics",
    )


@pytest.mark.deep
def test_the_sample_files_are_what_the_simulated_servers_report() -> None:
    for name, text in SAMPLES["samples"]().items():
        assert (SAMPLES["SAMPLES"] / name).read_text(encoding="utf-8") == text, "run python docs/generate_samples.py"
