"""A draft as the tensors that published samplers take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from spectheory import Draft

Verify = Callable[..., tuple[int, Any]]
"""A verifier of ours: (draft, p, rng) -> (last accepted node, next token)."""


class SecondCycleError(Exception):
    """A sampler asks for a second draft: the first cycle is over. The argument has the emitted tokens."""


class Chain:
    """A chain of k drafted tokens in float32: tokens (k,), q (k, V), p (k + 1, V).

    With `first=1` the tokens are numbered from 1, for code that does not accept token 0.
    """

    def __init__(self, draft: Draft, p: Any, first: int = 0) -> None:
        self.first = first
        self.tokens = torch.tensor(draft.tokens[1:]) + first
        self.k = len(self.tokens)
        self.q = functional.pad(torch.tensor(np.array(draft.q[: self.k])).float(), (first, 0))
        self.p = functional.pad(torch.tensor(np.array(p)).float(), (first, 0))

    def bonus(self) -> torch.Tensor:
        """(1,) a token of the target after the whole chain."""
        return torch.multinomial(self.p[-1], 1)

    def outcome(self, emitted: Any) -> tuple[int, int]:
        """(last accepted node, next token) for the emitted tokens, which begin with the accepted ones; -1 is none."""
        *accepted, last = [int(token) for token in emitted if int(token) != -1]
        if accepted != self.tokens[: len(accepted)].tolist():
            raise ValueError(f"emitted {[*accepted, last]} after drafting {self.tokens.tolist()}")
        return len(accepted), last - self.first


def on_chains(emitted: Callable[[Chain], Any], first: int = 0) -> Verify:
    """A verifier from a function that returns the tokens emitted for a chain."""

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        chain = Chain(draft, p, first)
        try:
            return chain.outcome(emitted(chain))
        except SecondCycleError as over:
            return chain.outcome(over.args[0])

    return verify


def path(draft: Draft, node: int) -> list[int]:
    """The nodes from the root to `node`."""
    return (path(draft, int(draft.tree.parent[node])) if node else []) + [node]


def paths(draft: Draft) -> list[list[int]]:
    """The paths from the root to each leaf, filled up with -1."""
    found = [path(draft, node) for node in range(len(draft.tokens)) if not draft.draws[node]]
    longest = max(map(len, found))
    return [nodes + [-1] * (longest - len(nodes)) for nodes in found]


def tokens_of(draft: Draft, nodes: Sequence[Sequence[int]]) -> torch.Tensor:
    """The tokens of these nodes; -1 for a node -1."""
    return torch.tensor([[int(draft.tokens[node]) if node >= 0 else -1 for node in row] for row in nodes])


def logits_of(p: Any, nodes: Sequence[Sequence[int]]) -> torch.Tensor:
    """The logarithms of p at these nodes; the root's for a node -1."""
    logits = torch.tensor(np.array(p)).float().log()
    return torch.stack([logits[[max(node, 0) for node in row]] for row in nodes])


def log_rows(rows: Any, first: int = 0) -> torch.Tensor:
    """Logarithms of distributions in float32; with `first`, the tokens are numbered from there."""
    return functional.pad(torch.tensor(np.array(rows)), (first, 0)).float().log()


def flat_tree(draft: Draft, first: int = 0) -> dict[str, Any]:
    """The attributes of a tree as flat arrays, as the trees of Sequoia and TriForce have them."""
    nodes, tokens = len(draft.tokens), torch.tensor(draft.tokens) + first
    return {
        "num_nodes": nodes,
        "tokens": functional.pad(tokens, (0, 2)),
        "verify_tokens": tokens,
        "position_ids": torch.arange(nodes),
        "storage_ids": torch.arange(nodes),
        "attn_mask": torch.zeros(nodes, nodes),
        "Successors": [list(drawn) for drawn in draft.draws],
        "draft_logits": log_rows(draft.q, first),
        "vocab_size": len(draft.q[0]) + first,
    }


def ended(draft: Draft, emitted: torch.Tensor) -> tuple[int, int]:
    """(last accepted node, next token) for the tokens emitted on a tree."""
    *accepted, last = emitted.tolist()
    return next(node for node in range(len(draft.tokens)) if list(draft.context(node)) == accepted), last


def residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """The normalised (p - q)+."""
    rest = (p - q).relu()
    return rest / rest.sum(dim=-1, keepdim=True)
