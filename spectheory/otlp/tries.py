"""The distribution of the emitted token when drafts are tried one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spectheory.core.arrays import Vector


def distribution_of_tries(tries: Iterable[tuple[int, Any]], after: Vector) -> Vector:
    """Distribution of the emitted token: each of `tries`, (token, probability to accept it), is tried in order.

    If none is accepted, the token is drawn from `after`, which is changed in place and returned.
    """
    missed, hits = 1, []
    for token, accept in tries:
        hits.append((token, missed * accept))
        missed = missed * (1 - accept)
    after *= missed
    for token, chance in hits:
        after[token] += chance
    return after
