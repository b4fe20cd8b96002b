"""What trying drafts one after another comes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spectheory.core.arrays import Vector


def distribution_of_tries(tries: Iterable[tuple[int, Any]], after: Vector) -> Vector:
    """The distribution of the emitted token when each (token, chance to accept it) is tried in turn, then `after` drawn
    from.

    `after` is changed in place and returned.
    """
    missed, hits = 1, []
    for token, accept in tries:
        hits.append((token, missed * accept))
        missed = missed * (1 - accept)
    after *= missed
    for token, chance in hits:
        after[token] += chance
    return after
