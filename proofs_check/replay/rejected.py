"""Replay: a drafter that reads the target at rejected nodes has cycles that the text does not determine."""

from __future__ import annotations

from proofs_check.claims import Finding, claim

TEXT = (1, 1, 0, 2, 2, 2)
"""What the target emits; after this text it goes on with token 2."""


@claim("R-REJECTED")
def read_at_rejected_nodes(effort: int) -> Finding:
    pair = {
        f"{name}_with_{kind}": starts(answer, rejected=kind == "rejected")
        for name, answer in (("one", 0), ("other", 2))
        for kind in ("rejected", "accepted")
    }
    told = {"first_starts": pair["one_with_rejected"], "second_starts": pair["other_with_rejected"]}
    return Finding(told, cases={"pair": [pair]})


def starts(answer: int, *, rejected: bool) -> list[int]:
    """Where the cycles of token recycling start, each with a chain of two stored successors.

    The target says `answer` at every node off the text; that is stored with `rejected`, else accepted nodes only.
    """
    successor, place, found = dict.fromkeys(range(3), 0), 1, []
    while place < len(TEXT):
        found.append(place)
        last, ahead = TEXT[place - 1], [*TEXT[place:], 2, 2]
        first = successor[last]
        drafted = [first, successor[first]]
        kept = next((at for at in (0, 1) if drafted[at] != ahead[at]), 2)
        if rejected:
            successor |= dict.fromkeys(drafted[kept:], answer)
        successor |= dict(zip([last, *drafted[:kept]], ahead, strict=False))
        place += kept + 1
    return found
