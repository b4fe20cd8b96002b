"""Delayed trees (K, L1, L2): a trunk of L1 draws, then K i.i.d. continuations of L2 tokens. Yield, time, throughput."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.core.world import Paths, World
from spectheory.hardware.latency import Latency
from spectheory.otlp import Solver
from spectheory.verify import TopDown
from spectheory.yields.expected import Estimate, expected_block_efficiency


def delayed_block_efficiency(
    solver: Solver,
    world: World,
    paths: int,
    length: int,
    trunk: int,
    *,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """E[tau] of a node solver on random (K, L1, L2)-delayed trees, over all of them or over drawn ones.

    Given a tree, the sum over its distinct nodes, the root included, of the product of branching probabilities is the
    expectation exactly; only trees are enumerated, or drawn. Paths that coincide share nodes below the trunk, and the
    child list of a node that m paths pass has m entries.

    Args:
        solver: lossless for i.i.d. draws.
        world: distributions of target and draft.
        paths: K, at least 1.
        length: L2, tokens of each path, at least 0.
        trunk: L1, tokens before they part, at least 0.
        samples: how many trees to draw, at least 2; None counts all of them. The source draws 4 and gives no error.
        rng: source of the drawn trees.

    Raises:
        InputError: an argument is out of range, the solver is not lossless for i.i.d. draws, or there are too many
            trees to count; see `expected_block_efficiency`.

    Source: Dynamic Delayed Tree Expansion, Definition 5.2 and Eq. (3). Its tau counts accepted tokens, so that its
    E[tau + 1] is E[tau] here. The sum in Eq. (3) runs over nodes of the tree, which its index "t_d in T" does not say.
    """
    _check_shape(paths, length, trunk)
    return expected_block_efficiency(TopDown(solver), world, Paths(paths, length, trunk), samples=samples, rng=rng)


def delayed_seconds(latency: Latency, paths: int, length: int, trunk: int, context: int | None = None) -> float:
    """Seconds of one cycle with a (K, L1, L2)-delayed tree whose paths all part at once: L1 + L2 drafts, one target.

    Draft forward j of the trunk carries one token behind context + j cached ones; that at its end one token behind
    context + L1, and gives all K first tokens; later one j carries K, one a path, behind context + L1 + 1 + (j - 1) K.
    The target carries the root and all L1 + K L2 drafted tokens behind `context`. The record's overheads are added;
    they are 0 unless measured, and the root alone takes `Latency.plain`.

    Args:
        latency: seconds of forwards by tokens and context.
        paths: K, at least 1.
        length: L2, at least 0.
        trunk: L1, at least 0.
        context: tokens in the KV cache; None for the middle of the measured contexts.

    Raises:
        InputError: an argument is out of range.

    Source: Dynamic Delayed Tree Expansion, Eq. (11): sum_{j<L1} t_q(l + j) + sum_{j<L2} t_q(l + L1 + j K) +
    t_p(l + L1 + K L2), each t the time of a forward *at a context length*. That charges the K tokens of a branch level
    as one token, and the target's L1 + K L2 + 1 tokens as one token behind a longer cache. Its lengths count the K
    tokens of a branch level as cached ones, which is K - 1 rows too many for each j > 0. Forwards that verify a tree
    cost by their tokens, so the widths are charged here. Where paths coincide the tree is smaller than either says.
    """
    _check_shape(paths, length, trunk)
    if context is None:
        context = int(latency.contexts[len(latency.contexts) // 2])
    if isinstance(context, bool) or not isinstance(context, int | np.integer) or context < 0:
        raise InputError(f"context must be a whole number of at least 0 cached tokens, got {context!r:.80}")
    drafts = [(1, context + j) for j in range(trunk)]
    drafts += [(1, context + trunk)] * (length > 0)
    drafts += [(paths, context + trunk + 1 + j * paths) for j in range(length - 1)]
    target = latency.target(trunk + paths * length + 1, context)
    overhead = latency.overhead(Tree.chain(trunk + length))  # counts levels only
    return sum(latency.draft(tokens, cached) for tokens, cached in drafts) + target + overhead


def delayed_throughput(
    solver: Solver,
    world: World,
    latency: Latency,
    paths: int,
    length: int,
    trunk: int,
    *,
    context: int | None = None,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """E[tokens] / E[time] in tokens per second, with the standard error of the numerator; the time is not random here.

    Arguments and errors are those of `delayed_block_efficiency` and `delayed_seconds`.

    Source: Dynamic Delayed Tree Expansion, Eq. (4), the ratio of sums, which is what a long run gives by the renewal
    theorem. Its Eq. (9) prints the mean over contexts of the ratios, another number where contexts differ in time.
    """
    tokens: Any = delayed_block_efficiency(solver, world, paths, length, trunk, samples=samples, rng=rng)
    seconds = delayed_seconds(latency, paths, length, trunk, context)
    return replace(tokens, value=float(tokens.value) / seconds, standard_error=tokens.standard_error / seconds)


def _check_shape(paths: int, length: int, trunk: int) -> None:
    for name, value, least in (("paths", paths, 1), ("length", length, 0), ("trunk", trunk, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}, got {value!r:.80}")
