"""The speed of decoding with the independent draft and with the shipped head, each with its own measured plan.

python -m benchmarks.training.decoding: both decode the same held-out prompts in turn, prompt by prompt, beside plain
decoding, and the records are kept in `records`. Nothing else may run on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from transformers.utils import logging

from benchmarks.training.records import FOLDER, TEMPERATURES
from benchmarks.training.rows import INDEPENDENT
from reference.measuring import measure
from reference.models import DRAFT, HEAD, TARGET, load_pair
from reference.planning_loop import measured_plan
from reference.prompts import encode_prompts, load_prompts
from reference.sampling import Sampling
from spectheory import Plan, Tally
from spectheory.verify import verifier_of

SHIPPED_HEAD = "shipped head"
DRAFTS: dict[str, Path] = {INDEPENDENT: DRAFT, SHIPPED_HEAD: HEAD}
TRACED, DECODED = 24, 24
"""Prompts that are traced for the plan, and other prompts that are decoded."""
PROMPT_TOKENS, NEW_TOKENS = 64, 128


def record_file(what: str, name: str, temperature: float) -> Path:
    """The file of a plan or a tally of one draft."""
    return FOLDER / f"{what}-{name.replace(' ', '-')}-{temperature:g}.json"


def decoded() -> dict[float, dict[str, tuple[Plan, Tally]]]:
    """The plan and the tally of each draft at each temperature, as they were kept."""
    return {
        temperature: {
            name: (
                Plan.load(record_file("plan", name, temperature)),
                Tally.load(record_file("tally", name, temperature)),
            )
            for name in DRAFTS
        }
        for temperature in TEMPERATURES
        if all(record_file("tally", name, temperature).exists() for name in DRAFTS)
    }


def main() -> None:
    """Measure, and keep what was measured."""
    logging.disable_progress_bar()
    for temperature in TEMPERATURES:
        plans, running = {}, {}
        for name, draft in DRAFTS.items():
            pair = replace(load_pair(TARGET, draft), names=("shipped target", name))
            rows = encode_prompts(pair, load_prompts(count=TRACED + DECODED), PROMPT_TOKENS)
            plans[name], _ = measured_plan(pair, rows[:TRACED], new_tokens=NEW_TOKENS, temperature=temperature)
            tree, verifier = plans[name].tree, plans[name].verifier
            print(f"temperature {temperature:g}, {name}: {plans[name]!r}", flush=True)
            running[name] = measure(
                pair,
                tree,
                rows[TRACED:],
                new_tokens=NEW_TOKENS,
                sampling=Sampling(temperature),
                skip=TRACED,
                verifier=verifier_of(verifier) if temperature and verifier else None,
            )
        for name, tally in zip(running, _in_turn(list(running.values())), strict=True):
            plans[name].save(record_file("plan", name, temperature))
            tally.save(record_file("tally", name, temperature))
            print(f"temperature {temperature:g}, {name}: {tally!r}", flush=True)


def _in_turn(several: list[Iterator[Tally]]) -> tuple[Tally, ...]:
    """The last tallies of several measurements, which decode one prompt each in turn."""
    *_, last = zip(*several, strict=True)
    return last


if __name__ == "__main__":
    main()
