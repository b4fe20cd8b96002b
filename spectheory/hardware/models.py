"""Models by name: shipped ones, config.json files, draft heads of a kind, and pairs of target and draft."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import gcd
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError, unknown
from spectheory.core.files import is_there, shipped
from spectheory.hardware.formats import QUANTISATIONS
from spectheory.hardware.hf_fields import Fields
from spectheory.hardware.model_config import MTP, ModelConfig

Named = str | Path | Mapping[str, Any] | ModelConfig
"""A model: a shipped name, a path or the contents of a config.json, or a `ModelConfig`."""
NO_MODEL = {"none": "none", "suffix": "suffix"}
NO_MODEL |= dict.fromkeys(("ngram", "n-gram", "prompt lookup", "prompt-lookup"), "ngram")
"""Names of drafters without a model, and the names that they have here. `none` is a drafter of no kind."""
PADDING = 0.01
"""Share by which vocabulary sizes may differ: models of one tokenizer pad output layers differently (Qwen2.5: 0.1%)."""
DRAFT_VOCABULARY = 32_000
"""Tokens that an EAGLE-3 head drafts."""
_LAYOUTS: dict[str, dict[str, Any]] = {
    "eagle1": {"architectures": ["EagleLlamaForCausalLM"], "num_hidden_layers": 1},
    "eagle3": {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1},
    "p-eagle": {"architectures": ["PEagleDraftModel"], "num_hidden_layers": 4},
    "dflash": {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 5},
    "dspark": {"architectures": ["DSparkDraftModel"], "model_type": "qwen3", "num_hidden_layers": 5},
    "medusa": {"architectures": ["MedusaModel"], "medusa_num_heads": 5, "medusa_num_layers": 1},
}
_MLP_OF_EXPERTS = {"eagle3": 6, "p-eagle": 6}
"""Width of the MLP of a head, in hidden sizes of a target with experts; 3 for the other kinds."""
_SAME_KIND = {"eagle": "eagle1", "eagle2": "eagle1", "peagle": "p-eagle", "nextn": MTP}
_KINDS = (*_LAYOUTS, *_SAME_KIND, MTP)


def model(source: Named) -> ModelConfig:
    """A model from its shipped name or its repository, or from a config.json (path, folder, contents).

    A repository may be of a model that was tuned or quantised, such as `RedHatAI/Qwen3-32B-FP8-dynamic`.

    A draft head that is not shipped is named by its kind and its target, as in `dflash-qwen3-8b`; see `draft_of_kind`.
    After a name or path, a quantisation can follow, as in `llama-3.1-8b-nvfp4` or `llama-3.1-8b q4_0`. A GGUF file is
    not read: its name, such as `Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf`, says the model and the quantisation.

    >>> model("llama-3.1-8b").parameters
    8030261248
    >>> round(model("llama-3.1-8b-q4_k_m").weight_bytes / 2**30, 2)
    4.58

    Raises:
        InputError: there is no shipped model of this name (the message lists similar names), or the config.json cannot
            be used, see `ModelConfig.from_hf`.
    """
    if isinstance(source, ModelConfig):
        return source
    if isinstance(source, str | Path) and str(source).lower().endswith(".gguf"):
        stem = re.sub("(?<=-)mxfp4$", "mxfp4_moe", Path(source).stem.lower())  # the other matrices are in Q8_0
        return replace(model(stem), name=str(source))
    if not isinstance(source, str):
        return ModelConfig.from_hf(source)
    if known := _known(source) or _packed(source):
        return known
    if source.endswith(".json") or source.count("/") > 1 or "\\" in source or is_there(source):
        return ModelConfig.from_hf(source)
    name = _untuned(source)
    if known := _known(name) or _packed(name):
        return known
    if base := max((known for known in model_names() if name.startswith(f"{known}-")), key=len, default=""):
        raise InputError(f"{source}: {unknown('quantisation', name.removeprefix(f'{base}-'), QUANTISATIONS)}")
    raise InputError(f"{unknown('model', name, model_names())}; the path of a config.json works too")


def _untuned(source: str) -> str:
    """A name of the Hugging Face Hub without its owner and the parts that do not change the sizes of a model."""
    name = source.rpartition("/")[2].lower().removeprefix("meta-").replace("speculator.", "").replace("quantized.", "")
    return re.sub(r"[-_](instruct|thinking|coder|it|chat|hf|dynamic|\d{4})(?=[-_]|$)", "", name)


def _known(name: str) -> ModelConfig | None:
    """The shipped model, or the draft for a shipped target; None if there is none."""
    if shipped := shipped_name(name):
        return shipped_model(shipped)
    head = kind_and_target(name)
    target = shipped_name(head[1]) if head else None
    return draft_of_kind(shipped_model(target), head[0]) if head and target else None


def _packed(name: str) -> ModelConfig | None:
    """The model whose name or path and quantisation are in `name`; None if it does not consist of these."""
    for quantisation in () if is_there(name) else QUANTISATIONS:
        base = name[: -len(quantisation) - 1]
        if base and name.lower().endswith((f"-{quantisation}", f" {quantisation}")):
            known = ModelConfig.from_hf(base) if is_there(base) else _known(base)
            if known is not None:
                return known.quantised(quantisation)
    return None


def known_model(source: str | None) -> ModelConfig | None:
    """The model of this name or path, as `model` finds it; None if there is no such model."""
    try:
        return None if source is None else model(source)
    except InputError:
        return None


@cache
def model_names() -> tuple[str, ...]:
    """The names of all shipped models."""
    entries = (files("spectheory") / "data" / "models").iterdir()
    return tuple(sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")))


def shipped_name(source: str) -> str | None:
    """The name of the shipped model that `source` names, in any case or by its repository; None if there is none.

    If `source` is an existing path, it is not taken as a repository.
    """
    names = model_names()
    if source.lower() in names:
        return source.lower()
    if source.count("/") != 1 or is_there(source):
        return None
    return next((name for name in names if (repository(name) or "").lower() == source.lower()), None)


def repository(name: str) -> str | None:
    """The Hugging Face repository `owner/name` of a shipped model; None if there is no such model or repository."""
    if name.lower() not in model_names():
        return None
    host, source = "huggingface.co/", _shipped(name.lower())["source"]
    return source.removeprefix(host).split()[0].rstrip(",:") if source.startswith(host) else None


@cache
def shipped_model(name: str) -> ModelConfig:
    """The shipped model of this name, one of `model_names()`."""
    return ModelConfig.from_hf(_shipped(name), name=name)


@cache
def _shipped(name: str) -> dict[str, Any]:
    return json.loads(shipped(f"models/{name}.json"))


def lookup_named(name: str) -> str | None:
    """The drafter without a model that a word names: `ngram`, `suffix` or `none`; None if it names none of them."""
    return NO_MODEL.get(name.lower())


def kind_named(name: str) -> str | None:
    """The kind of draft that a word names: a kind of head, or `mtp`; None if it names none."""
    word = name.lower()
    return _SAME_KIND.get(word, word) if word in _KINDS else None


def kind_and_target(name: str) -> tuple[str, str] | None:
    """The kind and the target in a name such as `dflash-qwen3-8b` or `deepseek-v3-mtp`; None if it names no kind.

    >>> kind_and_target("eagle2-vicuna-7b")
    ('eagle1', 'vicuna-7b')
    """
    for word in sorted(_KINDS, key=len, reverse=True):
        for rest in (name.lower().removeprefix(f"{word}-"), name.lower().removesuffix(f"-{word}")):
            if rest != name.lower():
                return _SAME_KIND.get(word, word), rest
    return None


def is_derived(name: str) -> bool:
    """Whether a name is one that `draft_of_kind` gives to a draft, such as `dflash-qwen3-8b`, rather than a path."""
    return "/" not in name and name.lower().startswith(tuple(f"{kind}-" for kind in _LAYOUTS))


def draft_of(target: ModelConfig, draft: Named | None) -> ModelConfig | None:
    """The draft for `target`, by the name of its kind, or as `model` finds it; None if the drafter has no model.

    Kinds are `eagle1`, `eagle2`, `eagle3`, `mtp`, `medusa`, `p-eagle`, `dflash` and `dspark`, see `draft_of_kind`.
    Drafters without a model are `none`, `ngram` and `suffix`.

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
    found = model(draft) if kind is None else draft_of_kind(target, kind)
    tuned = isinstance(draft, str) and draft.count("/") == 1 and not is_there(draft) and not shipped_name(draft)
    return replace(found, name=draft) if tuned else found  # so that engines load it


def draft_of_kind(target: ModelConfig, kind: str) -> ModelConfig:
    """The draft of this kind for `target`: a shipped head if there is one, otherwise one with derived sizes.

    A derived head has the hidden size, attention heads and MLP width of its target, and weights in 16 bits.

    - `eagle1`, also EAGLE-2: one Llama layer, and the output head of the target. Exact for dense targets
      (SafeAILab/EAGLE).
    - `eagle3`: one Llama layer, and an output head of 32,000 tokens. Exact for dense targets (SpecForge, configs). For
      targets with experts the MLP is 6 hidden sizes wide, as in SpecForge's heads for Qwen3 and gpt-oss.
    - `p-eagle`: an EAGLE-3 head of four layers and an output head of the whole vocabulary, as in SpecForge's
      qwen3-8b-peagle.json. The heads of Amazon have four layers too.
    - `dflash`, `dspark`: five Qwen3 layers, and the output head of the target, as in SpecForge's qwen3-8b-dflash.json.
      The bias of rank 256 of `dspark` is left out. Other published heads have up to ten layers.
    - `medusa`: five heads of one residual block and an output head each (arXiv 2401.10774). Published heads are two to
      five.
    - `mtp`: the multi-token-prediction module in the config of the target.

    Assumed, not read from a published head: for targets with experts, the MLPs of `eagle1`, `dflash` and `dspark` are 3
    hidden sizes wide, and the one of `p-eagle` 6. For targets with latent attention, heads have at most eight key-value
    heads of size 128, as in SpecForge's head for DeepSeek-V3.

    Raises:
        InputError: the target has no draft of this kind.
    """
    if kind == MTP:
        if target.prediction is None:
            raise InputError(
                f"the config of target {target.name} has no multi-token-prediction module (num_nextn_predict_layers): "
                "name a draft model or a head"
            )
        return target.prediction
    assert target.design is not None, "a model in a record has no head"
    name = f"{kind}-{target.design.fields.where}"
    if name in model_names():
        return shipped_model(name)
    return ModelConfig.from_hf(_head_config(target, target.design.fields, kind), name=name)


def _head_config(target: ModelConfig, fields: Fields, kind: str) -> dict[str, Any]:
    hidden, vocabulary = fields.number("hidden_size"), fields.number("vocab_size")
    heads, kv_heads, size = (max(1, hidden // 128), 8, 128) if target.shape.latent else fields.heads()
    width = fields.number("intermediate_size", default=4 * hidden)
    if target.shape.moe_layers:
        width = _MLP_OF_EXPERTS.get(kind, 3) * hidden
    drafted = {"draft_vocab_size": min(DRAFT_VOCABULARY, vocabulary)} if kind == "eagle3" else {}
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": gcd(heads, kv_heads),
        "head_dim": size,
        "vocab_size": vocabulary,
        "tokenizer": target.tokenizer,
        "base_model": fields.where,
        **drafted,
        **_LAYOUTS[kind],
    }


def require_pair(target: ModelConfig, draft: ModelConfig | None, context: int) -> None:
    """Check that `draft` can draft for `target` after `context` tokens. What the configs do not state is not checked.

    The longest context of a draft head is not checked either: a head works at positions beyond the ones in its config.

    Raises:
        InputError: the target is a draft head, the vocabularies or the tokenizers differ, the draft is a head for a
            target of another hidden size, or the context is longer than the longest context of a model.
    """
    if target.target_hidden is not None:
        raise InputError(
            f"target {target.name} is a head, not a model: name {target.base_model or 'the model'}, on which it was "
            "trained"
        )
    draft = draft or target
    if draft.target_hidden is not None and target.hidden not in (None, draft.target_hidden):
        raise InputError(
            f"draft {draft.name} is a head for {draft.base_model or 'targets'} of hidden size {draft.target_hidden}, "
            f"{target.name} has {target.hidden}: name the head that was trained on {target.name}"
        )
    sizes = [one.vocabulary for one in (target, draft) if one.vocabulary is not None]
    tokenizers = {one.tokenizer for one in (target, draft) if one.tokenizer}
    if (len(sizes) == 2 and max(sizes) > (1 + PADDING) * min(sizes)) or len(tokenizers) == 2:
        one, other = (f"{m.vocabulary} tokens of {m.tokenizer or 'an unknown tokenizer'}" for m in (target, draft))
        raise InputError(
            f"target and draft must have the same vocabulary, got {one} for {target.name} and {other} for "
            f"{draft.name}: name a draft of the same family"
        )
    for one in (target,) if draft.target_hidden is not None else (target, draft):
        if one.longest_context is not None and context > one.longest_context:
            raise InputError(
                f"context must be at most the {one.longest_context:,} positions of {one.name}, got {context:,}: give "
                "a shorter context"
            )


def pair_of(
    target: Named, draft: Named | None, context: int, kv_dtype: str | None = None
) -> tuple[ModelConfig, ModelConfig | None]:
    """Target and draft, with the format `kv_dtype` of both caches.

    The draft is None if the drafter has no model.

    Raises:
        InputError: see `model`, `draft_of` and `require_pair`, or there is no such format.
    """
    first = model(target)
    second = draft_of(first, draft)
    require_pair(first, second, context)
    if kv_dtype is None:
        return first, second
    return first.with_kv(kv_dtype), None if second is None else second.with_kv(kv_dtype)
