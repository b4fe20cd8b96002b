"""Verification of a draft on a GPU, for verifiers that emit one token at each node whatever happens at the others."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.random_streams import Coins
from reference.sampling import Sampling
from spectheory import Draft
from spectheory.otlp import NSS, Naive
from spectheory.verify import TopDown, Verifier


def chosen_at_nodes(verifier: Verifier, draft: Draft, logits: Tensor, sampling: Sampling, rng: Coins) -> list[Tensor]:
    """The tokens (n + 1,) that `TopDown(NSS())` or `TopDown(Naive())` emits at the nodes; [] for other verifiers.

    All nodes are decided at once on the device, with two uniform numbers of `rng` each, and the host walks along what
    was chosen. Where the host needs a probability on the way, a cycle waits for the device once for each node.
    """
    solver = verifier.solver if type(verifier) is TopDown else None
    if logits.is_cpu or type(solver) not in (NSS, Naive):
        return []
    p = sampling.distribution(logits)
    coins = torch.from_numpy(rng.random((2, len(p)))).to(p.device)
    inner = [node for node, drawn in enumerate(draft.draws) if drawn]
    if type(solver) is NSS or not inner:
        return [_drawn(p, coins[0])]
    nodes, first = torch.tensor([inner, [draft.draws[node][0] for node in inner]], device=p.device)
    own, q, x = p[nodes], torch.stack([draft.q[node] for node in inner]), torch.as_tensor(draft.tokens)[first, None]
    x = x.clamp_min(0)  # a node that was left out; nobody arrives at its parent
    rest = (own - q).clamp_min(0)
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, own)
    accepted = coins[1, nodes] * q.gather(1, x)[:, 0] < own.gather(1, x)[:, 0]
    found = _drawn(p.index_copy(0, nodes, rest), coins[0])
    return [found.index_copy(0, nodes, torch.where(accepted, x[:, 0], found[nodes]))]


def _drawn(weights: Tensor, uniforms: Tensor) -> Tensor:
    """A token of each row by inversion in float64; see `spectheory.core.chance.draw`."""
    edges = weights.cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(edges, uniforms[:, None] * edges[:, -1:], right=True)[:, 0]
