"""The comparison of a server with speculation with the same server without it, on a fake server with planted faults."""

from __future__ import annotations

import math
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from spectheory.certify.betting import TwoSamples
from spectheory.certify.certificate import Verdict
from spectheory.certify.completions import Answer, Answers, Client, NoAnswerError
from spectheory.certify.probes import Scene, compared, greedy, prompts_of
from spectheory.certify.served import Comparison, ServedCertificate
from tests.certify.fake_server import FAULTS, PLAIN, STALE, Model, serving
from tests.command_line import Run, refused

FEW = ("--cases", 10, "--max-samples", 400)


def certificate(server: Any, plain: Any, most: int) -> ServedCertificate:
    return Comparison(Answers({"server": server, "plain": plain}, most), prompts_of(40)).certificate()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_within_3000_requests_by_its_probe(fault: str) -> None:
    found = certificate(Model(fault, 0), Model(PLAIN, 1), 3000 if "drawn" in FAULTS[fault] else 1200)
    named = found.findings[FAULTS[fault]]
    assert found.verdict is named.verdict is Verdict.LOSSY
    assert FAULTS[fault] == "log-probabilities" or named.shows[0].startswith("request")


@pytest.mark.parametrize("fault", ["", STALE])
def test_right_servers_pass(fault: str) -> None:
    """At level 1e-3 each."""
    found = certificate(Model(fault, 2), Model(PLAIN, 3), 1800)
    assert {one.verdict for one in found.findings.values()} == {found.verdict} == {Verdict.PASSED}
    shares = [int(share) for share in re.findall(r"(\d+)% to token", found.notes[0])]
    assert len(shares) == 4
    assert 100 >= shares[0] >= shares[1] >= shares[2] >= shares[3] > 0


@given(some.lists(some.tuples(some.integers(0, 3), some.integers(0, 3))), some.integers(0, 3), some.integers(0, 3))
def test_a_bet_on_two_samples_is_fair(past: list[tuple[int, int]], one: int, other: int) -> None:
    def wealth(*last: tuple[int, int]) -> float:
        bets = TwoSamples()
        for a, b in [*past, *last]:
            bets.settle([[("token", a)], [("parity", a % 2)]], [[("token", b)], [("parity", b % 2)]])
        return math.exp(bets.log_wealth())

    assert (wealth((one, other)) + wealth((other, one))) / 2 == pytest.approx(wealth())


def answer(text: str, finish: str = "length", log: float = -0.1, z: float = -0.15, listed: str = "") -> Answer:
    """An answer whose tokens are letters, of which more can be listed: `log` is of each token, and `z` of a z there."""
    tokens = tuple(text + listed)
    return Answer(text, finish, "tiny", tokens, (log,) * len(tokens), tuple({one: log, "z": z} for one in tokens))


@pytest.mark.parametrize(
    ("body", "right", "given_answer", "token", "margin"),
    [
        ({}, answer("abc"), answer("abc"), 3, -math.inf),
        ({}, answer("abc"), answer("abz"), 2, 0.05),
        ({}, answer("abc", z=-3.1), answer("abz"), 2, 3.0),
        ({}, answer("abc", log=-0.7, z=-0.8), answer("abx"), 2, 0.1),  # at most as probable as z
        ({}, answer("abc"), answer("ab", "stop"), 2, -0.1 - math.log(-math.expm1(-0.1))),
        ({}, answer("ab", "stop"), answer("abc"), 2, 0.0),  # the plain server does not say how probable the end was
        ({}, answer("ab"), answer("abc"), 2, math.inf),
        ({}, answer("abc"), answer("ab"), 2, math.inf),
        ({"stop": ["b"]}, answer("a", "stop"), answer("abc"), 1, math.inf),
        ({"stop": ["b"]}, answer("a", "stop", listed="b"), answer("a", "stop", listed="bc"), 2, -math.inf),
        ({"response_format": {}}, answer("[]", "stop"), answer("[]]"), 2, math.inf),
        ({}, Answer("abc", "length", "tiny"), answer("abz"), 2, 0.0),
    ],
)
def test_the_first_difference_of_two_greedy_answers(
    body: dict[str, Any], right: Answer, given_answer: Answer, token: int, margin: float
) -> None:
    found = compared(Scene((body,)), 0, right, given_answer)
    assert (found.token, found.margin) == (token, pytest.approx(margin))


def test_layouts_of_engines_are_read() -> None:
    """vLLM's streams, which end with the fingerprint; llama-server's rows, which lack drafted tokens in streams."""

    def part(text: str, logs: Any, **more: Any) -> dict[str, Any]:
        choice = {"text": text, "logprobs": logs, "finish_reason": "stop" if more else None}
        return {"model": "m", "choices": [choice], **more}

    rows = [{"tokens": [one], "token_logprobs": [-1.0], "top_logprobs": [{one: -1.0}]} for one in "ab"]
    streamed = [part("a", rows[0]), part("b", rows[1], system_fingerprint="f"), {"choices": [], "model": "m"}]
    content = [{"token": one, "logprob": -1.0, "top_logprobs": [{"token": one, "logprob": -1.0}]} for one in "ab"]
    whole = [part("ab", {"content": content}, system_fingerprint="f")]
    read = Answer("ab", "stop", "m f", ("a", "b"), (-1.0, -1.0), ({"a": -1.0}, {"b": -1.0}))
    assert Answer.of(streamed) == Answer.of(whole) == read
    assert Answer.of([part("a", rows[0]), part("b", None, usage={})]) == Answer("ab", "stop", "m")


def test_answers_are_recorded_and_an_interrupted_run_continues(run: Run) -> None:
    left = 40

    def interrupted(value: Any) -> Any:
        nonlocal left
        left -= 1
        return value if left >= 0 else 500

    with serving(Model(PLAIN, 1)) as plain:
        recorded = run("certify", "--plain", plain, *FEW)
    assert recorded.exit_code == 2
    assert re.search(r"UNDECIDED.*\n  not run: alone, .*, drawn at once: plain answers are recorded", recorded.stdout)
    with serving(Model("stop string missed", 2), interrupted) as server:
        assert run("certify", "--server", server, *FEW).exit_code == 2
        left = 400
        with Path("served.jsonl").open("a") as file:
            file.write('\n{"asked": ["server')
        found = run("certify", "--server", server, *FEW)
    assert found.exit_code == 1
    assert "FAILED: ends" in found.stdout
    kept = sum(line.count('"finish"') for line in Path("served.jsonl").read_text().splitlines() if '["server"' in line)
    assert 440 - left - kept in range(3)  # the scene in which the server failed is repeated
    again = run("certify", "--server", server, *FEW)  # neither server runs now
    assert (again.exit_code, again.stdout) == (1, found.stdout)


@pytest.mark.parametrize(
    ("says", "spoil"),
    [
        ("answered with status 500 Internal Server Error: '500'", lambda value: 500),
        ("answered with status 302 Found", lambda value: 302),  # a redirection to another host is not followed
        ("answered with status 429 Too Many Requests", lambda value: 429),
        ("an answer is not a completion", lambda value: {"error": "busy"}),
        ("answered something other than JSON (it is nested too deeply): '[[[", lambda value: "[" * 10**5),
        ("the model of the server changed from 'tiny' to 'other'", lambda value: value | {"model": "other"}),
    ],
)
def test_a_server_that_does_not_answer_is_named_and_its_answers_are_kept(run: Run, says: str, spoil: Any) -> None:
    number = iter(range(1000))
    with (
        serving(Model(PLAIN, 1)) as plain,
        serving(Model("", 2), lambda value: value if next(number) < 15 else spoil(value)) as server,
    ):
        found = run("certify", "--server", server, "--plain", plain, *FEW)
    assert found.exit_code == 2
    assert re.search(rf"not decided: again, [\w, ]+ at once: ({server} )?{re.escape(says)}.*\n", found.stdout)
    assert "passed: alone: " in found.stdout
    assert Path("served.jsonl").read_text().count('["server"') >= 11


def test_a_server_that_hangs_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NoAnswerError, match=f"{url} did not answer within 0.1 seconds"):
            Client(url, 0.1)([{}])


def test_requests_at_once_are_in_flight_together() -> None:
    barrier = threading.Barrier(8, timeout=60)

    def post(bodies: Any) -> Any:
        barrier.wait()
        return Model(PLAIN, 1)(bodies)

    with serving(post) as url:
        assert len(Client(url, 60)([greedy("a", 1)] * 8)) == 8


def test_without_log_probabilities_margins_are_unknown_and_drawn_answers_decide() -> None:
    def hiding(model: Model) -> Any:
        return lambda bodies: [
            [one | {"choices": [one["choices"][0] | {"logprobs": None}]}] for (one,) in model(bodies)
        ]

    found = certificate(hiding(Model("shared random stream", 2)), hiding(Model(PLAIN, 1)), 1500).findings
    assert "does not give them" in found["log-probabilities"].says
    verdicts = [found[name].verdict for name in ("alone", "drawn", "drawn at once")]
    assert verdicts == [Verdict.UNDECIDED, Verdict.PASSED, Verdict.LOSSY]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--server", "http://127.0.0.1:9"], "--server needs --plain"),
        (["--server", "127.0.0.1:8000", "--answers", "other.json"], "a server must be a URL such as http"),
        (["--answers", "other.json", "--plain", "http://127.0.0.1:9"], "other.json has something other than answers"),
        ([], "name what to certify, or give --server and --plain"),
    ],
)
def test_bad_options_of_a_server_are_refused(run: Run, options: list[str], message: str) -> None:
    Path("other.json").write_text('{"text": 1}')
    refused(run("certify", *options), message)
