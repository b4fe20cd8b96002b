"""Replay of code that draws with PyTorch: every outcome of its draws is enumerated with its exact probability.

    tags.py         tensors with entries that have no value
    draws.py        torch.rand, exponential_, bernoulli, multinomial, ... and their generators
    arithmetic.py   operations on single entries, and those that only move entries
    selections.py   argmax, topk, sort, searchsorted, sums
    replay.py       TorchReplay: the modes of torch that put these in the place of its operations

`spectheory certify` finds `TorchReplay` by the entry-point group `spectheory.replays`, once a program has imported
torch.
"""

from reference.torch_replay.replay import TorchReplay

__all__ = ["TorchReplay"]
