"""Measured seconds of forwards by number of tokens and context, for both models, on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from reference.cached_head import CachedHead
from reference.cached_model import CachedModel
from reference.cuda_graphs import cached
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.drafters.model import cached_draft
from reference.heads import Head
from reference.logits import settle
from reference.meter import Meter
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling, require_drawing
from spectheory import Latency, Provenance, Tree
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.otlp import NSS
from spectheory.planning.replayed import PLANNED_VERIFIERS
from spectheory.verify import TopDown, Verifier, name_of

LARGEST = 257
"""The largest forward that is timed by default: the root and 256 nodes."""
CONTEXTS = (64, 256, 512)
FEWEST_ROUNDS, MOST_SECONDS = 3, 60
LEVELS = 4
"""Levels of the deeper trees with which overheads are measured, and number of draft forwards timed in a row."""
SAMPLE_AND_MATCH = TopDown(NSS())
OVERHEAD_PROMPT, OVERHEAD_TEXT, OVERHEAD_TEXTS = 8, 16, 5
"""Tokens of the prompts and of the texts with which overheads are measured, and number of these texts."""


def forward_sizes(largest: int = LARGEST) -> list[int]:
    """Numbers of tokens of timed forwards, up to `largest`: 1 to 9, then one more than 12, 16, 24, 32, 48, ...

    A tree of n nodes is verified in a forward of n + 1 tokens. On CPUs one token more than a power of two takes several
    percent longer than a straight line through the powers of two says, so the times are measured where trees are.
    """
    more = {2**i + 2**i // 4 * quarter + 1 for i in range(3, largest.bit_length()) for quarter in (0, 2)}
    return sorted({n for n in (*range(1, 10), *more) if n < largest} | {largest})


def profile(
    pair: Pair,
    *,
    tokens: Sequence[int] | None = None,
    contexts: Sequence[int] = CONTEXTS,
    rounds: int = 15,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int = 0,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> Latency:
    """Measure the median and interquartile range of the seconds of `rounds` forwards at each size, in random order.

    A size is a number of `tokens`, by default `forward_sizes`, after a number of cached tokens (`contexts`). The models
    take turns, as in decoding: a forward of the target, then several of the draft. Each size is run twice and the
    second run is timed, because a decoder repeats its sizes, so that weights and code are in the caches. `temperature`,
    `top_k` and `top_p` matter for the overheads only. `done` is called with the finished and all rounds. With large
    models, rounds after the first `FEWEST_ROUNDS` are left out when a context has taken `MOST_SECONDS`.

    Raises:
        LogitsError: a model returns logits that give no probabilities.
        InputError: `rounds` is below 1, sizes do not increase from 1 on, or do not fit the models' context; or the
            sampling is none, see `Sampling`.
    """
    tokens = forward_sizes() if tokens is None else tokens
    sampling = Sampling(temperature, top_k, top_p)
    check_settings(tokens, contexts, rounds, sampling)
    need = max(max(contexts) + max(tokens), OVERHEAD_PROMPT + OVERHEAD_TEXT + LEVELS)
    if need > pair.context:
        raise InputError(
            f"contexts up to {max(contexts)} with {max(tokens)} new tokens need {need}, these models have "
            f"{pair.context}: profile smaller contexts, or a smaller --largest"
        )
    rng = np.random.default_rng(seed)
    seconds = np.full((2, len(contexts), len(tokens), rounds), np.nan)
    for c, context in enumerate(contexts):
        models, ends = _filled(pair, context, rng), time.perf_counter() + MOST_SECONDS
        for turn in range(rounds):
            if turn >= FEWEST_ROUNDS and time.perf_counter() > ends:
                break
            for n in rng.permutation(len(tokens)):
                for _ in range(2):
                    seconds[:, c, n, turn] = _forwards(pair, models, int(tokens[n]), rng)
            done(c * rounds + turn + 1, len(contexts) * rounds)
    low, median, high = np.nanquantile(seconds, [0.25, 0.5, 0.75], axis=-1)
    spread = high - low
    measured = Latency(
        tokens=np.asarray(tokens),
        contexts=np.asarray(contexts),
        target_seconds=median[0],
        draft_seconds=median[1],
        target_spread_seconds=spread[0],
        draft_spread_seconds=spread[1],
        overhead_seconds=0.0,
        provenance=Provenance.now(
            "spectheory profile",
            seed=seed,
            packages=("torch", "transformers"),
            **pair.stamp,
            settings={"threads": torch.get_num_threads(), "rounds": rounds},
        ),
    )
    return with_overheads(pair, measured, sampling, seed)


def _random(model: CachedModel, tokens: int, rng: np.random.Generator) -> Tensor:
    drawn = rng.integers(0, model.vocab_size, tokens)
    return torch.as_tensor(drawn, device=model.device).unsqueeze(0)


@torch.inference_mode()
def _filled(pair: Pair, context: int, rng: np.random.Generator) -> tuple[CachedModel, CachedModel]:
    target, draft = cached(pair.target, pair.vocab_size, f"target {pair.names[0]}"), cached_draft(pair)
    if isinstance(draft, CachedHead):
        tokens = _random(target, context + 1, rng)
        target.taps = draft.head.taps
        target.forward(tokens)
        draft.observe(target.states[:-1])
        target.keep(context, [])
    else:
        tokens = _random(target, context, rng)
        target.forward(tokens)
    draft.read(tokens)
    settle(target.peaks, draft.peaks)
    return target, draft


@torch.inference_mode()
def _forwards(
    pair: Pair, models: tuple[CachedModel, CachedModel], tokens: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Seconds of the target's forward of a tree of `tokens` tokens, and mean seconds of `LEVELS` forwards of the draft.

    The first of them finds the processor's caches full of other weights. One token of the target follows another one,
    as in plain decoding, which alone has such forwards.
    """
    target, draft = models
    if tokens == 1:
        _forward(target, _random(target, tokens, rng))
    with Meter(pair) as meter:
        _forward(target, _random(target, tokens, rng))
        for _ in range(LEVELS):
            _forward(draft, _random(draft, tokens, rng))
    settle(target.peaks, draft.peaks)
    seconds = meter.since(0)
    return seconds[0], seconds[1] / LEVELS


def _forward(model: CachedModel, drawn: Tensor) -> None:
    """One forward of the children of one node (1, n), which are then dropped from the cache."""
    tokens, committed = drawn.shape[1], model.length
    if tokens == 1:
        model.forward(drawn)
    else:
        rows = model.rows()
        rows.add([-1] * tokens)
        model.forward_tree(drawn, committed, rows)
    model.keep(committed, [])


def with_overheads(pair: Pair, latency: Latency, sampling: Sampling, seed: int = 0) -> Latency:
    """A copy of `latency` with the seconds outside the forwards, which are measured now for this sampling.

    Those of a cycle and of a drafted level describe the straight line through a tree of one level and a tree of
    `LEVELS`. A cycle includes `_rereading`. Above temperature 0 each verifier of planned trees has its own: per cycle,
    level and drafted node, solved from a chain of 1, and a chain and a binary tree of `LEVELS` levels, without the last
    for verifiers of chains.
    """
    rng = np.random.default_rng(seed)
    measure = partial(_overhead, pair, latency, sampling, rng)
    tree, reread = Tree.k_ary(2, LEVELS), _rereading(pair, rng)
    shallow, deep, plain = measure(Tree.chain(1)), measure(tree), measure(Tree.chain(0))
    level = max(0.0, deep - shallow) / (LEVELS - 1)
    verifiers: dict[str, tuple[float, ...]] = {}
    for verifier in () if sampling.greedy else PLANNED_VERIFIERS:
        trees = [Tree.chain(1), Tree.chain(LEVELS), *([] if verifier.takes == "chains" else [tree])]
        one, four, *binary = (measure(each, verifier) for each in trees)
        per_node = max(0.0, binary[0] - four) / (tree.budget - LEVELS) if binary else 0.0
        per_level = max(0.0, (four - one) / (LEVELS - 1) - per_node)
        verifiers[name_of(verifier)] = max(0.0, one - per_level - per_node) + reread, per_level, per_node
    return replace(
        latency,
        overhead_seconds=max(0.0, shallow - level) + reread,
        level_overhead_seconds=level,
        plain_overhead_seconds=plain,
        verifier_seconds=verifiers,
        provenance=latency.provenance.replace(**{"top_k": None, "top_p": None, **sampling.stamp}),
    )


def _overhead(
    pair: Pair,
    latency: Latency,
    sampling: Sampling,
    rng: np.random.Generator,
    tree: Tree,
    verifier: Verifier = SAMPLE_AND_MATCH,
) -> float:
    """Median seconds per cycle outside the forwards, over short texts with random prompts.

    On CUDA a graph holds more than the forwards, and a meter would hold up the host: there it is what the forwards of
    `latency` leave of a cycle, after a text in which graphs are captured.
    """
    decoder = Decoder(pair, PlannedTree(tree), sampling, verifier, ())
    on_device, shares = pair.device.type == "cuda", []
    context = int(latency.contexts[0])
    forwards = latency.draft_levels(tree, context) + latency.target(tree.budget + 1, context)
    for seed in range(OVERHEAD_TEXTS + on_device):
        prompt = rng.integers(0, pair.vocab_size, context if on_device else OVERHEAD_PROMPT).tolist()
        with nullcontext() if on_device else Meter(pair) as meter:
            text = decoder.generate(prompt, OVERHEAD_TEXT, *streams(pair, seed))
        spent = sum(meter.since(text.started)) / len(text.accepted) if meter else forwards
        shares.append(text.seconds / len(text.accepted) - spent)
    return max(0.0, float(np.median(shares[on_device:])))


@torch.inference_mode()
def _rereading(pair: Pair, rng: np.random.Generator) -> float:
    """Median seconds by which a head's forwards in a cycle take longer than those of as many drafted tokens.

    A head reads the accepted tokens again in its first forward of a cycle; here they are as many as the drafted ones.
    """
    if not isinstance(pair.draft, Head):
        return 0.0
    target, draft = _filled(pair, OVERHEAD_PROMPT, rng)
    assert isinstance(draft, CachedHead)
    seconds: tuple[list[float], list[float]] = [], []
    for turn in range(2 * OVERHEAD_TEXTS):
        with Meter(pair) as meter:
            _forward(target, _random(target, LEVELS, rng))
            committed = draft.length
            if turn % 2:
                draft.features = draft.features.new_ones(LEVELS, draft.head.config.hidden_size)
            for level in range(LEVELS):
                draft.forward(_random(draft, LEVELS if turn % 2 and not level else 1, rng))
            draft.keep(committed, [])
        seconds[turn % 2].append(meter.since(0)[1])
    return max(0.0, float(np.median(seconds[1]) - np.median(seconds[0])))


def check_settings(tokens: Sequence[int], contexts: Sequence[int], rounds: int, sampling: Sampling) -> None:
    """Check what can be checked of a profile without its models. Raises InputError as `profile` does."""
    require_drawing(sampling)
    check_whole("rounds", rounds, 1)
    for name, sizes in (("tokens", tokens), ("contexts", contexts)):
        if not sizes or min(sizes) < 1 or sorted(set(sizes)) != list(sizes):
            raise InputError(f"{name} must be increasing whole numbers from 1 on, got {list(sizes)}")
