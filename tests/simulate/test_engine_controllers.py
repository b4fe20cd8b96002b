"""The engines' own controllers against plain renderings of their rules, alone and inside a simulated engine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simulate import Server, serve
from simulate.load import bursts
from simulate.serving import Controller, StepTimes, sglang, vllm
from simulate.serving.engines import DEFAULTS
from simulate.serving.rules import choose_tier, remember
from spectheory import Acceptance, Latency
from tests.helpers import known

RATES = Acceptance.by_depth_and_rank([[0.8], [0.7], [0.6], [0.5], [0.4], [0.3], [0.2]])
MOST = 80


class Driven:
    """A controller outside of an engine."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.given = controller.rule, controller.table, controller.numbers, controller.memory.copy()

    def length(self, batch: int) -> int:
        self.tier = choose_tier(*self.given, batch)
        return self.controller.tiers[self.tier].tree.budget

    def after(self, batch: int, accepted: int) -> None:
        rule, _, numbers, memory = self.given
        remember(rule, numbers, memory, batch, self.tier, accepted)


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
        {"candidate_steps": [7, 0, 2, 5], "ema_alpha": 0.5, "warmup_batches": 0, "update_interval": 1},
        {
            "ema_alpha": 0.4,
            "update_interval": 2,
            "4": {"candidate_steps": [0, 1, 2, 3], "up_hysteresis": 0.2, "ceiling_coeff": 1.5},
            "20": {"candidate_steps": [2, 6], "down_hysteresis": 0.1, "warmup_batches": 3},
            "40": {"candidate_steps": [0]},
        },
    ],
    ids=["default", "fast", "by batch"],
)
def test_sglang_follows_its_rule(config: dict) -> None:
    """Against the rule written down a second time, over batches of changing size and acceptance."""
    keyed = {int(key): entry for key, entry in config.items() if key.isdigit()} or {1: {}}
    common = {key: value for key, value in config.items() if not key.isdigit()}
    slots = {}
    for key, entry in keyed.items():
        given = common | entry
        slots[key] = PlainSlot(given.pop("candidate_steps"), 3, **given)
    rng, driven = np.random.default_rng(3), Driven(sglang(RATES, MOST, config=config))
    batch, quality, chosen = 1, 0.5, set()
    for step in range(3_000):
        if step % 40 == 0:
            batch, quality = int(rng.integers(1, rng.choice([7, 30, MOST]))), rng.random()
        slot = slots[max((key for key in slots if key <= batch), default=min(slots))]
        length = driven.length(batch)
        assert length == slot.now, step
        accepted = int(rng.binomial(batch * length, quality)) if length else 0
        driven.after(batch, accepted)
        slot.take(accepted / batch)
        chosen.add(length)
    assert chosen == {step for slot in slots.values() for step in slot.steps}


def test_in_an_engine_vllm_is_one_step_late() -> None:
    controller = vllm([[1, 2, 5], [3, 5, 2], [6, 8, 0]], RATES, 8)
    slow = Latency.constant(target_seconds=0.01, draft_seconds=0.001), Latency.constant(target_seconds=0.02)
    load = bursts(6, 300, cv=3, prompt=30, output=40, seed=1)
    run = serve(controller, load, server=Server(StepTimes.by_batch([1, 8], slow)), keep_steps=True)
    step_batch = known(run.step_batch)
    batch, tier = step_batch[step_batch > 0], known(run.step_tier)[step_batch > 0]
    drafted = np.array([tree.budget for tree in run.trees])[tier]
    plain = np.select([batch <= 2, batch <= 5], [5, 2], 0)
    assert np.array_equal(drafted[1:], plain[:-1])
    assert {0, 2, 5} == set(drafted.tolist())
