"""A run that shows a fault, in words: what was drafted, the random numbers, what was emitted, and the target there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from spectheory.certify.certificate import number, shown
from spectheory.core.chance import Pick
from spectheory.core.coins import Coin, exact


@dataclass(frozen=True)
class ShownRun:
    """One run.

    Attributes:
        did: what the run did, such as "emitted [0 1]".
        coins: its random numbers.
        drafts: what was drafted before it; "" if this is said elsewhere.
        target: the target's distribution of each emitted token; "" if nothing was emitted.
    """

    did: str
    coins: str
    drafts: str = ""
    target: str = ""

    def lines(self) -> list[str]:
        """The run as text, for people."""
        found = [f"a run that shows it {self.did}; {self.coins}"]
        found += [f"before it, {self.drafts}"] if self.drafts else []
        return found + ([f"there the target's distribution is {self.target}"] if self.target else [])


def known_of(drawn: Sequence[Coin | Pick]) -> str:
    """What a run has settled of its random numbers, each with its place in the order of the draws."""
    places = {id(one): place for place, one in enumerate(drawn, 1)}
    known = {place: _known(one, places) for place, one in enumerate(drawn, 1)}
    found = [f"{place}: {what}" for place, what in known.items() if what]
    unread = len(known) - len(found)
    rest = [f"{unread} that nothing depends on"] if unread else []
    return f"random numbers {', '.join([*found, *rest])}" if known else "no random numbers"


def _known(one: Coin | Pick, places: dict[int, int]) -> str:
    """What is known of a random number; "" if nothing is."""
    if isinstance(one, Pick):
        return f"index {one.chosen} of weights {shown([exact(weight) for weight in one.weights])}"
    if one.is_zero:
        return "exactly 0"
    clock = one.clock
    if clock and clock.scale:
        return f"after number {places[id(clock.lost_to.coin)]} in a race" if clock.lost_to else "first in its race"
    if (one.low, one.high) == (0, 1):
        return ""
    if clock is None:
        return f"uniform in ({number(one.low)}, {number(one.high)})"
    low, high = (1 - one.high, 1 - one.low) if clock.flipped else (one.low, one.high)
    return f"exponential in ({_minus_log(high):.4g}, {_minus_log(low):.4g})"


def _minus_log(x: Fraction) -> float:
    return -math.log(x) + 0.0 if x > 0 else math.inf
