"""A stock transformers model with fewer kernels, for the time in which a CUDA graph is captured.

Kernels of a small model take longer to start than weights to be read. Projections of the same input become
one product, norms and the rotation of queries and keys one kernel each, and attention reads each key once. Outside of
`fused` the model is as transformers made it; weights keep their names and values, in memory that they share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import AttentionInterface, PretrainedConfig, PreTrainedModel

ATTENTION = "each_key_once"
SAME_INPUT = ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")
"""Names of projections that read the same input and are called in this order."""


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention with query heads that share a key as further rows of one head; the mask has all these rows.

    transformers' own SDPA repeats keys and values in memory as soon as there is a mask.
    """
    batch, heads, tokens, size = query.shape
    rows = query.reshape(batch, key.shape[1], -1, size)
    out = scaled_dot_product_attention(rows, key, value, attn_mask=attention_mask, scale=scaling)
    return out.reshape(batch, heads, tokens, size).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, grouped_attention)


def groups_attention(config: PretrainedConfig) -> bool:
    """Whether a fused model has `grouped_attention`: in place of SDPA, but not of what the model computes itself."""
    return config._attn_implementation == "sdpa"


Forwards = list[tuple[nn.Module, Callable[..., Tensor]]]
FORWARDS: WeakKeyDictionary[nn.Module, Forwards] = WeakKeyDictionary()
"""The modules of each model that have another forward while it is fused."""


@contextmanager
def fused(model: PreTrainedModel) -> Iterator[None]:
    """The model computes the same with fewer kernels, up to rounding; where `groups_attention`, its mask must suit."""
    if model not in FORWARDS:
        norms = [module for module in model.modules() if type(module).__name__.endswith("RMSNorm")]
        FORWARDS[model] = [*_merged(model), *((norm, _kernel(norm.forward)) for norm in norms)]
    forwards, config = FORWARDS[model], model.config
    before = config._attn_implementation
    if groups_attention(config):
        config._attn_implementation = ATTENTION
    for module, forward in forwards:
        module.forward = forward
    code, rotation = sys.modules[type(model).__module__], "apply_rotary_pos_emb"
    try:
        with mock.patch.object(code, rotation, _kernel(getattr(code, rotation, None)), create=True):
            yield
    finally:
        config._attn_implementation = before
        for module, _ in forwards:
            del module.forward


def _merged(model: nn.Module) -> Iterator[tuple[nn.Module, Callable[..., Tensor]]]:
    for module in model.modules():
        for names in SAME_INPUT:
            parts = [part for name in names if type(part := getattr(module, name, None)) is nn.Linear]
            if len(parts) == len(names) and len({part.bias is None for part in parts}) == 1:
                yield from _one_product(parts)


def _one_product(parts: list[Any]) -> Iterator[tuple[nn.Module, Callable[..., Tensor]]]:
    sizes, found = [part.out_features for part in parts], []
    weight = torch.cat([part.weight.data for part in parts])
    bias = None if parts[0].bias is None else torch.cat([part.bias.data for part in parts])
    for part, rows in zip(parts, weight.split(sizes), strict=True):
        part.weight = nn.Parameter(rows, requires_grad=False)

    def compute(states: Tensor) -> Tensor:
        found[:] = linear(states, weight, bias).split(sizes, -1)
        return found[0]

    yield parts[0], compute
    for place, part in enumerate(parts[1:], start=1):
        yield part, partial(lambda place, states: found[place], place)


def _kernel(forward: Any) -> Any:
    """`forward` compiled to one kernel, where there is a GPU to compile it for."""
    return torch.compile(forward, dynamic=True) if forward and torch.cuda.is_available() else forward
