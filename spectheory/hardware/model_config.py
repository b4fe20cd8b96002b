"""`ModelConfig`: what a forward of a language model reads, computes and caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.files import from_json
from spectheory.hardware.formats import Arithmetic, config_formats, kv_bytes_of, named_formats
from spectheory.hardware.hf_config import AT_ONCE, Design, Shape, design_of, head_kind, prediction_of
from spectheory.hardware.hf_fields import Fields

MTP = "mtp"
"""The name of the draft that is the multi-token-prediction module of the target."""


@dataclass(frozen=True)
class ModelConfig:
    """The sizes of a language model.

    Attributes:
        name: the name of the model in messages and in the provenance.
        shape: the number of parameters by how a forward reads them, and the sizes of the attention.
        linear_bytes, expert_bytes, other_bytes, lookup_bytes: mean bytes per parameter of the matrices, of the routed
            experts, of everything else that a forward reads, and of the input embeddings.
        kv_bytes_per_value: bytes of a number in the KV cache.
        arithmetic: the number format of the multiplications; bf16 if packed weights are unpacked first.
        vocabulary, hidden: sizes of the vocabulary and of the hidden states; None if the config does not state them.
        target_hidden: for a draft head, the hidden size of its target; None for a whole model.
        drafts_at_once: whether one forward drafts all depths (Medusa, P-EAGLE, DFlash, DSpark, PARD). Other drafts need
            a forward for each depth.
        longest_context: the longest context in tokens; None if the config does not state it.
        tokenizer, base_model: the name of the tokenizer, and for a head the model that it was trained on; None if the
            config does not state them.
        prediction: the multi-token-prediction module in the config of the model; None if there is none.
        design: the single weights of the model; None in records.
    """

    name: str
    shape: Shape
    linear_bytes: float = 2.0
    expert_bytes: float = 2.0
    other_bytes: float = 2.0
    lookup_bytes: float = 2.0
    kv_bytes_per_value: float = 2.0
    arithmetic: Arithmetic = "bf16"
    vocabulary: int | None = None
    hidden: int | None = None
    target_hidden: int | None = None
    drafts_at_once: bool = False
    longest_context: int | None = None
    tokenizer: str | None = None
    base_model: str | None = None
    prediction: ModelConfig | None = None
    design: Design | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_hf(cls, source: str | Path | Mapping[str, Any], *, name: str | None = None) -> ModelConfig:
        """The model that a Hugging Face config.json describes.

        The default dtype is bfloat16. Numbers in the KV cache have this dtype, even if the weights are packed. Of a
        model_type that is not known here, a JSON file can state the `sizes`: `layers`, `parameters` and
        `kv_bytes_per_token` (in 16 bits); for a mixture of experts also `active_parameters`, `experts` and
        `experts_per_token`; and fields of `Shape`.

        Args:
            source: the path of the config.json, its folder, or its contents.
            name: the name of the model; the default is the path.

        Raises:
            InputError: the file does not exist or is not JSON, a field is missing or has an impossible value, or the
                model_type, the dtype or the quantisation is unknown.
        """
        if not isinstance(source, Mapping | str | Path):
            raise InputError(f"a model must be a shipped name, a path, or a config.json's contents, got {source!r:.80}")
        config, where = (source, name or "the config") if isinstance(source, Mapping) else read_config(Path(source))
        fields, own = Fields.of(config, where), name or where
        kind, module = head_kind(fields), prediction_of(fields)
        vocabulary, hidden = (fields.number(name, default=0, least=0) or None for name in ("vocab_size", "hidden_size"))

        def described(own: str, design: Design, **more: Any) -> ModelConfig:
            sizes = {"vocabulary": vocabulary, "hidden": hidden, "tokenizer": fields.values.get("tokenizer")}
            return cls(own, design.shape, **vars(config_formats(design)), **sizes, design=design, **more)

        mtp = module and described(f"{own}-{MTP}", module, target_hidden=hidden, base_model=own)
        return described(
            own,
            design_of(fields, kind),
            target_hidden=fields.number("target_hidden_size", "hidden_size") if kind else None,
            drafts_at_once=kind in AT_ONCE or "pard_token" in fields.values,
            longest_context=fields.longest_context(),
            base_model=fields.values.get("base_model"),
            prediction=mtp,
        )

    def quantised(self, quantisation: str) -> Self:
        """The model with its weights packed in another format, such as `fp8`, `nvfp4` or `q4_k_m`.

        Raises:
            InputError: there is no such quantisation.
        """
        assert self.design is not None, "a model in a record cannot be packed again"
        formats = named_formats(self.design, quantisation, self.kv_bytes_per_value)
        module = None if self.prediction is None else self.prediction.quantised(quantisation)
        return replace(self, name=f"{self.name}-{quantisation.lower()}", prediction=module, **vars(formats))

    def with_kv(self, kv_format: str) -> Self:
        """The model with a KV cache in another format, such as `fp8`.

        Raises:
            InputError: there is no such format.
        """
        module = None if self.prediction is None else self.prediction.with_kv(kv_format)
        return replace(self, kv_bytes_per_value=kv_bytes_of(kv_format), prediction=module)

    @property
    def parameters(self) -> int:
        """The number of parameters. The input embeddings that a draft head shares with the target are not counted."""
        return self._besides_experts + self.shape.moe_layers * self.shape.experts * self._expert_parameters

    @property
    def active_parameters(self) -> int:
        """The number of parameters that one token uses: all parameters, except the experts that it does not use."""
        return self._besides_experts + self.shape.moe_layers * self.shape.experts_per_token * self._expert_parameters

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights in memory."""
        shape = self.shape
        experts = shape.moe_layers * shape.experts * self.bytes_of_an_expert
        stored = shape.linear_parameters * self.linear_bytes + shape.other_parameters * self.other_bytes
        return stored + shape.lookup_parameters * self.lookup_bytes + experts

    def expected_experts(self, tokens: int | np.ndarray, independence: float = 1.0) -> np.ndarray:
        """The expected number of experts of a layer that n tokens use together.

        At an independence of 1, each token uses k of the E experts at random: E (1 - (1 - k/E)^n). Otherwise the router
        prefers some experts: the share of the tokens that use an expert has the mean k/E and a beta distribution from
        expert to expert, so the use of an expert by n tokens is beta-binomial.

        Args:
            tokens: n, a number or an array of numbers of tokens.
            independence: one less the correlation of two tokens' use of an expert, above 0 and at most 1.

        Returns:
            float64 of the shape of `tokens`.
        """
        from scipy.special import betaln

        n, share = np.asarray(tokens, np.float64), self.shape.experts_per_token / max(self.shape.experts, 1)
        if independence == 1 or not 0 < share < 1:
            return self.shape.experts * (1 - (1 - share) ** n)
        both = independence / (1 - independence)
        using, other = share * both, (1 - share) * both
        return self.shape.experts * (1 - np.exp(betaln(using, other + n) - betaln(using, other)))

    def flops_per_token(self, context: float) -> float:
        """Operations for one token after `context` cached tokens: two for each active parameter, and the attention."""
        shape = self.shape
        multiplied = self.active_parameters - shape.lookup_parameters + shape.borrowed_parameters
        attention = sum(cache.layers * cache.flops * cache.tokens(context) for cache in shape.caches)
        return 2.0 * multiplied + attention + shape.state_flops

    def kv_bytes(self, context: float) -> float:
        """Bytes of the KV cache of one sequence of `context` tokens, with the states of recurrent layers.

        A forward reads all of them. A layer with a window keeps the window only.
        """
        kept = sum(cache.layers * cache.values * cache.tokens(context) for cache in self.shape.caches)
        return kept * self.kv_bytes_per_value + self.shape.state_bytes

    @property
    def _besides_experts(self) -> int:
        return self.shape.linear_parameters + self.shape.other_parameters + self.shape.lookup_parameters

    @property
    def _expert_parameters(self) -> int:
        return self.shape.expert_linear_parameters + self.shape.expert_other_parameters

    @property
    def bytes_of_an_expert(self) -> float:
        """Bytes of the weights of one expert of a layer."""
        shape = self.shape
        return shape.expert_linear_parameters * self.expert_bytes + shape.expert_other_parameters * self.other_bytes


def read_config(path: Path) -> tuple[Mapping[str, Any], str]:
    """The contents of a config.json, given as a file or as its folder, and its path.

    Raises:
        InputError: the file does not exist or is not a config.json.
    """
    try:
        path = path / "config.json" if path.is_dir() else path
        config = from_json(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it contains no object")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: give a config.json, its folder, or a shipped name") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a config.json: {error}") from error
    return config, str(path)
