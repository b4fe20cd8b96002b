"""`Fields`: the fields of a config.json. A field that nobody reads is an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import LlamaConfig

from reference.heads.config import check_rope
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

WITHOUT_EFFECT = (
    "_name_or_path",
    "attention_dropout",
    "auto_map",
    "base_model_ep_plan",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "has_no_defaults_at_init",
    "initializer_range",
    "max_window_layers",
    "pad_token_id",
    "torch_dtype",
    "transformers_version",
    "use_cache",
)
"""Fields that do not change what a head computes."""
ONLY: dict[str, tuple[Any, ...]] = {
    "model_type": ("llama",),
    "num_hidden_layers": (1,),
    "pretraining_tp": (1, None),
    "tie_word_embeddings": (False,),
    "sliding_window": (None,),
    "use_sliding_window": (False,),
    "layer_types": (None, ["full_attention"]),
}
"""Fields of the layer, with the values that these heads can have."""
ROPE = {
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "long_factor",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "rope_theta",
    "rope_type",
    "short_factor",
    "truncate",
    "type",
}
"""Parameters of the rotary embeddings of a Llama layer."""


class Fields:
    """The fields of a JSON object. Each field is taken once; a field that nobody takes is an error.

    Args:
        values: the object.
        where: the name of the object in messages.
    """

    def __init__(self, values: Any, where: str | Path) -> None:
        if not isinstance(values, Mapping):
            raise InputError(f"{where} must be a JSON object, got {values!r:.60}")
        self.left = dict(values)
        self.where = where

    def take(self, name: str, default: Any = None) -> Any:
        """The value of a field, or `default`."""
        return self.left.pop(name, default)

    def need(self, name: str, why: str = "") -> Any:
        """The value of a field that must be there; `why` is added to the message."""
        if name not in self.left:
            raise InputError(f"{self.where} lacks the field {name}{why}")
        return self.left.pop(name)

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1; it must be there if there is no `default`."""
        value = self.need(name) if default is None else self.take(name, default)
        check_whole(f"{name} in {self.where}", value, 1)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean field."""
        return self._boolean(name, self.take(name, default))

    def flags(self, *names: str) -> dict[str, Any]:
        """Boolean fields by name; an absent one is false."""
        return {name: self.flag(name) for name in names}

    def stated_flag(self, name: str, why: str) -> bool:
        """A boolean field that must be there; `why` is added to the message."""
        return self._boolean(name, self.need(name, why))

    def _boolean(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(f"{name} in {self.where} must be true or false, got {value!r:.60}")
        return value

    def layer_numbers(self, name: str) -> tuple[int, ...] | None:
        """Numbers of layers; None if the field is absent, null or empty."""
        value = self.take(name)
        if value is not None and not isinstance(value, list):
            raise InputError(f"{name} in {self.where} must be a list of numbers of layers, got {value!r:.60}")
        for number in value or ():
            check_whole(f"a number in {name} in {self.where}", number, 0)
        return tuple(value) if value else None

    def names(self, name: str) -> tuple[str, ...]:
        """A list of texts that must be there."""
        value = self.need(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise InputError(f"{name} in {self.where} must be a list of names, got {value!r:.60}")
        return tuple(value)

    def object(self, name: str) -> Fields:
        """The fields of the JSON object in field `name`, which must be there."""
        return Fields(self.need(name), f"{name} in {self.where}")

    def layer(self) -> dict[str, Any]:
        """The sizes of a Llama layer, as arguments of HeadConfig."""
        for name, values in ONLY.items():
            if name in self.left and self.take(name) not in values:
                raise InputError(
                    f"{name} in {self.where} must be {values[0]} for these heads: another head needs another module"
                )
        hidden, heads = self.whole("hidden_size"), self.whole("num_attention_heads")
        return {
            "hidden_size": hidden,
            "intermediate_size": self.whole("intermediate_size"),
            "vocab_size": self.whole("vocab_size"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.whole("num_key_value_heads", heads),
            "head_dim": self.whole("head_dim", max(1, hidden // heads)),
            "rms_norm_eps": self.take("rms_norm_eps", 1e-6),
            "hidden_act": self.take("hidden_act", "silu"),
            "rope": self._rope(),
            "positions": self.whole("max_position_embeddings", 2048),
            "attention_bias": self.flag("attention_bias"),
            "mlp_bias": self.flag("mlp_bias"),
        }

    def _rope(self) -> dict[str, Any]:
        """The parameters of the rotary embedding: transformers brings the older fields into its present form."""
        given = {name: self.take(name) for name in ("rope_theta", "rope_scaling", "rope_parameters")}
        given = {name: value for name, value in given.items() if value is not None}
        rope: dict[str, Any] = {}
        check_rope(given, lambda: rope.update(LlamaConfig(**given).rope_parameters or {}) or [])
        if unknown := sorted(rope.keys() - ROPE):
            raise InputError(f"{self.where} has unknown parameters of the rotary embedding: {', '.join(unknown)}")
        rope.pop("type", None)
        return rope

    def finish(self) -> None:
        """Raise InputError if fields are left that no layout knows."""
        for name in WITHOUT_EFFECT:
            self.take(name)
        if self.left:
            raise InputError(
                f"{self.where} has fields that are unknown for this layout: {', '.join(sorted(self.left))}; remove "
                "those that do not change what the head computes"
            )


def layer_fields(layer: Any) -> dict[str, Any]:
    """The fields of config.json for the layer of a HeadConfig, as every engine reads them."""
    scaling = {name: value for name, value in layer.rope.items() if name != "rope_theta"}
    return {
        "attention_bias": layer.attention_bias,
        "head_dim": layer.head_dim,
        "hidden_act": layer.hidden_act,
        "hidden_size": layer.hidden_size,
        "intermediate_size": layer.intermediate_size,
        "max_position_embeddings": layer.positions,
        "mlp_bias": layer.mlp_bias,
        "model_type": "llama",
        "num_attention_heads": layer.num_attention_heads,
        "num_hidden_layers": 1,
        "num_key_value_heads": layer.num_key_value_heads,
        "rms_norm_eps": layer.rms_norm_eps,
        "rope_scaling": None if scaling == {"rope_type": "default"} else scaling,
        "rope_theta": layer.rope["rope_theta"],
        "tie_word_embeddings": False,
        "vocab_size": layer.vocab_size,
    }
