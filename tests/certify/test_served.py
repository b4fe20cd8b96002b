"""The comparison of a server with speculation with the same server without it, on a fake server with planted faults."""

from __future__ import annotations

import json
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
from spectheory.certify.probes import greedy, prompts_of
from spectheory.certify.served import Comparison, ServedCertificate, difference
from tests.certify.fake_server import FAULTS, PLAIN, STALE, Model, serving
from tests.command_line import Run, refused


def compared(fault: str, seed: int, most: int) -> ServedCertificate:
    posts = {"server": Model(fault, 2 * seed), "plain": Model(PLAIN, 2 * seed + 1)}
    return Comparison(Answers(posts), prompts_of(40), most=most).certificate()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_within_3000_requests_by_its_probe(fault: str) -> None:
    found = compared(fault, 0, 3000 if FAULTS[fault] == "drawn" else 1200)
    failed = [one.probe for one in found.findings if one.verdict is Verdict.LOSSY]
    assert found.verdict is Verdict.LOSSY
    assert FAULTS[fault] in failed
    if FAULTS[fault] not in ("alone", "log-probabilities"):
        assert any("request" in line for one in found.findings if one.probe in failed for line in one.shows)


@pytest.mark.parametrize("fault", ["", STALE])
def test_right_servers_pass(fault: str) -> None:  # at level 1e-3 each
    found = compared(fault, 1, 1500)
    assert found.verdict is Verdict.PASSED
    assert {one.verdict for one in found.findings} == {Verdict.PASSED}
    shares = [int(share) for share in re.findall(r"(\d+)% to token", found.notes[0])]
    assert len(shares) == 4
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 0


@given(some.lists(some.tuples(some.integers(0, 3), some.integers(0, 3))), some.integers(0, 3), some.integers(0, 3))
def test_a_bet_on_two_samples_is_fair(past: list[tuple[int, int]], one: int, other: int) -> None:
    def wealth(*last: tuple[int, int]) -> float:
        bets = TwoSamples()
        for a, b in [*past, *last]:
            bets.settle([[("token", a)], [("parity", a % 2)]], [[("token", b)], [("parity", b % 2)]])
        return math.exp(bets.log_wealth())

    assert (wealth((one, other)) + wealth((other, one))) / 2 == pytest.approx(wealth())


def answer(text: str, finish: str = "length", other: str = "z", log: float = -0.1, other_log: float = -0.15) -> Answer:
    """An answer whose tokens are letters. Everywhere, `log` and `other_log` are those of its token and of another."""
    tops = tuple({one: log, other: other_log} for one in text)
    return Answer(text, finish, "tiny", tuple(text), (log,) * len(text), tops)


@pytest.mark.parametrize(
    ("body", "right", "given_answer", "token", "margin"),
    [
        ({}, answer("abc"), answer("abc"), 3, -math.inf),
        ({}, answer("abc"), answer("abz"), 2, 0.05),
        ({}, answer("abc", other_log=-3.1), answer("abz"), 2, 3.0),
        ({}, answer("abc", log=-0.7, other_log=-0.8), answer("abx"), 2, 0.1),  # at most as probable as z
        ({}, answer("abc", log=-0.1), answer("ab", "stop"), 2, -0.1 - math.log(-math.expm1(-0.1))),
        ({}, answer("ab", "stop"), answer("abc"), 2, 0.0),  # the plain server does not say how probable the end was
        ({}, answer("ab", "length"), answer("abc"), 2, math.inf),
        ({}, answer("abc", "length"), answer("ab", "length"), 2, math.inf),
        ({"stop": ["b"]}, answer("a", "stop"), answer("abc"), 1, math.inf),
        ({"response_format": {}}, answer("[]", "stop"), answer("[]]"), 2, math.inf),
        ({}, Answer("abc", "length", "tiny"), answer("abz"), 2, 0.0),
    ],
)
def test_the_first_difference_of_two_greedy_answers(
    body: dict[str, Any], right: Answer, given_answer: Answer, token: int, margin: float
) -> None:
    found = difference(body, right, given_answer)
    assert found[0] == token
    assert found[1] == pytest.approx(margin)


FEW = ("--cases", 10, "--max-samples", 400)


def test_recorded_answers_stand_in_for_both_servers(run: Run) -> None:
    with serving(Model(PLAIN, 1)) as plain:
        assert run("certify", "plain.jsonl", "--plain", plain, "--cases", 10, "--max-samples", 800).exit_code == 2
    with serving(Model("stop string missed", 2)) as server:
        found = run("certify", "--server", server, "--plain", "plain.jsonl", *FEW)
    assert found.exit_code == 1
    assert "FAILED: ends" in found.stdout
    again = run("certify", "--server", server, "--plain", "plain.jsonl", *FEW)  # of which neither runs now
    assert (again.exit_code, again.stdout) == (1, found.stdout)


def test_an_interrupted_run_continues_where_it_was(run: Run) -> None:
    def interrupted(number: int, value: Any) -> Any:
        asked.append(number)
        return value if number < 40 else 500

    asked: list[int] = []
    with serving(Model(PLAIN, 1)) as plain:
        with serving(Model("", 2), interrupted) as server:
            assert run("certify", "--server", server, "--plain", plain, *FEW).exit_code == 2
        asked.clear()
        port = int(server.rpartition(":")[2])
        with serving(Model("", 2), lambda number, value: asked.append(number) or value, port) as server:
            with Path("served.jsonl").open("a") as file:
                file.write('\n{"asked": ["server')
            found = run("certify", "--server", server, "--plain", plain, *FEW)
    assert "passed: streamed" in found.stdout
    kept = [json.loads(line) for line in Path("served.jsonl").read_text().splitlines() if line.endswith("}")]
    answers = sum(len(one["answers"]) for one in kept if one["asked"][0] == "server")
    assert answers - len(asked) in range(36, 41)  # the scene in which the server failed is repeated


@pytest.mark.parametrize(
    ("says", "spoil"),
    [
        ("answered with status 500", lambda value: 500),
        ("answered with status 302", lambda value: 302),  # a redirection to another host is not followed
        ("is rate-limited, status 429", lambda value: 429),
        ("an answer is not a completion", lambda value: {"error": "busy"}),
        ("the model of the server changed from 'tiny' to 'other'", lambda value: value | {"model": "other"}),
    ],
)
def test_a_server_that_does_not_answer_is_named_and_its_answers_are_kept(run: Run, says: str, spoil: Any) -> None:
    with (
        serving(Model(PLAIN, 1)) as plain,
        serving(Model("", 2), lambda number, value: value if number < 15 else spoil(value)) as server,
    ):
        found = run("certify", "--server", server, "--plain", plain, *FEW)
    assert found.exit_code == 2
    assert f"not decided: drawn: {server} {says}" in found.stdout or f"not decided: drawn: {says}" in found.stdout
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
        def post(bodies: Any) -> Any:
            return [
                [{"model": "tiny", "choices": [part["choices"][0] | {"logprobs": None}]}] for (part,) in model(bodies)
            ]

        return post

    posts = {"server": hiding(Model("shared random stream", 2)), "plain": hiding(Model(PLAIN, 1))}
    found = {one.probe: one for one in Comparison(Answers(posts), prompts_of(40), most=1500).certificate().findings}
    assert "does not give them" in found["log-probabilities"].says
    assert found["alone"].verdict is Verdict.UNDECIDED
    assert found["drawn"].verdict is Verdict.PASSED
    assert found["drawn at once"].verdict is Verdict.LOSSY


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--server", "http://127.0.0.1:9"], "--server needs --plain"),
        (["--server", "127.0.0.1:8000", "--plain", "plain.jsonl"], "a server must be a URL such as http"),
        (["--server", "http://127.0.0.1:9", "--plain", "plain.jsonl"], "there is no file plain.jsonl"),
        (["other.txt", "--plain", "http://127.0.0.1:9"], "other.txt holds something other than answers of servers"),
        (["other.json", "--plain", "http://127.0.0.1:9"], "other.json holds something other than answers of servers"),
        (["--plain", "http://127.0.0.1:9", "--cases", "1"], "prompts must be at least 2, got 1"),
        ([], "name what to certify, or give --server and --plain"),
    ],
)
def test_bad_options_of_a_server_are_refused(run: Run, options: list[str], message: str) -> None:
    Path("other.json").write_text('{"text": 1}')
    Path("other.txt").write_text("a text of somebody")
    refused(run("certify", *options), message)
