"""`Weights`, the weights of a module by use, and `Shape`, their sums and the sizes of the attention of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Use = Literal["matrix", "other", "head", "lookup", "expert", "expert other", "borrowed"]
"""How a forward uses weights. `matrix`: a matrix of a layer. `other`: a vector or router. `head`: the output head.
`lookup`: input embeddings, of which a forward reads the rows of its tokens. `expert`, `expert other`: a matrix and
other weights of one routed expert. `borrowed`: the output head of the target, which a draft head reads."""


@dataclass(frozen=True)
class Weights:
    """The weights of one module.

    Attributes:
        name: the name of the module in a checkpoint; experts stand under the number 0.
        use: how a forward uses them.
        rows, columns: numbers of outputs and inputs of a matrix; a vector has one column.
    """

    name: str
    use: Use
    rows: int
    columns: int = 1

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Cache:
    """What layers of one kind cache.

    Attributes:
        layers: number of layers.
        values: numbers that one layer reads from the cache for one cached token.
        flops: operations of one token with one cached token in one layer.
        window: number of tokens that the layers keep; None if they keep all tokens.
        selected: largest number of cached tokens to which a token attends; None if it attends to all that are kept.
        stored: whether the layers store the numbers, rather than read the ones of other layers.
    """

    layers: int
    values: int
    flops: int
    window: int | None = None
    selected: int | None = None
    stored: bool = True

    def kept(self, first: float, last: float) -> float:
        """The number of tokens in the cache of one layer, on average over the contexts from `first` to `last`."""
        return _mean_up_to(self.window, first, last)

    def read(self, first: float, last: float) -> float:
        """The number of cached tokens that one token reads in one layer, on average over the same contexts."""
        limits = [limit for limit in (self.window, self.selected) if limit is not None]
        return _mean_up_to(min(limits, default=None), first, last)


def _mean_up_to(limit: int | None, first: float, last: float) -> float:
    """The mean of min(context, limit) over the contexts from `first` to `last`: the integral of two straight parts."""
    if limit is None or last <= limit:
        return (first + last) / 2
    if first >= limit:
        return limit
    return ((limit - first) * (first + limit) / 2 + (last - limit) * limit) / (last - first)


@dataclass(frozen=True)
class Shape:
    """Numbers of parameters of a model by how a forward reads them, and sizes of its attention.

    Attributes:
        layers: number of decoder layers.
        linear_parameters: parameters of the matrices of attention, dense MLPs and shared experts, in all layers. Every
            forward reads them. They are often packed.
        other_parameters: parameters of output head, norms, biases and routers. Every forward reads them. They are
            rarely packed.
        lookup_parameters: parameters of the input embeddings, unless they are also the output head. A forward reads
            only the rows of its tokens.
        kv_heads: number of heads among which tensor parallelism can divide the KV cache; 1 for latent attention.
        caches: what the layers cache, by kind of layer.
        borrowed_parameters: parameters of the target's output head, which a draft head reads and does not store.
        moe_layers, experts, experts_per_token: number of layers with routed experts, number of experts in such a layer,
            and number of these experts that a token uses.
        expert_linear_parameters, expert_other_parameters: parameters of the matrices, and other parameters, of one
            expert in one layer.
        state_bytes: bytes of the recurrent state of one sequence in all layers without attention: float32 states, and
            16-bit inputs of the convolutions.
        state_flops: operations of one token with this state.
        latent: whether the attention is multi-head latent attention.
    """

    layers: int
    linear_parameters: int
    other_parameters: int
    lookup_parameters: int
    kv_heads: int
    caches: tuple[Cache, ...]
    borrowed_parameters: int = 0
    moe_layers: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_linear_parameters: int = 0
    expert_other_parameters: int = 0
    state_bytes: int = 0
    state_flops: int = 0
    latent: bool = False

    @property
    def sliding_layers(self) -> int:
        """The number of layers that attend to a window only."""
        return sum(cache.layers for cache in self.caches if cache.window is not None)

    @property
    def kv_values(self) -> int:
        """Numbers that all layers together cache for one token, as if every layer kept all tokens."""
        return sum(cache.layers * cache.values for cache in self.caches if cache.stored)
