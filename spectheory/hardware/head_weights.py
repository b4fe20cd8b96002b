"""The kinds of draft heads, and the weights that a head has besides its layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from spectheory.hardware.attention_weights import heads_of
from spectheory.hardware.hf_config import Fields
from spectheory.hardware.shape import Weights

HeadKind = Literal["eagle1", "eagle3", "p-eagle", "dflash", "dspark", "medusa"]
AT_ONCE: tuple[HeadKind, ...] = ("p-eagle", "dflash", "dspark", "medusa")
"""Kinds of heads that draft all depths in one forward."""
_NAMING = ("architectures", "model_type", "speculators_model_type", "projector_type")
_WORDS: tuple[tuple[str, HeadKind], ...] = (
    ("medusa", "medusa"),
    ("dspark", "dspark"),
    ("dflash", "dflash"),
    ("peagle", "p-eagle"),
    ("eagle3", "eagle3"),
)
_MARKS: tuple[tuple[str, HeadKind], ...] = (
    ("medusa_num_heads", "medusa"),
    ("ptd_token_id", "p-eagle"),
    ("draft_vocab_size", "eagle3"),
)


def head_kind(fields: Fields) -> HeadKind | None:
    """The kind of the draft head that the config describes; None for a whole model."""
    named = " ".join(str(fields.values.get(name)) for name in _NAMING).lower()
    kinds: list[HeadKind] = [kind for word, kind in _WORDS if word in named]
    if kinds in ([], ["eagle3"]):
        kinds = [*(kind for mark, kind in _MARKS if mark in fields.values), *kinds]
    if kinds:
        return kinds[0]
    return "eagle1" if "eagle" in named else None


def drafts_at_once(fields: Fields) -> bool:
    """Whether the model or head drafts all depths in one forward. PARD marks whole models with a `pard_token`."""
    return head_kind(fields) in AT_ONCE or "pard_token" in fields.values


def borrowed_head(fields: Fields, hidden: int) -> Weights:
    """The output head of the target, which a draft head reads."""
    return Weights("lm_head", "borrowed", fields.number("vocab_size"), hidden)


def head_weights(fields: Fields, kind: HeadKind, hidden: int) -> list[Weights]:
    """What a draft head has besides its layers. Features are hidden states of the target."""
    return _WEIGHTS[kind](fields, hidden)


def _eagle1(fields: Fields, hidden: int) -> list[Weights]:
    """A matrix fuses the token and the feature of the target. Embeddings and output head are the ones of the target.

    The first layer has one norm only. The norms of the first layer are counted here.

    Source: SafeAILab/EAGLE, eagle/model/cnets1.py.
    """
    return [
        Weights("model.layers.0.post_attention_layernorm", "other", hidden),
        Weights("fc", "matrix", hidden, 2 * hidden),
        Weights("fc.bias", "other", fields.flag("bias", True) * hidden),
        borrowed_head(fields, hidden),
    ]


def _eagle3(fields: Fields, hidden: int) -> list[Weights]:
    """A matrix fuses three features of the target.

    The attention of the first layer reads the token and the feature, so its query, key and value matrices have twice
    the input size. The input embeddings are the ones of the target, and are not counted. The output head has a smaller
    vocabulary of its own.

    Source: SafeAILab/EAGLE, eagle/model/cnets.py.
    """
    heads, kv_heads, size = heads_of(fields, full=True)
    return [
        Weights("fc", "matrix", hidden, 3 * _feature(fields, hidden)),
        Weights("model.layers.0.self_attn.qkv_of_the_feature", "matrix", (heads + 2 * kv_heads) * size, hidden),
        Weights("model.norms", "other", 2 * hidden),
        Weights("lm_head", "head", fields.number("draft_vocab_size", "vocab_size"), hidden),
    ]


def _p_eagle(fields: Fields, hidden: int) -> list[Weights]:
    """An EAGLE-3 head with a learned feature for positions without one, and trained embeddings of its own.

    Source: sgl-project/SpecForge, specforge/modeling/draft/peagle.py; arXiv 2602.01469.
    """
    mask = Weights("mask_hidden", "other", 3 * _feature(fields, hidden))
    return [*_eagle3(fields, hidden), mask, Weights("embed_tokens", "lookup", fields.number("vocab_size"), hidden)]


def _dflash(fields: Fields, hidden: int) -> list[Weights]:
    """A matrix fuses as many features of the target as the config names layers, one for each own layer by default.

    Embeddings and output head are the ones of the target, unless the config states a draft vocabulary.

    Source: sgl-project/SpecForge, specforge/modeling/draft/dflash.py.
    """
    named = fields.listed("target_layer_ids") or fields.listed("aux_hidden_state_layer_ids")
    features = len(named) if named else fields.number("num_hidden_layers")
    own = "draft_vocab_size" in fields.values
    head = Weights("lm_head", "head", fields.number("draft_vocab_size", "vocab_size"), hidden)
    return [
        Weights("fc", "matrix", hidden, features * _feature(fields, hidden)),
        Weights("norms", "other", 2 * hidden),
        head if own else borrowed_head(fields, hidden),
    ]


def _dspark(fields: Fields, hidden: int) -> list[Weights]:
    """A DFlash head with a low-rank bias by the token before, and a predictor of the acceptance.

    Source: sgl-project/SpecForge, specforge/modeling/draft/dspark_heads.py.
    """
    vocabulary, rank = fields.number("vocab_size"), fields.number("markov_rank", default=0, least=0)
    drafted = fields.number("draft_vocab_size", default=vocabulary)
    return [
        *_dflash(fields, hidden),
        Weights("markov_head.markov_w1", "lookup", vocabulary, rank),
        Weights("markov_head.markov_w2", "other", drafted, rank),
        Weights("confidence_head", "other", fields.flag("enable_confidence_head", False) * (hidden + rank + 1)),
    ]


def _medusa(fields: Fields, hidden: int) -> list[Weights]:
    """For each depth, residual blocks of a square matrix, and an output head of its own. There is no attention.

    Source: FasterDecoding/Medusa, medusa/model/medusa_model.py.
    """
    depths = fields.number("medusa_num_heads", "num_heads")
    rows = depths * fields.number("medusa_num_layers", "num_hidden_layers", default=1, least=0) * hidden
    return [
        Weights("medusa_head.linear", "matrix", rows, hidden),
        Weights("medusa_head.linear.bias", "other", rows),
        Weights("medusa_head.lm_head", "head", depths * fields.number("vocab_size"), hidden),
    ]


def _feature(fields: Fields, hidden: int) -> int:
    return fields.number("target_hidden_size", default=hidden)


_WEIGHTS: dict[HeadKind, Callable[[Fields, int], list[Weights]]] = {
    "eagle1": _eagle1,
    "eagle3": _eagle3,
    "p-eagle": _p_eagle,
    "dflash": _dflash,
    "dspark": _dspark,
    "medusa": _medusa,
}
