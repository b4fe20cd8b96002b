"""The engine of `simulate.serving` in plain Python, as it is specified: dictionaries, lists and no compiled code."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def uniform(seed: int, request: int, position: int) -> float:
    start = splitmix(seed + GOLDEN & MASK)
    key = splitmix(start + GOLDEN * (request + 1) & MASK)
    return (splitmix(key + GOLDEN * position & MASK) >> 11) * 2.0**-53


def on(grid: list[float], at: float) -> tuple[int, int, float]:
    """The two entries of a grid around `at`, and the share of the second one."""
    if at <= grid[0] or len(grid) == 1:
        return 0, min(1, len(grid) - 1), 0.0
    after = min(bisect_left(grid, at), len(grid) - 1)
    return after - 1, after, min(1.0, (at - grid[after - 1]) / (grid[after] - grid[after - 1]))


class PlainEngine:
    """One engine that serves `work` with `machine` (of `serving.engine_state`), with the numbers of a seed."""

    def __init__(self, work: Any, machine: Any, seed: int, start: float, last_tier: int = 0) -> None:
        self.machine, self.seed, self.now, self.last_tier = machine, seed, start, last_tier
        self.seconds, self.survival = machine.seconds.tolist(), machine.survival.tolist()
        self.contexts, self.prefills = machine.contexts.tolist(), machine.prefills.tolist()
        self.table, self.nodes = machine.table.tolist(), machine.nodes.tolist()
        rows = zip(*(column.tolist() for column in work[:4]), strict=True)
        self.coming = [
            {"number": i, "arrival": at, "prompt": prompt, "output": output, "kind": kind, "read": 0, "emitted": 0}
            for i, (at, prompt, output, kind) in enumerate(rows)
        ]
        self.queue: list[Any] = []
        self.reading: list[Any] = []
        self.decoding: list[Any] = []
        self.finished: list[Any] = []
        self.steps: list[tuple[float, int, int, int, int]] = []
        self.accepted = 0

    def run(self) -> PlainEngine:
        while self.now < self.machine.until:
            self.let_in()
            if not (self.reading or self.decoding):
                if not self.coming:
                    break
                self.now = self.coming[0]["arrival"]
                self.let_in()
                if self.now >= self.machine.until:
                    break
            self.step()
        return self

    def let_in(self) -> None:
        if self.machine.concurrency:
            inside = len(self.queue) + len(self.reading) + len(self.decoding)
            while self.coming and inside < self.machine.concurrency:
                self.queue.append(self.coming.pop(0) | {"arrival": self.now})
                inside += 1
        else:
            while self.coming and self.coming[0]["arrival"] <= self.now:
                self.queue.append(self.coming.pop(0))
        while self.queue:
            inside = [*self.reading, *self.decoding, self.queue[0]]
            needed = sum(one["prompt"] + one["output"] + self.machine.reserve for one in inside)
            if len(inside) > self.machine.max_sequences or needed > self.machine.kv_tokens:
                break
            self.reading.append(self.queue.pop(0))

    def step(self) -> None:
        batch, tier = len(self.decoding), 0
        left = self.machine.batched_tokens
        if batch:
            self.last_tier = tier = self.table[self.last_tier][batch]
            left -= batch * (self.nodes[tier] + 1)
            context = sum(one["prompt"] + one["emitted"] - 1 for one in self.decoding) / batch
        else:
            context = float(self.reading[0]["read"])
        prompt = min(max(left, 0), sum(one["prompt"] - one["read"] for one in self.reading))
        self.now += self.step_seconds(tier, batch, context, prompt)
        emitted = sum([self.cycle(one, tier) for one in self.decoding])
        self.read(prompt)
        self.steps.append((self.now, batch, tier, emitted, prompt))
        for one in [one for one in self.decoding if one["emitted"] == one["output"]]:
            self.decoding.remove(one)
            self.finished.append(one | {"last": self.now})

    def cycle(self, one: Any, tier: int) -> int:
        drawn = uniform(self.seed, one["number"], one["emitted"])
        accepted = sum(drawn < chance for chance in self.survival[tier][one["kind"]][1:])
        left = one["output"] - one["emitted"]
        self.accepted += min(accepted, left)
        one["emitted"] += min(accepted + 1, left)
        return min(accepted + 1, left)

    def read(self, tokens: int) -> None:
        """Read prompts in the order of admission; complete ones emit a token and decode."""
        while tokens:
            one = self.reading[0]
            part = min(tokens, one["prompt"] - one["read"])
            one["read"] += part
            tokens -= part
            if one["read"] == one["prompt"]:
                self.decoding.append(self.reading.pop(0))
                one["emitted"], one["first"] = 1, self.now

    def step_seconds(self, tier: int, batch: int, context: float, prompt: int) -> float:
        table = self.seconds[tier][batch]
        row, below, share = on(self.contexts, context)
        column, beside, part = on(self.prefills, prompt)
        upper = table[row][column] + part * (table[row][beside] - table[row][column])
        lower = table[below][column] + part * (table[below][beside] - table[below][column])
        return upper + share * (lower - upper)
