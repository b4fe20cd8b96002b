"""Replay of code that draws with PyTorch: every outcome of its draws is enumerated with its exact probability.

    tags.py         tensors with entries that have no value
    draws.py        torch.rand, exponential_, bernoulli, multinomial, ... and their generators
    operations.py   operations on single entries, those that only move entries, argmax, topk, sort, searchsorted
    replay.py       TorchReplay: the modes of torch that put these in the place of its operations

`spectheory certify` loads `TorchReplay` once a program has imported torch.
"""

from reference.torch_replay.replay import TorchReplay

__all__ = ["TorchReplay"]
