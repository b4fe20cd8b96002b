"""Minimal reproductions of what the gallery reports, in our own words: exact numbers, no model, no PyTorch."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any


def bonus_before_gather() -> tuple[list[str], list[str]]:
    """What is emitted, and what should be: the root has two drafted children, and the second one is accepted."""
    text = ["root", "first child", "second child", ""]
    accepted = [0, 2]
    gathered = [text[node] for node in accepted]
    text[len(accepted)] = "bonus"  # this place still holds the second child
    text[: len(accepted)] = [text[node] for node in accepted]
    return text[: len(accepted) + 1], [*gathered, "bonus"]


def noise_once() -> Fraction:
    """Total variation of two cycles that draft one token from the same noise. All drafts are accepted: p = q = 1/2."""
    texts: Counter[tuple[int, ...]] = Counter()
    for noise, bonus in product((0, 1), repeat=2):
        first_cycle, second_cycle = (noise, bonus), (noise,)
        texts[first_cycle + second_cycle] += 1
    return sum((abs(Fraction(texts[text], 4) - Fraction(1, 8)) for text in product((0, 1), repeat=3)), Fraction(0)) / 2


def products_of_coins(drafted: int) -> float:
    """Total variation of the first token: p = (1/2, 1/2), q = (3/4, 1/4), then p = q for all later tokens.

    The right probability to keep token 0 is 2/3. A product of k coins is at most c with probability
    c (1 + L + L^2 / 2! + ... + L^(k-1) / (k-1)!), where L = -log c.
    """
    ratio = 2 / 3
    kept = ratio * sum((-math.log(ratio)) ** j / math.factorial(j) for j in range(drafted))
    return abs(3 / 4 * kept - 1 / 2)


def uncapped_ratio(capped: bool = False) -> Fraction:
    """Total variation of two tokens: p = (1/3, 2/3) and q = (2/3, 1/3) everywhere, two drafted tokens x, y."""
    p, q = (Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3))
    missing = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
    emitted = dict.fromkeys(product((0, 1), repeat=2), Fraction(0))
    for x, y in product((0, 1), repeat=2):
        keep_both = min(Fraction(1), (min(Fraction(1), p[x] / q[x]) if capped else p[x] / q[x]) * p[y] / q[y])
        gaps = [min(p[x], q[x]) * p[z] - q[x] * q[z] for z in (0, 1)]
        up, down = [max(gap, Fraction(0)) for gap in gaps], [max(-gap, Fraction(0)) for gap in gaps]
        correction = [gap / max(sum(up), sum(down)) for gap in up]
        drafted = q[x] * q[y]
        emitted[x, y] += drafted * keep_both
        for z, w in product((0, 1), repeat=2):
            emitted[x, z] += drafted * (1 - keep_both) * correction[z] / 2  # w is not used: half each
            back = drafted * (1 - keep_both) * (1 - sum(correction))
            emitted[z, w] += back * missing[z] / sum(missing) * p[w]
    return sum((abs(emitted[z, w] - p[z] * p[w]) for z, w in product((0, 1), repeat=2)), Fraction(0)) / 2


def beam_not_drawn() -> Fraction:
    """Total variation of a token: p = q = (1/2, 1/2), and the beam search always drafts token 0."""
    kept = min(Fraction(1), Fraction(1, 2) / Fraction(1, 2))
    return abs(kept - Fraction(1, 2))


def argmax_bonus() -> Fraction:
    """Total variation of the token after an accepted draft: p = (3/5, 2/5) there, and token 0 is always emitted."""
    return abs(1 - Fraction(3, 5))


def medusa_typical() -> str:
    """The error of a function of five parameters that is called with six."""

    def mask(logits: Any, candidates: Any, temperature: Any, threshold: Any, alpha: Any) -> None: ...

    try:
        mask(*range(6))
    except TypeError as error:
        return str(error).split("() ")[1]
    raise AssertionError
