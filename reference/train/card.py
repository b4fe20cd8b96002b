"""The model card: what the shipped models are, and how often the target accepts each draft, measured."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from reference import tracing
from reference.model_folders import WEIGHTS
from reference.models import Pair, load_pair, with_draft
from reference.profiling import profile
from reference.prompts import encode_prompts, load_prompts
from reference.train.recipe import LayerSizes, Recipe
from spectheory import Acceptance, Latency

ROWS = 64
"""Maximum number of rows of held-out text on which the losses are measured."""
PROMPT_TOKENS, NEW_TOKENS = 64, 128
ROUNDS = 50
"""Number of timed forwards."""


def model_card(folder: Path, held_out: np.ndarray, recipe: Recipe, work: Path) -> str:
    """The card of the models in `folder`, as Markdown, measured in float32 on the stored weights."""
    pair = load_pair(folder / "target", folder / "draft")
    drafts = {"head": with_draft(pair, folder / "head"), "draft": pair}
    losses, overlap = on_text(pair, held_out, recipe.length)
    measured = {
        name: _measured(one, load_prompts(folder / "held_out.jsonl"), recipe, work / f"card-{name}")
        for name, one in drafts.items()
    }
    latency, said = measured["head"].latency, {role: f"{loss:.3f}" for role, loss in losses.items()}
    layers = LayerSizes(1, recipe.target.width, recipe.head.hidden)
    shapes = {"target": recipe.target, "head": layers, "draft": recipe.draft}
    models = [
        f"| {role} | {s.layers} x {s.width} | {s.hidden} | {_parameters(folder / role) / 1e6:.2f} M | "
        f"{(folder / role / WEIGHTS).stat().st_size / 1e6:.2f} MB | {said.get(role, '')} |"
        for role, s in shapes.items()
    ]
    facts = {
        "first draft accepted at temperature 1": lambda one: f"{one.sampled.row(0)[0]:.3f}",
        "first choice is the target's choice, greedy": lambda one: f"{one.greedy.row(0)[0]:.3f}",
        "target's choice among the first 8, greedy": lambda one: f"{one.greedy.row(0)[:8].sum():.3f}",
        "the same after 4 drafted tokens that are right": lambda one: f"{one.greedy.row(4)[:8].sum():.3f}",
        "seconds of a target forward divided by those of a draft forward, 1 token": lambda one: f"{one.ratio:.1f}",
    }
    return _TEXT.format(
        models="\n".join(models),
        facts="\n".join(
            f"| {name} | {' | '.join(map(said_of, measured.values()))} |" for name, said_of in facts.items()
        ),
        overlap=f"{overlap:.3f}",
        vocabulary=recipe.vocab_size,
        texts=recipe.head.texts,
        steps=f"{recipe.target_steps:,} and {recipe.draft_steps:,} steps of {recipe.rows} x {recipe.length} tokens for "
        f"target and draft, {recipe.head.start_steps:,} and {recipe.head.steps:,} steps of {recipe.head.rows} texts "
        "for the head",
        seed=recipe.seed,
        context=int(latency.contexts[0]),
        machine=f"{latency.provenance.machine}, {latency.provenance.settings['threads']} threads",
        versions=", ".join(f"{name} {version}" for name, version in latency.provenance.versions.items()),
    )


@torch.inference_mode()
def on_text(pair: Pair, held_out: np.ndarray, length: int) -> tuple[dict[str, float], float]:
    """Loss on held-out text by role, in nats per token, and the mean of sum min(p, q)."""
    rows = min(ROWS, len(held_out) // length)
    text = torch.from_numpy(held_out[: rows * length].astype(np.int64)).view(rows, length).to(pair.device)
    sums = np.zeros(3)
    for row in text:
        both: list[Tensor] = [model(row[None]).logits[0, :-1].float() for model in (pair.target, pair.draft)]
        sums[:2] += [float(torch.nn.functional.cross_entropy(one, row[1:])) for one in both]
        p, q = (one.softmax(-1) for one in both)
        sums[2] += float(torch.minimum(p, q).sum(-1).mean())
    target, draft, overlap = sums / rows
    return {"target": target, "draft": draft}, overlap


class _Measured(NamedTuple):
    """Rates of a draft on greedy and on sampled text of the target, and forward times."""

    greedy: Acceptance
    sampled: Acceptance
    latency: Latency

    @property
    def ratio(self) -> float:
        """Seconds of a target forward of one token, divided by those of a draft forward."""
        return float(self.latency.target_seconds[0, 0] / self.latency.draft_seconds[0, 0])


def _measured(pair: Pair, prompts: list[str], recipe: Recipe, work: Path) -> _Measured:
    greedy, sampled = (_on_own_text(pair, prompts, recipe, work, temperature) for temperature in (0.0, 1.0))
    contexts = (256,) if recipe.length > 256 else (16,)
    return _Measured(greedy, sampled, profile(pair, tokens=(1,), contexts=contexts, rounds=ROUNDS))


def _parameters(folder: Path) -> int:
    """Number of weights in a folder."""
    return sum(weights.numel() for weights in load_file(folder / WEIGHTS).values())


def _on_own_text(pair: Pair, held_out: list[str], recipe: Recipe, work: Path, temperature: float) -> Acceptance:
    """Acceptance rates on the target's continuations of the held-out prompts."""
    prompts = encode_prompts(pair, held_out, min(PROMPT_TOKENS, recipe.length // 2))
    settings = tracing.TraceSettings(
        dataset="held-out prompts",
        temperature=temperature,
        new_tokens=min(NEW_TOKENS, recipe.length // 2),
        batch=16,
        seed=recipe.seed,
    )
    record = work / f"trace-{temperature:g}"
    tracing.record_trace(pair, prompts, settings, record)
    return tracing.acceptance(record)


_TEXT = """# The shipped models

A target of the Llama architecture with a byte-level BPE tokenizer of {vocabulary:,} tokens, a draft head for it, which
is the default draft, and an independent draft model, which is in a checkout only. This project trained them on the
source of the Python standard library (Python Software Foundation License). Weights are stored in half precision.
`split.json` names the training and the held-out files, `held_out.jsonl` holds prompts from the latter. Rebuild
everything with `make pair`, seed {seed}:
{steps}.

| model | layers x width | hidden | parameters | weights | held-out loss (nats per token) |
| --- | --- | --- | --- | --- | --- |
{models}

The head is an EAGLE-1 head, which drafts with the target's embeddings and output layer. It was trained on {texts:,}
texts that the target wrote itself, by EAGLE's loss and then by cross-entropy along the text, as docs/training.md
describes. The draft was distilled from the target with the total variation between their next-token distributions:
E[sum min(p, q)] at temperature 1 is {overlap} on held-out text.

| measured on the target's own text | head | draft |
| --- | --- | --- |
{facts}

Prompts of 64 tokens, continuations of 128; forward times at a context of {context} tokens, float32, median of 50, on
{machine}; {versions}.

These models exist to measure decoding. Their text is of no use.
"""
