"""Replay: the exact number of cycles of a lossless decoder on a text of the target, from the text alone."""

from spectheory.replay.cycle import can_replay
from spectheory.replay.cycle_ends import CycleEnds, where_cycles_end
from spectheory.replay.greedy import GreedyText
from spectheory.replay.replays import Replayed, Replays
from spectheory.replay.text import CycleChain, TargetText

__all__ = [
    "CycleChain",
    "CycleEnds",
    "GreedyText",
    "Replayed",
    "Replays",
    "TargetText",
    "can_replay",
    "where_cycles_end",
]
