"""Replay: the exact number of cycles of a lossless decoder on a text of the target, from the text alone."""

from spectheory.replay.cycle import can_replay
from spectheory.replay.cycle_ends import CycleEnds, where_cycles_end
from spectheory.replay.greedy import ChainText, GreedyText, read_chain_records
from spectheory.replay.replays import Replayed, Replays
from spectheory.replay.text import CycleChain, TargetText

__all__ = [
    "ChainText",
    "CycleChain",
    "CycleEnds",
    "GreedyText",
    "Replayed",
    "Replays",
    "TargetText",
    "can_replay",
    "read_chain_records",
    "where_cycles_end",
]
