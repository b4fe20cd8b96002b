"""Replay: the exact number of cycles of a lossless decoder on a text of the target, from the text alone."""

from spectheory.replay.cycles import CycleChain
from spectheory.replay.explained import explain
from spectheory.replay.explained_record import Explained
from spectheory.replay.greedy import ChainText, GreedyText
from spectheory.replay.kernels import can_replay
from spectheory.replay.replays import Replayed, Replays
from spectheory.replay.text import TargetText

__all__ = [
    "ChainText",
    "CycleChain",
    "Explained",
    "GreedyText",
    "Replayed",
    "Replays",
    "TargetText",
    "can_replay",
    "explain",
]
