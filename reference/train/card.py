"""The model card: what the pair is, and how often its target accepts its draft, measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reference import tracing
from reference.models import Pair, load_pair
from reference.profiling import profile
from reference.prompts import encode_prompts, load_prompts
from reference.train.recipe import Recipe
from spectheory import Acceptance

ROWS = 64
"""Maximum number of rows of held-out text on which the losses are measured."""
PROMPT_TOKENS, NEW_TOKENS = 64, 128


def model_card(folder: Path, held_out: np.ndarray, recipe: Recipe, work: Path) -> str:
    """The card of the pair in `folder`, as Markdown, measured in float32 on the stored weights."""
    pair = load_pair(folder / "target", folder / "draft")
    losses, overlap = on_text(pair, held_out, recipe.length)
    greedy, sampled = (_on_own_text(pair, folder, recipe, work, temperature) for temperature in (0.0, 1.0))
    latency = profile(pair, tokens=(1,), contexts=(256,) if recipe.length > 256 else (16,), rounds=50)
    ratio = float(latency.target_seconds[0, 0] / latency.draft_seconds[0, 0])
    weights = {role: (folder / role / "model.safetensors").stat().st_size for role in ("target", "draft")}
    shapes = {"target": recipe.target, "draft": recipe.draft}
    models = [
        f"| {role} | {s.layers} x {s.width} | {s.hidden} | {getattr(pair, role).num_parameters() / 1e6:.2f} M | "
        f"{weights[role] / 1e6:.2f} MB | {losses[role]:.3f} |"
        for role, s in shapes.items()
    ]
    facts = {
        "E[sum min(p, q)] at temperature 1, held-out text": f"{overlap:.3f}",
        "first draft accepted at temperature 1, the target's own text": f"{sampled.table[0, 0]:.3f}",
        "draft's first choice is the target's choice, greedy, the target's own text": f"{greedy.table[0, 0]:.3f}",
        "target's choice among the draft's first 8, greedy": f"{greedy.table[0, :8].sum():.3f}",
        "seconds of a target forward divided by seconds of a draft forward, 1 token": f"{ratio:.1f}",
    }
    return _TEXT.format(
        models="\n".join(models),
        facts="\n".join(f"| {name} | {value} |" for name, value in facts.items()),
        vocabulary=recipe.vocab_size,
        steps=f"{recipe.target_steps:,} and {recipe.draft_steps:,} steps of {recipe.rows} x {recipe.length} tokens",
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


def _on_own_text(pair: Pair, folder: Path, recipe: Recipe, work: Path, temperature: float) -> Acceptance:
    """Acceptance rates on the target's continuations of the held-out prompts."""
    prompts = encode_prompts(pair, load_prompts(folder / "held_out.jsonl"), min(PROMPT_TOKENS, recipe.length // 2))
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


_TEXT = """# The shipped pair

A target and a draft of the Llama architecture with one byte-level BPE tokenizer of {vocabulary:,} tokens, trained by
this project on the source of the Python standard library (Python Software Foundation License). Weights are stored in
half precision. `split.json` names the training and the held-out files, `held_out.jsonl` holds prompts from the latter.
Rebuild everything with `make pair`; seed {seed}, {steps}.

| model | layers x width | hidden | parameters | weights | held-out loss (nats per token) |
| --- | --- | --- | --- | --- | --- |
{models}

The draft was distilled from the target with the total variation between their next-token distributions.

| measured | value |
| --- | --- |
{facts}

Prompts of 64 tokens, continuations of 128; forward times at a context of {context} tokens, float32, median of 50, on
{machine}; {versions}.

These models exist to measure decoding. Their text is of no use.
"""
