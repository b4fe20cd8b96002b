"""Measured decoding of many prompts, with a tree and plainly: `measure`, and `decoded` for a plan."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
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
from reference.sampling import Sampling, require_drawing
from spectheory import Provenance, Schedule, Tally, Tree
from spectheory.core.errors import InputError
from spectheory.otlp import Naive
from spectheory.verify import Greedy, TopDown, Verifier, verifier_of


def verifier_at(temperature: float, plan: Schedule | None = None) -> Verifier:
    """The verifier of `decoded`, lossless for a `PlannedTree`.

    Above temperature 0 it is the plan's. A plan that names none, or was made for greedy decoding, gets the naive
    solver, because traces record the naive solver's acceptance.
    """
    if not temperature:
        return Greedy()
    chosen = verifier_of(plan.verifier) if plan and plan.verifier else Greedy()
    return TopDown(Naive()) if isinstance(chosen, Greedy) else chosen


def require_cycle(new_tokens: int) -> None:
    """Raise InputError if a text of `new_tokens` tokens has no cycle."""
    if new_tokens < 2:
        raise InputError(
            f"new_tokens must be at least 2, got {new_tokens}: the first token comes with the prompt, before any cycle"
        )


def processor() -> dict[str, str | int]:
    """The settings of a provenance that name the processor and the number of threads."""
    return {"threads": torch.get_num_threads(), "cpu": _cpu()}


def _cpu() -> str:
    """The name of the processor, if the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def count_fourgrams(tokens: list[int]) -> tuple[int, int]:
    """Number of runs of four tokens in a text, and how many of them occurred earlier in it."""
    runs = list(zip(*(tokens[i:] for i in range(4)), strict=False))
    return len(runs), len(runs) - len(set(runs))


GREEDY = Sampling()
Watch = Callable[[int, Generation, Divergence | None], None]
"""Callback of a measurement, see `measure`."""


def decoded(
    pair: Pair,
    plan: Schedule,
    prompts: list[list[int]],
    *,
    out: Path | None = None,
    watch: Watch = lambda request, text, divergence: None,
    done: Callable[[int, int], None] = lambda finished, total: None,
    **settings: int,
) -> Tally:
    """Decode prompts with a plan at the sampling of its rates, and plainly; `settings` as in `measure`.

    The tally is saved to `out` after each prompt; one that is there already is continued. `done` is called with the
    number of prompts that this call has decoded, and of all that it decodes.
    """
    so_far = Tally.load(out) if out is not None and out.exists() else None
    first = 0 if so_far is None else len(so_far.cycles)
    sampling = Sampling.of(plan.acceptance.provenance)
    options = {"sampling": sampling, "verifier": verifier_at(sampling.temperature, plan), "so_far": so_far}
    for so_far in measure(pair, plan.tree, prompts, **options, watch=watch, **settings):  # type: ignore[arg-type]
        if out is not None:
            so_far.save(out)
        done(len(so_far.cycles) - first, len(prompts) - first)
    assert so_far is not None
    return so_far


def measure(
    pair: Pair,
    tree: Tree,
    prompts: list[list[int]],
    *,
    new_tokens: int = 128,
    sampling: Sampling = GREEDY,
    verifier: Verifier | None = None,
    seed: int = 0,
    skip: int = 0,
    so_far: Tally | None = None,
    watch: Watch = lambda request, text, divergence: None,
) -> Iterator[Tally]:
    """Decode each prompt plainly and with the tree; yields the tally of all prompts so far after each of them.

    A text ends at one of the target's stop tokens. The provenance names the tree, the verifier and the number of all
    requests, so that a tally of some prompts can be told from a complete one.

    Args:
        pair: target and draft.
        tree: tree that is drafted in every cycle.
        prompts: prompts as token ids.
        new_tokens: maximum number of tokens of each text, at least 2.
        sampling: temperature, top-k and top-p of both decoders.
        verifier: the verifier of the tree; None means the result of `verifier_at`.
        seed: seed of all random streams.
        skip: number of the first prompt in its file, counted from 0, for the provenance.
        so_far: the tally of an interrupted call. Its prompts are not decoded again.
        watch: callback, called for each request with its number, the text decoded with the tree and, at temperature 0,
            the first difference from the plain text.

    Raises:
        InputError: `new_tokens` is below 2, or `so_far` has other models, prompts, settings, versions or machine.
    """
    require_cycle(new_tokens)
    require_drawing(sampling)
    plainly = verifier_at(sampling.temperature)
    verifier = verifier or plainly
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
            **processor(),
        },
    )
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
        watch(request, text, first_divergence(pair, prompt, reference.tokens, text.tokens) if sampling.greedy else None)
        tally = _tally(reference, text, meter, tree, stamp, greedy=sampling.greedy)
        so_far = tally if so_far is None else so_far + tally
        yield so_far


def _tally(plain: Generation, text: Generation, meter: Meter, tree: Tree, stamp: Provenance, *, greedy: bool) -> Tally:
    cycles, (target, draft) = len(text.accepted), meter.since(text.started)
    fourgrams, repeated = count_fourgrams(text.tokens)
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
        fourgrams=fourgrams,
        repeated_fourgrams=repeated,
        compared=int(greedy),
        identical=int(greedy and plain.tokens == text.tokens),
        provenance=stamp,
    )
