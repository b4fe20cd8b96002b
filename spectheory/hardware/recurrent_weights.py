"""The weights and the states of recurrent layers: the gated delta rule, and Mamba 2."""

from __future__ import annotations

from spectheory.hardware.hf_config import Fields
from spectheory.hardware.shape import Weights


def recurrent_weights(fields: Fields, prefix: str, hidden: int) -> list[Weights]:
    """The weights of the recurrent part of the layer `prefix`."""
    if fields.family.linear == "delta":
        return _delta(fields, f"{prefix}.linear_attn", hidden)
    return _mamba(fields, f"{prefix}.{fields.family.attention_name}", hidden)


def _delta_sizes(fields: Fields) -> tuple[int, int, int, int]:
    """Sizes of all keys and of all values, number of value heads, and size of a value head."""
    heads, size = fields.number("linear_num_value_heads"), fields.number("linear_value_head_dim")
    return fields.number("linear_num_key_heads") * fields.number("linear_key_head_dim"), heads * size, heads, size


def _delta(fields: Fields, name: str, hidden: int) -> list[Weights]:
    """A layer of the gated delta rule (Gated DeltaNet)."""
    keys, values, heads, size = _delta_sizes(fields)
    vectors = (2 * keys + values) * fields.number("linear_conv_kernel_dim") + 2 * heads + size
    return [
        Weights(f"{name}.in_proj_qkv", "matrix", 2 * keys + values, hidden),
        Weights(f"{name}.in_proj_z", "matrix", values, hidden),
        Weights(f"{name}.in_proj_ba", "matrix", 2 * heads, hidden),
        Weights(f"{name}.out_proj", "matrix", hidden, values),
        Weights(f"{name}.vectors", "other", vectors),
    ]


def _mamba_sizes(fields: Fields) -> tuple[int, int, int, int]:
    """Number of heads, size of all heads, channels of the convolution, and size of the state of a channel."""
    heads = fields.number("mamba_num_heads")
    inner, state = heads * fields.number("mamba_head_dim"), fields.number("ssm_state_size", "mamba_d_state")
    return heads, inner, inner + 2 * fields.number("n_groups", "mamba_n_groups") * state, state


def _mamba(fields: Fields, name: str, hidden: int) -> list[Weights]:
    """A Mamba 2 layer."""
    heads, inner, channels, _ = _mamba_sizes(fields)
    kernel, bias = fields.number("conv_kernel", "mamba_d_conv"), fields.flag("use_conv_bias", True)
    projections = fields.flag("use_bias", False) * (inner + channels + heads + hidden)
    return [
        Weights(f"{name}.in_proj", "matrix", inner + channels + heads, hidden),
        Weights(f"{name}.out_proj", "matrix", hidden, inner),
        Weights(f"{name}.vectors", "other", channels * (kernel + bias) + 3 * heads + inner + projections),
    ]


def state_of(fields: Fields) -> tuple[int, int]:
    """Bytes of the state of one layer without attention, and operations of one token with it.

    The gated delta rule decays the state, reads it with the key, adds an outer product and reads it with the query:
    seven operations for each number. Mamba 2 decays, adds and reads: five.
    """
    if fields.family.linear == "delta":
        keys, values, _, _ = _delta_sizes(fields)
        numbers = fields.number("linear_key_head_dim") * values
        return 4 * numbers + 2 * (2 * keys + values) * (fields.number("linear_conv_kernel_dim") - 1), 7 * numbers
    _, inner, channels, state = _mamba_sizes(fields)
    kernel = fields.number("conv_kernel", "mamba_d_conv")
    return 4 * inner * state + 2 * channels * (kernel - 1), 5 * inner * state
