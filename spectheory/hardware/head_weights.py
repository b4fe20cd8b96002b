"""The weights that draft heads have besides their layers, by the kind of the head."""

from __future__ import annotations

from collections.abc import Sequence

from spectheory.hardware.attention_weights import heads_of
from spectheory.hardware.hf_config import Fields
from spectheory.hardware.shape import Weights


def is_eagle3(fields: Fields) -> bool:
    """Whether the config describes an EAGLE-3 draft head."""
    return "draft_vocab_size" in fields.values or "eagle3" in str(fields.values.get("architectures")).lower()


def is_eagle1(fields: Fields) -> bool:
    """Whether the config describes a draft head of EAGLE-1 or EAGLE-2."""
    return not is_eagle3(fields) and "eagle" in str(fields.values.get("architectures")).lower()


def borrowed_head(fields: Fields, hidden: int) -> Weights:
    return Weights("lm_head", "borrowed", fields.number("vocab_size"), hidden)


def eagle1_weights(fields: Fields, hidden: int) -> Sequence[Weights]:
    """What a head of EAGLE-1 or EAGLE-2 has besides its layers, of which the first has one norm less.

    A matrix fuses the token and the feature of the target. Embeddings and output head are the ones of the target.
    """
    last = Weights("model.layers.0.post_attention_layernorm", "other", hidden)
    biased = fields.flag("bias", True)
    fusion = [Weights("fc", "matrix", hidden, 2 * hidden), Weights("fc.bias", "other", biased * hidden)]
    return [last, *fusion, borrowed_head(fields, hidden)]


def eagle3_weights(fields: Fields, hidden: int) -> Sequence[Weights]:
    """What an EAGLE-3 head has besides its layers.

    A matrix fuses three features of the target. The attention of the first layer reads the token and the feature, so
    its query, key and value matrices have twice the input size. The input embeddings are the ones of the target, and
    are not counted. The output head has a smaller vocabulary of its own.
    """
    heads, kv_heads, size = heads_of(fields, full=True)
    return [
        Weights("fc", "matrix", hidden, 3 * fields.number("target_hidden_size", default=hidden)),
        Weights("model.layers.0.self_attn.qkv_of_the_feature", "matrix", (heads + 2 * kv_heads) * size, hidden),
        Weights("model.norms", "other", 2 * hidden),
        Weights("lm_head", "head", fields.number("draft_vocab_size", "vocab_size"), hidden),
    ]
