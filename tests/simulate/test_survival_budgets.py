"""Budgets by survival: what is verified of each request, against sorting every drafted token."""

from __future__ import annotations

import numpy as np
import pytest

from simulate import Server, serve
from simulate.controllers import vllm_adaptive
from simulate.load import Geometric, Requests, poisson
from simulate.serving import Controller, StepTimes, Tier
from simulate.serving.server import prepared
from simulate.serving.step_budget import budget_seconds, choose_budget
from spectheory import Acceptance, Latency, Provenance, Tree

LONGEST, LARGEST = 4, 8
CLASSES = [
    Acceptance.by_depth_and_rank([[rate] for rate in rates])
    for rates in ([0.9, 0.9, 0.8, 0.8], [0.5, 0.4, 0.3, 0.2], [0.72, 0.5, 0.5, 0.5])
]


def server(token_seconds: float, bend: int = LONGEST + 1) -> Server:
    """Steps of 4 ms, and `token_seconds` for each token; drafts take 0.3 ms a level.

    Tokens of a sequence beyond `bend` take 20 times as long.
    """

    def latency(batch: int) -> Latency:
        tokens = np.arange(1, LONGEST + 2)
        seconds = (4e-3 + token_seconds * batch * (tokens + 19 * np.maximum(tokens - bend, 0)))[None]
        stamp = Provenance("test", batch=batch)
        return Latency(tokens, np.array([0]), seconds, np.full((1, LONGEST + 1), 3e-4), computed=True, provenance=stamp)

    return Server(StepTimes.by_batch([1, 2, 4, LARGEST], [latency(batch) for batch in (1, 2, 4, LARGEST)]))


def load(count: int = 200) -> Requests:
    return poisson(40, count, prompt=20, output=Geometric(40), shares=(0.4, 0.4, 0.2), seed=2)


@pytest.mark.parametrize("bend", [2, 3, 5])
@pytest.mark.parametrize("token_seconds", [1e-6, 2e-4, 1e-3, 2e-2])
def test_the_budget_is_the_best_of_all_and_goes_to_the_most_valuable_tokens(token_seconds: float, bend: int) -> None:
    """Against a list of all drafted tokens of all requests, sorted, and every number of them."""
    controller = vllm_adaptive(LONGEST, CLASSES, LARGEST)
    _, machine, state = prepared(controller, load(), server(token_seconds, bend), 0, np.inf)
    rng = np.random.default_rng(4)
    for _ in range(40):
        state.classes[:] = rng.multinomial(rng.integers(1, LARGEST + 1), [0.4, 0.3, 0.3])
        batch = int(state.classes.sum())
        chosen = choose_budget(machine, state, batch, 0.0)
        requests = [kind for kind, number in enumerate(state.classes) for _ in range(number)]
        slots = sorted(
            (-controller.tiers[-1].survival[kind, depth], depth, kind, number)
            for number, kind in enumerate(requests)
            for depth in range(1, LONGEST + 1)
        )
        emitted = batch - np.cumsum([0, *(slot[0] for slot in slots)])
        rates = [emitted[k] / budget_seconds(machine, k, batch, 0.0, 0) for k in range(len(slots) + 1)]
        assert rates[chosen] == pytest.approx(max(rates), rel=1e-12)
        for kind in range(3):
            taken = sum(slot[2] == kind for slot in slots[:chosen])
            assert state.classes[kind] * state.most[kind] + state.more[kind] == taken
            deepest = max((slot[1] for slot in slots[:chosen] if slot[2] == kind), default=0)
            assert deepest == state.most[kind] + (state.more[kind] > 0)


def test_seconds_are_those_of_whole_chains_with_the_whole_draft() -> None:
    place = server(2e-4)
    _, machine, _ = prepared(vllm_adaptive(LONGEST, CLASSES, LARGEST), load(), place, 0, np.inf)
    for batch in (1, 3, 8):
        for depth in range(LONGEST + 1):
            expected = LONGEST * 3e-4 + 4e-3 + 2e-4 * batch * (depth + 1)
            assert budget_seconds(machine, depth * batch, batch, 0.0, 0) == pytest.approx(expected, rel=1e-12)
    between = LONGEST * 3e-4 + 4e-3 + 2e-4 * (3 + 7)
    assert budget_seconds(machine, 7, 3, 0.0, 0) == pytest.approx(between, rel=1e-12)


def test_where_tokens_are_free_or_dear_it_is_the_whole_chain_or_nothing() -> None:
    whole = Controller.always(Tier.of(Tree.chain(LONGEST), CLASSES), LARGEST)
    nothing = Controller.always(Tier(Tree.chain(0), np.ones((3, 1)), drafted=Tree.chain(LONGEST)), LARGEST)
    for token_seconds, same in ((0.0, whole), (1.0, nothing)):
        runs = [
            serve(one, load(60), server=server(token_seconds), seed=3)
            for one in (vllm_adaptive(LONGEST, CLASSES, LARGEST), same)
        ]
        assert np.array_equal(runs[0].completion_seconds, runs[1].completion_seconds)
        assert (runs[0].drafted, runs[0].accepted) == (runs[1].drafted, runs[1].accepted)


def test_requests_that_differ_are_decoded_faster_than_with_any_one_length() -> None:
    place, requests = server(3e-4), load(1500)
    adaptive = serve(vllm_adaptive(LONGEST, CLASSES, LARGEST), requests, server=place)
    assert adaptive.drafted < LONGEST * (adaptive.output_tokens.sum() - adaptive.accepted)
    fixed = []
    for depth in range(LONGEST + 1):
        tier = Tier(Tree.chain(depth), Tier.of(Tree.chain(depth), CLASSES).survival, drafted=Tree.chain(LONGEST))
        fixed.append(serve(Controller.always(tier, LARGEST), requests, server=place).decode_seconds)
    assert adaptive.decode_seconds < min(fixed)


def test_what_is_left_over_goes_to_one_request_more() -> None:
    """Three tokens for three requests, two of which accept everything: they verify two and one, the third none."""
    sure = [Acceptance.by_depth_and_rank([[1.0]] * LONGEST), Acceptance.by_depth_and_rank([[0.01]] * LONGEST)]
    requests = Requests(np.zeros(3), np.full(3, 20), np.full(3, 10**6), np.array([0, 0, 1]))
    run = serve(
        vllm_adaptive(LONGEST, sure, 3), requests, server=server(2e-4, bend=2), until_seconds=2.0, keep_steps=True
    )
    assert run.step_batch is not None
    assert run.drafted == 3 * (run.step_batch == 3).sum()
    assert run.accepted == run.drafted
