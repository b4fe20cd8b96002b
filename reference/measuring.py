"""Decoding of many prompts with a tree and without, counted and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from reference.decode import Decoder, Generation
from reference.divergence import Divergence, first_divergence
from reference.drafters import PlannedTree
from reference.meter import Meter
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Provenance, Tally, Tree
from spectheory.core.errors import InputError
from spectheory.otlp import Naive
from spectheory.verify import Greedy, TopDown, Verifier


def verifier_at(temperature: float) -> Verifier:
    """The verifier for decoding with a plan, lossless for a `PlannedTree`.

    Above temperature 0 it is the naive solver, whose acceptance the traces record.
    """
    return TopDown(Naive()) if temperature else Greedy()


def require_cycle(new_tokens: int) -> None:
    """Raise InputError if a text of `new_tokens` needs no cycle."""
    if new_tokens < 2:
        raise InputError(
            f"new_tokens must be at least 2, got {new_tokens}: the first token comes with the prompt, before any cycle"
        )


def measure(
    pair: Pair,
    tree: Tree,
    prompts: list[list[int]],
    *,
    new_tokens: int = 128,
    temperature: float = 0.0,
    seed: int = 0,
    diverged: Callable[[int, Divergence], None] = lambda request, divergence: None,
) -> Iterator[Tally]:
    """Decode each prompt with the tree and plainly, in turns; yields one tally per prompt, to be added up.

    A text ends at one of the target's stop tokens. The provenance names the tree, the verifier and the number of all
    requests, which tells a sum of some tallies from a complete one.

    Args:
        pair: target and draft.
        tree: drafted in every cycle.
        prompts: token ids.
        new_tokens: length of each text, at least 2.
        temperature: of both decoders.
        seed: of every random stream.
        diverged: called at temperature 0, where texts are compared, with the number of each request whose two texts
            differ, and with the place.

    Raises:
        InputError: `new_tokens` is below 2.
    """
    require_cycle(new_tokens)
    verifier = verifier_at(temperature)
    speculative, plain = (
        Decoder(pair, PlannedTree(drafted), Sampling(temperature), verifier, stop_tokens=pair.stop_tokens)
        for drafted in (tree, Tree.chain(0))
    )
    stamp = Provenance.now(
        "spectheory decode",
        seed=seed,
        packages=("torch", "transformers"),
        **pair.stamp,
        temperature=temperature,
        tree=tree.identity,
        verifier=str(verifier),
        requests=len(prompts),
        settings={"new_tokens": new_tokens},
    )
    for decoder in (plain, speculative):
        decoder.generate(prompts[0], min(new_tokens, 16), *streams(pair, seed, len(prompts)))
    for request, prompt in enumerate(prompts):
        with Meter(pair) as meter:
            reference = plain.generate(prompt, new_tokens, *streams(pair, seed, request))
            text = speculative.generate(prompt, new_tokens, *streams(pair, seed, request))
        if temperature == 0 and (where := first_divergence(pair, prompt, reference.tokens, text.tokens)):
            diverged(request, where)
        yield _tally(reference, text, meter, tree, stamp, greedy=temperature == 0)


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
