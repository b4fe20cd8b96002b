"""`decoded`: measured decoding of many prompts, with a plan and plainly."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from reference.decode import Decoder, Generation
from reference.divergence import Divergence, first_divergence
from reference.drafters import PlannedTree
from reference.meter import Meter
from reference.models import Pair
from reference.part_files import check_same, short_hash
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Provenance, Schedule, Tally, Tree
from spectheory.core.errors import InputError
from spectheory.core.ratios import check_sources
from spectheory.otlp import Naive
from spectheory.verify import Greedy, TopDown, verifier_of


def require_cycle(new_tokens: int) -> None:
    """Raise InputError if a text of `new_tokens` tokens has no cycle."""
    if new_tokens < 2:
        raise InputError(
            f"new_tokens must be at least 2, got {new_tokens}: the first token comes with the prompt, before any cycle"
        )


def processor() -> dict[str, str | int]:
    """The settings of a provenance that name the processor and the number of threads."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"threads": torch.get_num_threads(), "cpu": names[0] if names else platform.processor()}


def decoded(
    pair: Pair,
    plan: Schedule,
    prompts: list[list[int]],
    *,
    new_tokens: int = 128,
    seed: int = 0,
    skip: int = 0,
    sources: tuple[str, ...] = (),
    out: Path | None = None,
    watch: Callable[[int, Generation, Divergence | None], None] = lambda request, text, divergence: None,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> Tally:
    """Decode each prompt with a plan at the sampling of its rates, and plainly.

    A text ends at one of the target's stop tokens. Above temperature 0 the verifier is the plan's. A plan that names
    none, or was made for greedy decoding, gets the naive solver, because traces record the naive solver's acceptance.
    The provenance names the tree, the verifier and the number of all requests, so that a tally of some prompts can be
    told from a complete one.

    Args:
        pair: target and draft.
        plan: the tree that is drafted in every cycle, its verifier and its rates.
        prompts: prompts as token ids.
        new_tokens: maximum number of tokens of each text, at least 2.
        seed: seed of all random streams.
        skip: number of the first prompt in its file, counted from 0, for the provenance.
        sources: where each prompt is from, such as a category: prompts of one source are one cluster of the tally.
        out: file to which the tally is saved after each prompt. A tally that is there already is continued.
        watch: callback, called for each request with its number, the text decoded with the tree and, at temperature 0,
            the first difference from the plain text.
        done: callback with the number of prompts that this call has decoded, and of all that it decodes.

    Raises:
        InputError: `new_tokens` is below 2, sources are not those of the prompts, or the tally in `out` has other
            models, prompts, settings, versions or machine.
    """
    require_cycle(new_tokens)
    check_sources(sources, len(prompts))
    tree, sampling = plan.tree, Sampling.of(plan.acceptance.provenance)
    plainly = Greedy() if sampling.greedy else TopDown(Naive())
    verifier = verifier_of(plan.verifier) if plan.verifier else plainly
    if sampling.greedy or isinstance(verifier, Greedy):
        verifier = plainly
    speculative, plain = (
        Decoder(pair, PlannedTree(drafted), sampling, how)
        for drafted, how in ((tree, verifier), (Tree.chain(0), plainly))
    )
    stamp = Provenance.now(
        "spectheory decode",
        seed=seed,
        packages=("torch", "transformers"),
        **pair.stamp,
        **sampling.stamp,
        tree=tree.identity,
        verifier=str(verifier),
        requests=len(prompts),
        settings={
            "new_tokens": new_tokens,
            "skip": skip,
            "weights": pair.fingerprint,
            "prompts": short_hash(prompts),
            **({"clusters": short_hash(sources)} if sources else {}),
            **processor(),
        },
    )
    so_far = Tally.load(out) if out is not None and out.exists() else None
    if so_far is not None:
        check_same(so_far.provenance, stamp)
    first = 0 if so_far is None else len(so_far.cycles)
    if first < len(prompts):
        for decoder in (plain, speculative):
            decoder.generate(prompts[0], min(new_tokens, 16), *streams(pair, seed, len(prompts)))
    for request, prompt in enumerate(prompts[first:], start=first):
        with Meter(pair) as meter:
            reference = plain.generate(prompt, new_tokens, *streams(pair, seed, request))
            text = speculative.generate(prompt, new_tokens, *streams(pair, seed, request))
        differs = first_divergence(pair.target, prompt, reference.tokens, text.tokens) if sampling.greedy else None
        watch(request, text, differs)
        tally = _tally(reference, text, meter, tree, stamp, greedy=sampling.greedy)
        tally = replace(tally, sources=sources[request : request + 1] or None)
        so_far = tally if so_far is None else so_far + tally
        if out is not None:
            so_far.save(out)
        done(request + 1 - first, len(prompts) - first)
    assert so_far is not None
    return so_far


def _tally(plain: Generation, text: Generation, meter: Meter, tree: Tree, stamp: Provenance, *, greedy: bool) -> Tally:
    cycles, (target, draft) = len(text.accepted), meter.since(text.started)
    fourgrams = list(zip(*(text.tokens[i:] for i in range(4)), strict=False))
    return Tally(
        emitted=np.array([sum(text.accepted) + cycles]),
        cycles=np.array([cycles]),
        accepted_histogram=np.bincount(text.accepted, minlength=tree.max_depth + 1),
        new_tokens=len(text.tokens) - 1,
        seconds=text.seconds,
        target_seconds=target,
        draft_seconds=draft,
        plain_tokens=len(plain.tokens) - 1,
        plain_seconds=plain.seconds,
        fourgrams=len(fourgrams),
        repeated_fourgrams=len(fourgrams) - len(set(fourgrams)),
        compared=int(greedy),
        identical=int(greedy and plain.tokens == text.tokens),
        provenance=stamp,
    )
