"""Measure tau of static trees, verifiers and temperatures on the shipped pair, collected prompt by prompt.

python examples/collect_matrix.py [FOLDER [PROMPTS [NEW_TOKENS]]]

A block is one held-out prompt. All combinations have the same prompts and seeds, so that two of them are compared
prompt by prompt. Interrupt it at any moment and call it again: it continues, and with more prompts it counts the
further ones only. `spectheory compare` measures more: dynamic drafters, predictions by replay, and losslessness.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import torch
from rich import print as show

import simulate
import spectheory as st
from reference.decode import Decoder
from reference.drafters import PlannedTree, incompatibility
from reference.models import Pair, load_pair
from reference.prompts import encode_prompts, load_prompts
from reference.sampling import Sampling
from simulate import Block, Collected, Figure, Statistics, Stop, Task
from spectheory.verify import verifier_of

TAU = Figure("tau", "emitted", "cycles", "tokens per target call")
PROMPT_TOKENS = 64
TREES = (st.Tree.chain(4), st.best_tree(st.Acceptance.by_rank([0.65, 0.12, 0.06]), 12))
VERIFIERS = ("NSS", "RRS", "Block", "Traversal")
TEMPERATURES = (0.6, 1.0)


@cache
def shipped() -> Pair:
    """The pair that comes with the package, loaded once by each worker."""
    torch.set_num_threads(1)
    return load_pair()


def decode(block: Block, *, tree: st.Tree, verifier: str, temperature: float, new_tokens: int) -> Statistics:
    """Continue the prompt whose number is that of the block."""
    (prompt,) = encode_prompts(shipped(), load_prompts(count=1, skip=block.number), PROMPT_TOKENS)
    decoder = Decoder(shipped(), PlannedTree(tree), Sampling(temperature), verifier_of(verifier))
    drafting, verifying = block.sequence.spawn(2)
    draft_rng = torch.Generator().manual_seed(int(drafting.generate_state(1)[0]))
    accepted = decoder.generate(prompt, new_tokens, draft_rng, np.random.default_rng(verifying)).accepted
    counts = tuple(np.bincount(accepted).tolist())
    return Statistics({"emitted": sum(accepted) + len(accepted), "cycles": len(accepted)}, {"accepted": counts})


def tasks(new_tokens: int) -> list[Task]:
    """A task for every combination whose verifier is lossless for the way in which its tree is drafted."""
    return [
        Task(
            decode,
            {"tree": tree, "verifier": verifier, "temperature": temperature, "new_tokens": new_tokens},
            figures=(TAU,),
            name=f"{'chain' if tree.is_chain else 'tree'} of {tree.budget}, {verifier}, temperature {temperature:g}",
            stream="prompts",
        )
        for tree in TREES
        for verifier in VERIFIERS
        for temperature in TEMPERATURES
        if not incompatibility(PlannedTree(tree), verifier_of(verifier), Sampling(temperature))
    ]


def main(folder: str | Path = "build/matrix", prompts: int = 8, new_tokens: int = 64, workers: int = 2) -> Collected:
    """Print the table, and what each combination gains on the first one of its temperature."""
    found = simulate.collect(tasks(new_tokens), stop=Stop(blocks=prompts), folder=folder, workers=workers)
    show(found)
    for temperature in TEMPERATURES:
        first, *others = [task for task in tasks(new_tokens) if task.settings["temperature"] == temperature]
        for task in others:
            gain = found.difference(first, task)
            interval = "" if gain.half_width is None else f" ± {gain.half_width:.3f}"
            print(f"{task.name}: {gain.value:+.3f}{interval} tokens per target call against {first.name}")
    return found


if __name__ == "__main__":
    import collect_matrix  # workers import it too, and keep the pair loaded; they cannot import the script itself

    given = dict(enumerate(sys.argv))
    collect_matrix.main(given.get(1, "build/matrix"), int(given.get(2, 8)), int(given.get(3, 64)))
