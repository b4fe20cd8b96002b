"""Reader of the fields of a Hugging Face config.json: sizes, windows, longest context, weight formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown


@dataclass(frozen=True)
class Family:
    """Properties of a model_type that its config.json does not contain.

    Attributes:
        qkv_bias: whether the query, key and value projections have biases. True: yes, unless the config says no. None:
            as the field `attention_bias` says. False: no.
        out_bias: whether the output projection of the attention has biases. None: as `attention_bias` says.
        mlp_bias: whether the MLPs have biases.
        gated: whether the MLPs have a gate.
        norms: number of norms in a layer.
        norm_bias: whether the norms have biases.
        qk_norm: whether queries and keys are normalised.
        tied: the default of `tie_word_embeddings`.
        head_bias: whether the output head has biases.
        stated: fields that every config of the family must contain.
        full_every: every n-th layer attends to all tokens, the other layers to a window. 0: all layers attend to a
            window, if the config has one.
    """

    qkv_bias: bool | None = None
    out_bias: bool | None = None
    mlp_bias: bool = False
    gated: bool = True
    norms: int = 2
    norm_bias: bool = False
    qk_norm: bool = False
    tied: bool = False
    head_bias: bool = False
    stated: tuple[str, ...] = ("num_key_value_heads",)
    full_every: int = 1


_STATED = ("num_key_value_heads", "head_dim")
_QWEN2 = Family(qkv_bias=True, out_bias=False)
_QWEN3 = Family(qk_norm=True, stated=_STATED)
_DEEPSEEK = Family(stated=("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
FAMILIES = {
    "llama": Family(stated=()),
    "mistral": Family(full_every=0),
    "mixtral": Family(full_every=0),
    "qwen2": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "gemma": Family(tied=True, stated=_STATED),
    "gemma2": Family(norms=4, tied=True, stated=_STATED, full_every=2),
    "gemma3_text": Family(norms=4, qk_norm=True, tied=True, stated=_STATED, full_every=6),
    "phi": Family(True, True, mlp_bias=True, gated=False, norms=1, norm_bias=True, head_bias=True, stated=()),
    "phi3": Family(False, False, stated=(), full_every=0),
    "gpt2": Family(True, True, mlp_bias=True, gated=False, norm_bias=True, tied=True, stated=()),
    "gpt_oss": Family(mlp_bias=True, stated=_STATED, full_every=2),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
}
DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}
LARGEST = 10**9
"""The largest number that is accepted in a config; it is above every number in a real config."""

Arithmetic = Literal["fp8", "bf16", "fp32"]
_GPT2_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
}


@dataclass(frozen=True)
class Fields:
    """The fields of one config.json, with methods that read and check them. Errors name the field and the file.

    Attributes:
        values: the fields by name.
        where: the name of the file, for errors.
        model_type: the model_type, one of `FAMILIES`.
    """

    values: Mapping[str, Any]
    where: str
    model_type: str

    @classmethod
    def of(cls, config: Mapping[str, Any], where: str) -> Fields:
        """The fields of the language model. In a multimodal config these are the fields of `text_config`.

        Raises:
            InputError: the model_type is missing or not one of `FAMILIES`.
        """
        if isinstance(config.get("text_config"), Mapping):
            config = {**config, **config["text_config"]}
        kind = config.get("model_type")
        if kind is None:
            raise InputError(f"{where} lacks the field 'model_type', which must be one of {', '.join(FAMILIES)}")
        kind = "gemma3_text" if kind == "gemma3" else kind
        if not isinstance(kind, str) or kind not in FAMILIES:
            raise InputError(f"{where}: {unknown('model_type', str(kind), FAMILIES)}")
        return cls({_GPT2_NAMES.get(key, key): value for key, value in config.items()}, where, kind)

    @property
    def family(self) -> Family:
        """The family of the model_type."""
        return FAMILIES[self.model_type]

    def number(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The value of the first of `names` that the config contains, else `default`.

        Raises:
            InputError: the value is not a whole number of at least `least`, or there is neither a value nor a default.
        """
        for name in names:
            value = self.values.get(name)
            if value is not None:
                check_whole(f"{self.where}: {name}", value, least, most=LARGEST)
                return value
        if default is None:
            raise InputError(
                f"{self.where} lacks the field {' or '.join(map(repr, names))}, which a config of model_type "
                f"{self.model_type!r} must have"
            )
        return default

    def flag(self, name: str, default: bool) -> bool:
        """The value of a field that is true or false, else `default`.

        Raises:
            InputError: the value is not true or false.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{self.where}: {name} must be true or false, got {value!r:.40}")
        return default if value is None else value

    def text(self, name: str) -> str | None:
        """The value of a field if it is a text, else None."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def stated(self, name: str, default: int) -> int:
        """The value of a number. If the config lacks it, `default`, unless every config of the family must contain it.

        Raises:
            InputError: the value is not a whole number of at least 1, or the config must contain it and does not.
        """
        return self.number(name, default=None if name in self.family.stated else default)

    def sliding_layers(self, layers: int) -> int:
        """The number of layers that attend to a window only, out of `layers`."""
        types = self.values.get("layer_types")
        if isinstance(types, list):
            if len(types) != layers:
                raise InputError(
                    f"{self.where}: layer_types must have one entry for each of the num_hidden_layers={layers} layers, "
                    f"got {len(types)} entries"
                )
            return types.count("sliding_attention")
        if self.values.get("sliding_window") is None:
            return 0
        if self.model_type.startswith("qwen"):
            windowed = self.flag("use_sliding_window", False)
            return max(0, layers - self.number("max_window_layers", default=28, least=0)) if windowed else 0
        every = self.number("sliding_window_pattern", default=self.family.full_every, least=0)
        return layers - layers // every if every else layers

    def longest_context(self) -> int | None:
        """The longest context in tokens, with the rope scaling of the config; None if the config states no length.

        For the rope types `llama3` and `longrope`, and in Gemma 3, `max_position_embeddings` already includes the
        scaling. `yarn` scales `original_max_position_embeddings`. Other types scale `max_position_embeddings`.

        Source: vLLM, `_get_and_verify_max_len`.
        """
        if self.values.get("max_position_embeddings") is None:
            return None
        stated = self.number("max_position_embeddings")
        scaling = self.values.get("rope_scaling") or self.values.get("rope_parameters") or {}
        if not isinstance(scaling, Mapping):
            raise InputError(f"{self.where}: rope_scaling must be an object, got {scaling!r:.40}")
        factor, kind = scaling.get("factor"), scaling.get("rope_type") or scaling.get("type")
        if factor is None or kind in ("llama3", "longrope", "su") or self.model_type.startswith("gemma3"):
            return stated
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= LARGEST:
            raise InputError(f"{self.where}: the factor of rope_scaling must be a number above 0, got {factor!r:.40}")
        original = scaling.get("original_max_position_embeddings") if kind == "yarn" else None
        return int((original if isinstance(original, int) else stated) * factor)

    def moe_layers(self, layers: int) -> int:
        """The number of layers whose MLP is a mixture of experts, out of `layers`."""
        step = self.number("decoder_sparse_step", "moe_layer_freq", default=1)
        if self.model_type.startswith("deepseek"):
            return sum(i % step == 0 for i in range(self.number("first_k_dense_replace", default=0, least=0), layers))
        dense = self.values.get("mlp_only_layers") or []
        if not isinstance(dense, list):
            raise InputError(f"{self.where}: mlp_only_layers must be a list, got {dense!r:.40}")
        return sum((i + 1) % step == 0 and i not in dense for i in range(layers))


def weight_formats(fields: Fields) -> tuple[float, float, float, Arithmetic]:
    """How the weights are stored and multiplied.

    Returns:
        Bytes per parameter of the matrices, of the experts, and of everything else, and the arithmetic of the
        multiplications.

    Raises:
        InputError: the dtype or the quantisation is unknown.
    """
    where, quantization = fields.where, fields.values.get("quantization_config")
    dtype = str(fields.values.get("dtype") or fields.values.get("torch_dtype") or "bfloat16").removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise InputError(f"{where}: {unknown('dtype', dtype, DTYPE_BYTES)}")
    size = DTYPE_BYTES[dtype]
    if quantization is None:
        return size, size, size, "fp32" if size == 4 else "bf16"
    if not isinstance(quantization, Mapping):
        raise InputError(f"{where}: quantization_config must be an object, got {quantization!r:.40}")
    method = quantization.get("quant_method")
    if method == "mxfp4":  # 4 bits, and 8 bits for the scale of each 32 parameters; only experts are packed
        return size, 4.25 / 8, size, "bf16"
    if method == "fp8":  # one float32 scale for each block, by default 128 by 128
        block = quantization.get("weight_block_size") or [128, 128]
        if not (isinstance(block, list) and len(block) == 2 and all(isinstance(n, int) and n > 0 for n in block)):
            raise InputError(f"{where}: weight_block_size must be two whole numbers, got {block!r:.40}")
        packed = 1 + 4 / (block[0] * block[1])
        return packed, packed, size, "fp8"
    if method in ("awq", "gptq"):  # a 16-bit scale and a zero point for each group
        bits, group = quantization.get("bits"), quantization.get("group_size")
        if bits not in (2, 3, 4, 8) or not isinstance(group, int):
            raise InputError(
                f"{where}: quantization_config of {method} must have bits of 2, 3, 4 or 8 and a whole number as "
                f"group_size, got bits={bits!r:.40} and group_size={group!r:.40}"
            )
        packed = (bits + (16 + bits) / group if group > 0 else bits) / 8
        return packed, packed, size, "bf16"
    raise InputError(f"{where}: quant_method must be one of fp8, mxfp4, awq, gptq, got {method!r:.40}")
