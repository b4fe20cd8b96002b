"""Block efficiency and time of delayed trees.

A (K, L1, L2)-delayed tree is a trunk of L1 drawn tokens, followed by K i.i.d. paths of L2 drawn tokens each.
"""

from __future__ import annotations

import numpy as np

from spectheory.core.checks import check_whole
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
    """E[tau] of a node solver on random (K, L1, L2)-delayed trees: exact over all trees, or a mean over drawn trees.

    For a given tree, E[tau] is computed exactly: it is the sum, over the distinct nodes with the root, of the product
    of the branching probabilities on the path. Paths that begin with the same tokens share these nodes, and a node on
    m paths has a list of m drafted children, with repeats.

    Args:
        solver: a solver that is lossless for i.i.d. draws.
        world: the distributions of target and draft.
        paths: K, at least 1.
        length: L2, the tokens of each path after the trunk, at least 0.
        trunk: L1, the tokens of the trunk, at least 0.
        samples: the number of trees to draw, at least 2; None enumerates all trees. The source draws 4 trees and
            states no error.
        rng: random source of the drawn trees; given if and only if `samples` is given.

    Raises:
        InputError: an argument is out of range, the solver is not lossless for i.i.d. draws, or there are too many
            trees to enumerate; see `expected_block_efficiency`.

    Source: Dynamic Delayed Tree Expansion, Definition 5.2 and Eq. (3). tau of the source counts accepted tokens, so
    E[tau + 1] of the source is E[tau] here. The sum in Eq. (3) is over the nodes of the tree; its index "t_d in T" does
    not say so.
    """
    _check_shape(paths, length, trunk)
    return expected_block_efficiency(TopDown(solver), world, Paths(paths, length, trunk), samples=samples, rng=rng)


def delayed_seconds(latency: Latency, paths: int, length: int, trunk: int, context: int | None = None) -> float:
    """Seconds of one cycle with a (K, L1, L2)-delayed tree: L1 + L2 draft forwards and one target forward.

    All K paths are assumed to differ in their first token after the trunk. Each forward processes n tokens after c
    cached tokens:

    - Draft forward j = 0..L1-1, in the trunk: n = 1, c = context + j.
    - The draft forward at the end of the trunk: n = 1, c = context + L1. It yields the first tokens of all K paths.
    - Draft forward j = 1..L2-1 of the paths: n = K, one token for each path, c = context + L1 + 1 + (j - 1) K.
    - The target forward: n = 1 + L1 + K L2, the root and all drafted tokens, c = context.

    If one forward drafts all levels, there is one draft forward with n = L1 + L2 and c = context.

    The overheads of the latency are added, the prompts of new requests (`Latency.prompts`) are not. The root alone
    (L1 = 0 and L2 = 0) takes a plain step.

    Args:
        latency: seconds of forwards by tokens and context.
        paths: K, at least 1.
        length: L2, at least 0.
        trunk: L1, at least 0.
        context: tokens in the KV cache; None means the middle one of the measured contexts.

    Raises:
        InputError: an argument is out of range.

    Source: Dynamic Delayed Tree Expansion, Eq. (11): sum_{j<L1} t_q(l + j) + sum_{j<L2} t_q(l + L1 + j K) +
    t_p(l + L1 + K L2), where each t is the time of a forward *at a context length*. So Eq. (11) charges the K tokens of
    a level of the paths as one token, and the L1 + K L2 + 1 tokens of the target as one token after a longer cache. Its
    context lengths also count K - 1 cached tokens too many for each j > 0. The time of a forward that verifies a tree
    depends on its number of tokens, so the number of tokens is charged here. If paths share tokens, the tree is smaller
    than Eq. (11) and this function assume.
    """
    _check_shape(paths, length, trunk)
    if context is None:
        context = int(latency.contexts[len(latency.contexts) // 2])
    check_whole("context", context, 0)
    drafts = [(1, context + j) for j in range(trunk)]
    drafts += [(1, context + trunk)] * (length > 0)
    drafts += [(paths, context + trunk + 1 + j * paths) for j in range(length - 1)]
    target = latency.target(trunk + paths * length + 1, context)
    if trunk + length == 0:
        return target + latency.plain_overhead_seconds
    overhead = float(latency.overheads(trunk + length, trunk + paths * length if paths > 1 and length else 0))
    if latency.drafts_at_once:
        return latency.draft(trunk + length, context) + target + overhead
    return sum(latency.draft(tokens, cached) for tokens, cached in drafts) + target + overhead


def _check_shape(paths: int, length: int, trunk: int) -> None:
    check_whole("paths", paths, 1)
    check_whole("length", length, 0)
    check_whole("trunk", trunk, 0)
