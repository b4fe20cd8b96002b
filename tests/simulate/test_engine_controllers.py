"""The engines' own controllers against plain renderings of their rules, alone and inside a simulated engine."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest

from simulate import Server, serve
from simulate.controllers import sglang, tensorrt_llm, vllm
from simulate.controllers.sglang import DEFAULTS
from simulate.load import Requests, bursts, closed
from simulate.serving import Controller, StepTimes
from simulate.serving.rules import choose_tier, completed, remember
from spectheory import Acceptance, Latency
from tests.known import known
from tests.refusals import refuses

RATES = Acceptance.by_depth_and_rank([[0.8], [0.7], [0.6], [0.5], [0.4], [0.3], [0.2]])
MOST = 80


class Driven:
    """A controller outside of an engine."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.given = controller.rule, controller.table, controller.numbers, controller.memory.copy()

    def length(self, batch: int) -> int:
        """The draft length of the next step."""
        self.tier = choose_tier(*self.given, batch)
        return self.controller.tiers[self.tier].tree.budget

    def after(self, batch: int, accepted: int) -> None:
        rule, _, numbers, memory = self.given
        remember(rule, numbers, memory, batch, self.tier, accepted, 0.01)

    def complete(self, tokens: int, cycles: int) -> None:
        rule, _, numbers, memory = self.given
        completed(rule, numbers, memory, tokens, cycles)


def lengths(controller: Controller, sizes: range = range(1, MOST + 1)) -> list[int]:
    """The length at each batch size if the last step had the same one."""
    driven, found = Driven(controller), []
    for size in sizes:
        driven.length(size)
        driven.after(size, 0)
        found.append(driven.length(size))
    return found


def test_vllm_reads_the_table_of_the_documentation_and_fills_its_gaps() -> None:
    table = [[1, 3, 3], [4, 5, 1], [9, 12, 0], [13, 20, 2]]
    plain = dict.fromkeys((1, 2, 3), 3) | dict.fromkeys(range(4, 9), 1) | dict.fromkeys(range(9, 13), 0)
    assert lengths(vllm(table, RATES, MOST)) == [plain.get(k, 2) for k in range(1, MOST + 1)]
    assert lengths(vllm(table[::-1], RATES, MOST)) == lengths(vllm(table, RATES, MOST))
    assert max(lengths(vllm(table, RATES, MOST, num_speculative_tokens=2))) == 2


def test_vllm_drafts_what_the_step_before_looked_up() -> None:
    driven = Driven(vllm([[1, 2, 5], [3, 9, 1]], RATES, MOST))
    found = []
    for batch in (2, 7, 1, 1, 4):
        found.append(driven.length(batch))
        driven.after(batch, 0)
    assert found == [5, 5, 1, 5, 5]


@pytest.mark.parametrize(
    ("version", "schedule", "plain"),
    [
        ("1.2", {1: 4, 4: 2, 8: 0}, lambda k: 4 if k < 4 else 2 if k < 8 else 0),
        ("1.4.0rc1", {4: 4, 8: 2, 32: 1}, lambda k: 4 if k <= 4 else 2 if k <= 8 else 1 if k <= 32 else 0),
    ],
)
def test_tensorrt_llm_reads_its_schedule_by_version(
    version: str, schedule: dict[int, int], plain: Callable[[int], int]
) -> None:
    controller = tensorrt_llm(4, RATES, MOST, version=version, draft_len_schedule=schedule)
    assert lengths(controller) == [plain(k) for k in range(1, MOST + 1)]


def test_tensorrt_llm_counts_as_many_requests_as_fit_into_the_token_budget() -> None:
    assert lengths(tensorrt_llm(3, RATES, MOST, max_concurrency=32)) == [3 * (k <= 32) for k in range(1, MOST + 1)]
    assert set(lengths(tensorrt_llm(3, RATES, MOST, max_concurrency=32, max_num_tokens=128))) == {3}
    assert set(lengths(tensorrt_llm(3, RATES, MOST, max_concurrency=32, max_num_tokens=3))) == {0}
    assert set(lengths(tensorrt_llm(3, RATES, MOST))) == {3}


def test_the_gate_of_tensorrt_llm_closes_once_and_for_all() -> None:
    """Against a list of the last requests, over requests that accept less and less, then much."""
    rng = np.random.default_rng(1)
    driven = Driven(tensorrt_llm(3, RATES, MOST, acceptance_window=7, acceptance_length_threshold=0.8))
    last: deque[float] = deque(maxlen=7)
    closed_at = None
    for number in range(120):
        assert driven.length(5) == (3 if closed_at is None else 0)
        driven.after(5, 3)
        cycles = int(rng.integers(1, 30))
        tokens = cycles + 1 + int(cycles * (1.6 - 0.02 * number if number < 80 else 3))
        driven.complete(tokens, cycles)
        last.append(max(0.0, tokens / (cycles + 1) - 1))
        if closed_at is None and len(last) == 7 and math.fsum(last) / 7 < 0.8:
            closed_at = number
    assert 7 < known(closed_at) < 80


class PlainSlot:
    """SGLang's rule for one range of batch sizes, written down a second time."""

    def __init__(self, candidates: list[int], start: int, **given: float) -> None:
        self.steps = sorted(set(candidates))
        self.now = start if start in self.steps else self.steps[len(self.steps) // 2]
        self.average, self.seen = self.now - 1.0, 0
        self.given = {"ema_alpha": 0.2, "warmup_batches": 10, "update_interval": 5, "ceiling_coeff": 0} | given
        self.down, self.up = given.get("down_hysteresis", -0.25), given.get("up_hysteresis", 0.0)

    def take(self, mean: float) -> None:
        weight = self.given["ema_alpha"]
        if self.now:
            self.average += weight * (mean - self.average)
        self.seen += 1
        late = self.seen - self.given["warmup_batches"]
        if late >= 1 and late % self.given["update_interval"] == 0:
            self.now = self.decided()

    def decided(self) -> int:
        if self.now == 0:
            above = [step for step in self.steps if step > 0][:1] or [0]
            if above[0] and self.average < 0:
                self.average = above[0] - 1.0
            return above[0]
        lower, found = [step for step in self.steps if step < self.now], self.now
        while lower and self.average <= (lower[-1] - 0.5 if lower[-1] else 0.5) + self.down:
            found = lower.pop()
        if found == self.now:
            for higher in [step for step in self.steps if step > self.now]:
                if self.average <= found - 0.5 + self.up:
                    break
                found = higher
        if self.given["ceiling_coeff"] > 0 and found <= self.now:
            cap = max(1, math.ceil(self.average * self.given["ceiling_coeff"]))
            while found > cap and found > self.steps[0]:
                found = max(step for step in self.steps if step < found)
        return found


@pytest.mark.parametrize(
    "config",
    [
        DEFAULTS,
        {"candidate_steps": [1, 3, 7]},
        {"candidate_steps": [7, 0, 2, 5], "ema_alpha": 0.5, "warmup_batches": 0, "update_interval": 1},
        {
            "ema_alpha": 0.4,
            "update_interval": 2,
            "4": {"candidate_steps": [0, 1, 2, 3], "up_hysteresis": 0.2, "ceiling_coeff": 1.5},
            "20": {"candidate_steps": [2, 6], "down_hysteresis": 0.1, "warmup_batches": 3},
            "40": {"candidate_steps": [0]},
        },
    ],
    ids=["default", "flat", "fast", "by batch"],
)
@pytest.mark.parametrize("graphs", [(), (1, 2, 4, 8, 16, 24, 32, 48, 64)], ids=["no graphs", "graphs"])
def test_sglang_follows_its_rule(config: dict, graphs: tuple[int, ...]) -> None:
    """Against the rule written down a second time, over batches of changing size and acceptance."""
    keyed = {int(key): entry for key, entry in config.items() if key.isdigit()} or {1: {}}
    common = {key: value for key, value in config.items() if not key.isdigit()}
    slots = {}
    for key, entry in keyed.items():
        given = common | entry
        slots[key] = PlainSlot(given.pop("candidate_steps"), 3, **given)
    rng, driven = np.random.default_rng(3), Driven(sglang(RATES, MOST, config=config, graph_batches=graphs))
    batch, quality, chosen = 1, 0.5, set()
    for step in range(3_000):
        if step % 40 == 0:
            batch, quality = int(rng.integers(1, rng.choice([7, 30, MOST]))), rng.random()
        padded = min((graph for graph in graphs if graph >= batch), default=batch)
        slot = slots[max((key for key in slots if key <= padded), default=min(slots))]
        length = driven.length(batch)
        assert length == slot.now, step
        accepted = int(rng.binomial(batch * length, quality)) if length else 0
        driven.after(batch, accepted)
        slot.take(accepted / batch)
        chosen.add(length)
    assert chosen == {step for slot in slots.values() for step in slot.steps}


def server() -> Server:
    """An engine whose steps take longer with more tokens, for up to 8 sequences."""
    return Server(
        StepTimes.by_batch(
            [1, 8],
            [Latency.constant(target_seconds=0.01, draft_seconds=0.001), Latency.constant(target_seconds=0.02)],
        )
    )


def load(count: int = 300) -> Requests:
    return bursts(6, count, cv=3, prompt=30, output=40, seed=1)


def test_in_an_engine_vllm_is_one_step_late() -> None:
    controller = vllm([[1, 2, 5], [3, 5, 2], [6, 8, 0]], RATES, 8)
    run = serve(controller, load(), server=server(), keep_steps=True)
    step_batch = known(run.step_batch)
    batch, tier = step_batch[step_batch > 0], known(run.step_tier)[step_batch > 0]
    drafted = np.array([tree.budget for tree in run.trees])[tier]
    plain = np.select([batch <= 2, batch <= 5], [5, 2], 0)
    assert np.array_equal(drafted[1:], plain[:-1])
    assert {0, 2, 5} == set(drafted.tolist())


def test_in_an_engine_the_gate_closes_with_the_last_request_of_its_window() -> None:
    window = 20
    poor = Acceptance.by_depth_and_rank([[0.2], [0.1]])
    controller = tensorrt_llm(2, poor, 8, acceptance_window=window, acceptance_length_threshold=0.5)
    run = serve(controller, load(), server=server(), keep_steps=True)
    decoding = np.flatnonzero(known(run.step_batch))
    closing = np.sort(run.completion_seconds)[window - 1]
    off = np.array([not tree.budget for tree in run.trees])[known(run.step_tier)[decoding]]
    assert np.array_equal(off, known(run.step_seconds)[decoding] > closing)


def test_the_gate_counts_the_iterations_of_each_request() -> None:
    """A chain that is always accepted: answers of 41 tokens take 1 prompt and 20 cycles of 2, so 41 / 21 - 1."""
    sure, loop = Acceptance.by_depth_and_rank([[1.0]]), closed(4, 40, prompt=10, output=41)
    mean = 41 / 21 - 1
    for threshold, speculates in ((mean - 1e-9, True), (mean + 1e-9, False)):
        gate = tensorrt_llm(1, sure, 8, acceptance_window=5, acceptance_length_threshold=threshold)
        run = serve(gate, loop, server=server())
        off = [tree.budget for tree in run.trees].index(0)
        assert (run.tier_steps[off] == 0) == speculates


def test_answers_of_one_token_count_as_not_accepted() -> None:
    one = Requests.closed(1, np.full(4, 10), np.array([1, 1, 1, 40]))
    for window, off in ((3, True), (4, False)):
        gate = tensorrt_llm(3, RATES, 8, acceptance_window=window, acceptance_length_threshold=0.5)
        run = serve(gate, one, server=server())
        assert run.tier_shares[[tree.budget for tree in run.trees].index(0)] == off


def test_a_burst_above_max_concurrency_closes_the_gate() -> None:
    """Requests that are decoded without drafts count as badly accepted, so that speculation ends for good."""
    gate = {"acceptance_window": 10, "acceptance_length_threshold": 0.5}
    alone, crowded = closed(2, 60, prompt=10, output=40), closed(8, 60, prompt=10, output=40)
    runs = [
        serve(tensorrt_llm(3, RATES, 8, max_concurrency=4, **gate), one, server=server()) for one in (alone, crowded)
    ]
    shares = [run.tier_shares[[tree.budget for tree in run.trees].index(3)] for run in runs]
    assert shares[0] == 1
    assert shares[1] < 0.1


def test_in_an_engine_sglang_adapts_to_what_is_accepted() -> None:
    for rates, best in (([[0.98]] * 7, 7), ([[0.05]] * 7, 0)):
        config = {"candidate_steps": [0, 1, 3, 7], "warmup_batches": 2, "update_interval": 2}
        controller = sglang(Acceptance.by_depth_and_rank(rates), 8, config=config)
        run = serve(controller, closed(6, 60, prompt=10, output=80), server=server())
        assert run.trees[int(run.tier_steps.argmax())].budget in ((7,) if best else (0, 1))


def test_a_wrong_configuration_is_refused() -> None:
    refuses("must be a list with at least one entry", vllm, [], RATES, 8)
    refuses("must begin at batch size 1", vllm, [[2, 8, 3]], RATES, 8)
    refuses(r"have no overlap, but \[8, 9, 1\] begins at 8", vllm, [[1, 8, 3], [8, 9, 1]], RATES, 8)
    refuses(r"must hold entries \[first batch, last batch, length\], got \[1, 8\]", vllm, [[1, 8]], RATES, 8)
    refuses(r"the length of \[1, 8, -1\]", vllm, [[1, 8, -1]], RATES, 8)
    refuses("num_speculative_tokens must be at least 1", vllm, [[1, 8, 1]], RATES, 8, num_speculative_tokens=0)
    refuses("at least one entry", tensorrt_llm, 3, RATES, 8, draft_len_schedule={})
    refuses(r"draft_len_schedule\[4\] must be between 0 and 3", tensorrt_llm, 3, RATES, 8, draft_len_schedule={4: 5})
    refuses("must have the entry 1: 3", tensorrt_llm, 3, RATES, 8, version="1.2", draft_len_schedule={2: 3})
    refuses("0.9", tensorrt_llm, 3, RATES, 8, version="0.9")
    refuses("max_concurrency must be None", tensorrt_llm, 3, RATES, 8, draft_len_schedule={4: 3}, max_concurrency=4)
    refuses(r"must be a list of lengths, got \[\]", sglang, RATES, 8, config={"candidate_steps": []})
    refuses("unknown field 'steps'", sglang, RATES, 8, config={"1": {"steps": [1]}})
    refuses("ema_alpha must be a probability", sglang, RATES, 8, config={"candidate_steps": [1], "ema_alpha": 2})
    refuses("update_interval must be", sglang, RATES, 8, config={"candidate_steps": [1], "update_interval": 0})
    refuses("strategy must be 'ema'", sglang, RATES, 8, config={"strategy": "throughput_aware"})
    refuses("config must be a dictionary", sglang, RATES, 8, config=[1, 3])
