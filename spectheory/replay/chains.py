"""Replay of verifiers of one path: the least likelihood ratio along the text is what they keep."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from spectheory.replay.text import LEAST, TargetText
from spectheory.verify.greedy_multi_path import _quotient

LARGEST = 1 / LEAST
"""Products of likelihood ratios are cut here: they only count where they are below 1."""


def kept_by_ratio(ratios: Shaped[np.ndarray, "n length"]) -> Shaped[np.ndarray, "n lengths"]:
    """The smallest of 1 and the products of the first 1, ..., d of `ratios`, for d = 0 to the length.

    With w_0 = 1, w_d = min(1, w_(d-1) p_d / q_d), block verification keeps d drafted tokens with probability w_d given
    the path, so that a text t is kept with q(t_1..t_d) w_d / p(t_1..t_d) = min(R_d, the value for d - 1), where R_d is
    the product of q / p over the first d tokens.
    """
    kept = [ratios[:, 0] * 0 + 1]
    product = kept[0]
    for ratio in ratios.T:
        product = _product(product, ratio)
        kept.append(np.minimum(kept[-1], product))
    return np.stack(kept, 1)


def _product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The product, floats cut to `LARGEST`: a later factor of 0 must give 0, which it does not after infinity."""
    if one.dtype == object:
        return one * other
    with np.errstate(over="ignore"):
        return np.minimum(one * other, LARGEST)


def chain_ratios(text: TargetText, length: int) -> Shaped[np.ndarray, "n length"]:
    """Q / p at the token d positions after each position, q that of depth d; 0 after the end."""
    chance = text.at_tokens(text.p)
    return np.stack([_from(text.at_tokens(text.draft_rows(depth)) / chance, depth) for depth in range(length)], 1)


def best_path_ratios(text: TargetText, paths: int, length: int, trunk: int = 0) -> Shaped[np.ndarray, "n length"]:
    """As `chain_ratios`, with the distribution of the best of i.i.d. paths after a trunk in place of q.

    That distribution is autoregressive (see GreedyMultiPathBlock). So two numbers of each position suffice: q of the
    text's token, and the mass of q on the tokens that come before it in the order of p / q.
    """
    below, ratios = text.at_tokens(text.p) * 0, []
    masses = [(text.at_tokens(q), _mass_before(text, q)) for q in text.q]
    for depth in range(trunk + length):
        count = 1 if depth < trunk else paths
        chance, before = (_from(mass, depth) for mass in masses[min(depth, len(masses) - 1)])
        low, high = (below + (1 - below) * mass for mass in (before, before + chance))
        best = chance * _quotient(high, low, count) / _quotient(below * 0 + 1, below, count)
        target = _from(text.at_tokens(text.p), depth)
        ratios.append(best / (target + (target == 0)))
        if count > 1:
            below = low / (high + (high == 0))
    return np.stack(ratios, 1)


def _mass_before(text: TargetText, q: Shaped[np.ndarray, "n V"]) -> Shaped[np.ndarray, " n"]:
    """Mass of q on the tokens that come before the text's in the order of p / q, ties by token."""
    with np.errstate(over="ignore"):
        ratio = text.p / (q + (q == 0))
    own, tokens = text.at_tokens(ratio)[:, None], text.tokens[:, None]
    before = (ratio < own) | ((ratio == own) & (np.arange(q.shape[1]) < tokens))
    return (q * before).sum(1)


def _from(column: Shaped[np.ndarray, " n"], depth: int) -> Shaped[np.ndarray, " n"]:
    """`column` read `depth` positions later; 0 after the end."""
    later = column * 0
    later[: max(0, len(column) - depth)] = column[depth:]
    return later
