"""Draft heads by name: the sizes of a head of a kind, such as `eagle3` or `dflash`, for a given target."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

from spectheory.core.errors import InputError
from spectheory.hardware.attention_weights import heads_of
from spectheory.hardware.hf_config import Fields
from spectheory.hardware.model_config import MTP, ModelConfig
from spectheory.hardware.shipped_models import model_names, shipped_model

NO_MODEL = {
    "none": "none",
    "ngram": "ngram",
    "n-gram": "ngram",
    "prompt lookup": "ngram",
    "prompt-lookup": "ngram",
    "suffix": "suffix",
}
"""Names of drafters without a model, and the names that they have here. `none` is a drafter of no kind."""
DRAFT_VOCABULARY = 32_000
"""Tokens that an EAGLE-3 head drafts."""
_LAYOUTS: dict[str, dict[str, Any]] = {
    "eagle1": {"architectures": ["EagleLlamaForCausalLM"], "num_hidden_layers": 1},
    "eagle3": {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1},
    "p-eagle": {"architectures": ["PEagleDraftModel"], "num_hidden_layers": 4},
    "dflash": {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 5},
    "dspark": {
        "architectures": ["DSparkDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": 5,
        "markov_rank": 256,
        "enable_confidence_head": True,
    },
    "medusa": {"architectures": ["MedusaModel"], "medusa_num_heads": 5, "medusa_num_layers": 1},
}
_MLP_OF_EXPERTS = {"eagle3": 6, "p-eagle": 6}
"""Width of the MLP of a head, in hidden sizes of a target with experts; 3 for the other kinds."""
_PARD = {"Llama 3": "llama-3.2-1b", "Qwen2.5": "qwen2.5-0.5b", "Qwen3": "qwen3-0.6b"}
"""The model from which AMD trained the PARD draft for targets with this tokenizer."""
_SAME_KIND = {"eagle": "eagle1", "eagle2": "eagle1", "peagle": "p-eagle", "nextn": MTP}
_KINDS = (*_LAYOUTS, *_SAME_KIND, MTP, "pard")


def lookup_named(name: str) -> str | None:
    """The drafter without a model that a word names: `ngram`, `suffix` or `none`; None if it names none of them.

    >>> lookup_named("N-gram")
    'ngram'
    """
    return NO_MODEL.get(name.lower())


def is_derived(name: str) -> bool:
    """Whether a name is one that `draft_of_kind` gives to a draft, such as `dflash-qwen3-8b`, rather than a path.

    >>> is_derived("dflash-qwen3-8b"), is_derived("amd/PARD-Qwen3-0.6B")
    (True, False)
    """
    return "/" not in name and name.lower().startswith(tuple(f"{kind}-" for kind in (*_LAYOUTS, "pard")))


def kind_named(name: str) -> str | None:
    """The kind of draft that a word names: a kind of head, `mtp` or `pard`; None if it names none.

    >>> kind_named("EAGLE2")
    'eagle1'
    """
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


def draft_of_kind(target: ModelConfig, kind: str) -> ModelConfig:
    """The draft of this kind for `target`: a shipped head if there is one, otherwise one with derived sizes.

    A derived head has the hidden size, attention heads and MLP width of its target, and weights in 16 bits.

    - `eagle1`, also EAGLE-2: one Llama layer, and the output head of the target. Exact for dense targets
      (SafeAILab/EAGLE).
    - `eagle3`: one Llama layer, and an output head of 32,000 tokens. Exact for dense targets (SpecForge, configs). For
      targets with experts the MLP is 6 hidden sizes wide, as in SpecForge's heads for Qwen3 and gpt-oss.
    - `p-eagle`: an EAGLE-3 head of four layers with embeddings of its own and an output head of the whole vocabulary,
      as in SpecForge's qwen3-8b-peagle.json. The heads of Amazon have four layers too.
    - `dflash`, `dspark`: five Qwen3 layers, and the output head of the target; `dspark` adds a bias of rank 256. As in
      SpecForge's qwen3-8b-dflash.json and qwen3-8b-dspark.json. Other published heads have up to ten layers.
    - `medusa`: five heads of one residual block and an output head each (arXiv 2401.10774). Published heads are two to
      five.
    - `pard`: the small model of the family, as in the drafts of AMD (arXiv 2504.18583).
    - `mtp`: the multi-token-prediction module in the config of the target.

    Assumed, not read from a published head: for targets with experts, the MLPs of `eagle1`, `dflash` and `dspark` are 3
    hidden sizes wide, and the one of `p-eagle` 6. For targets with latent attention, heads have at most eight key-value
    heads of size 128, as in SpecForge's head for DeepSeek-V3.

    Raises:
        InputError: the target has no draft of this kind, or its sizes are not known (GGUF files).
    """
    if kind == MTP:
        if target.prediction is None:
            raise InputError(
                f"the config of target {target.name} has no multi-token-prediction module (num_nextn_predict_layers): "
                "name a draft model or a head"
            )
        return target.prediction
    if kind == "pard":
        known = _PARD.get(target.tokenizer or "")
        if known is None:
            raise InputError(
                f"there is a PARD draft for the tokenizers {', '.join(_PARD)}, target {target.name} has "
                f"{target.tokenizer or 'an unknown one'}: name a draft model or a head"
            )
        return replace(shipped_model(known), name=f"pard-{known}", drafts_at_once=True)
    if target.design is None:
        raise InputError(
            f"the sizes of a {kind} head cannot be derived from {target.name}, a GGUF file: name a draft model"
        )
    fields = target.design.fields
    name = f"{kind}-{fields.where}"
    if name in model_names():
        return shipped_model(name)
    return ModelConfig.from_hf(_config(target, fields, kind), name=name)


def _config(target: ModelConfig, fields: Fields, kind: str) -> dict[str, Any]:
    """The config.json of a head of this kind for `target`."""
    hidden, vocabulary = fields.number("hidden_size"), fields.number("vocab_size")
    heads, kv_heads, size = _heads(fields)
    width = fields.number("intermediate_size", default=4 * hidden)
    if target.shape.moe_layers:
        width = _MLP_OF_EXPERTS.get(kind, 3) * hidden
    drafted = {"draft_vocab_size": min(DRAFT_VOCABULARY, vocabulary)} if kind == "eagle3" else {}
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": size,
        "vocab_size": vocabulary,
        "tokenizer": target.tokenizer,
        "base_model": fields.where,
        **drafted,
        **_LAYOUTS[kind],
    }


def _heads(fields: Fields) -> tuple[int, int, int]:
    """The number of query heads, the number of key-value heads and the size of a head."""
    if not fields.family.latent:
        return heads_of(fields, full=True)
    heads = max(1, fields.number("hidden_size") // 128)
    return heads, gcd(heads, 8), 128
