"""Pairs of a target and a draft: by name, and whether the draft can draft for the target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError
from spectheory.hardware.draft_heads import draft_of_kind, kind_named, lookup_named
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model

PADDING = 0.01
"""Share by which vocabulary sizes may differ: models of one tokenizer pad output layers differently (Qwen2.5: 0.1%)."""


def require_pair(target: ModelConfig, draft: ModelConfig, context: int) -> None:
    """Check that `draft` can draft for `target` after `context` tokens. What the configs do not state is not checked.

    The longest context of a draft head is not checked either: a head works at positions beyond the ones in its config.

    Raises:
        InputError: the target is a draft head, the vocabularies or the tokenizers differ, the draft is a head for a
            target of another hidden size, or the context is longer than the longest context of a model.
    """
    if target.target_hidden is not None:
        base = f"{target.base_model}, the model" if target.base_model else "the model"
        raise InputError(f"target {target.name} is a head, not a model: name {base} that it was trained on")
    if draft.target_hidden is not None and target.hidden not in (None, draft.target_hidden):
        base = f" {draft.base_model}, of" if draft.base_model else " targets of"
        raise InputError(
            f"draft {draft.name} is a head for{base} hidden size {draft.target_hidden}, {target.name} has "
            f"{target.hidden}: name the head that was trained on {target.name}"
        )
    sizes = [one.vocabulary for one in (target, draft) if one.vocabulary is not None]
    if len(sizes) == 2 and max(sizes) > (1 + PADDING) * min(sizes):
        raise InputError(
            f"target and draft must have the same vocabulary, got {target.vocabulary:,} tokens of {target.name} and "
            f"{draft.vocabulary:,} of {draft.name}: name a draft of the same family"
        )
    if target.tokenizer and draft.tokenizer and target.tokenizer != draft.tokenizer:
        raise InputError(
            f"target and draft must have the same tokenizer, got {target.tokenizer} for {target.name} and "
            f"{draft.tokenizer} for {draft.name}: name a draft of the same family"
        )
    for one in (target,) if draft.target_hidden is not None else (target, draft):
        if one.longest_context is not None and context > one.longest_context:
            raise InputError(
                f"context must be at most the {one.longest_context:,} positions of {one.name}, got {context:,}: give "
                "a shorter context"
            )


def draft_of(target: ModelConfig, draft: str | Path | Mapping[str, Any] | ModelConfig | None) -> ModelConfig | None:
    """The draft for `target`, by the name of its kind, or as `model` finds it; None if the drafter has no model.

    Kinds are `eagle1`, `eagle2`, `eagle3`, `mtp`, `medusa`, `p-eagle`, `dflash`, `dspark` and `pard`, see
    `draft_of_kind`. Drafters without a model are `none`, `ngram` and `suffix`.

    >>> draft_of(model("qwen3-8b"), "dflash").drafts_at_once
    True
    >>> draft_of(model("qwen3-8b"), "ngram") is None
    True

    Raises:
        InputError: see `model` and `draft_of_kind`.
    """
    if draft is None or (isinstance(draft, str) and lookup_named(draft)):
        return None
    kind = kind_named(draft) if isinstance(draft, str) else None
    return model(draft) if kind is None else draft_of_kind(target, kind)


def pair_in_formats(
    target: ModelConfig,
    draft: str | Path | Mapping[str, Any] | ModelConfig | None,
    quant: str | None,
    kv_dtype: str | None,
) -> tuple[ModelConfig, ModelConfig | None]:
    """Target and draft in the formats that run: `quant` of the target's weights, `kv_dtype` of both caches.

    The draft is None if the drafter has no model.

    Raises:
        InputError: see `draft_of`, or there is no such format.
    """
    packed = target if quant is None else target.quantised(quant)
    second = draft_of(packed, draft)
    if kv_dtype is None:
        return packed, second
    return packed.with_kv(kv_dtype), None if second is None else second.with_kv(kv_dtype)


def pair(
    target: str | Path | Mapping[str, Any] | ModelConfig, draft: str | Path | Mapping[str, Any] | ModelConfig
) -> tuple[ModelConfig, ModelConfig]:
    """Target and draft, as `model` and `draft_of` find them.

    >>> pair("deepseek-v3", "mtp")[1].layers
    1

    Raises:
        InputError: see `model` and `draft_of`, or the drafter has no model.
    """
    first = model(target)
    second = draft_of(first, draft)
    if second is None:
        raise InputError(f"drafter {draft} has no model, so its forwards have no seconds: name a draft model or a head")
    return first, second
