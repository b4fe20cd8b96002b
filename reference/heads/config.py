"""`HeadConfig`: the sizes of a draft head, and the target that it was made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import torch
from transformers import LlamaConfig, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from spectheory.core.checks import check_number, check_whole
from spectheory.core.errors import InputError

Kind = Literal["eagle1", "eagle3"]
"""The kinds of heads: of EAGLE-1 and EAGLE-2, which differ in their trees only, and of EAGLE-3."""

SIZES = "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim"
"""Sizes of a layer, as fields of config.json name them too."""
LARGEST = 2**24
"""The largest size, far beyond those of any head, so that a damaged file takes neither memory nor time."""


def normal_rope(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a rotary embedding as `rope_parameters` in transformers, from its older fields or from these.

    Raises:
        InputError: transformers cannot compute frequencies, or some are not finite numbers above 0.
    """
    try:
        config = LlamaConfig(**given)
        frequencies = LlamaRotaryEmbedding(config).inv_freq.tolist()
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error) else type(error).__name__
        raise InputError(f"rope must be parameters of a rotary embedding, got {given!r:.80}: {reason:.200}") from error
    if not all(0 < one < float("inf") for one in frequencies):
        raise InputError(f"rope must give frequencies above 0, got {given!r:.80}: mend rope_theta")
    rope = dict(config.rope_parameters or {})
    rope.pop("type", None)
    return rope


@dataclass(frozen=True)
class HeadConfig:
    """The sizes and options of a draft head of one Llama layer, as wide as its target, whose hidden states it reads.

    Attributes:
        kind: one of `Kind`.
        hidden_size: width of the head and of its target.
        intermediate_size: width of its MLP.
        vocab_size: number of tokens of the target, padding of its output layer included.
        num_attention_heads: number of query heads.
        num_key_value_heads: number of key-value heads.
        head_dim: size of an attention head.
        rms_norm_eps: constant of the norms.
        rope: parameters of the rotary embedding, as `rope_parameters` in transformers.
        positions: number of positions that the file states. The head also runs at later positions.
        fc_bias: whether `fc` of an EAGLE-1 head has a bias.
        own_embedding: whether the head has its own token embeddings; else it reads the embeddings of its target.
        draft_vocab_size: number of tokens that an EAGLE-3 head drafts; None for all tokens of the target.
        layers: numbers of the target's layers whose inputs an EAGLE-3 head reads; None for 2, n // 2 and n - 3 of n.
        norm_before_residual: whether the residual of an EAGLE-3 head's layer is the feature after its norm.
        target: name or folder of the target, if it is known.

    Raises:
        InputError: a size is out of range, sizes contradict each other, or an option belongs to the other kind.
    """

    num_hidden_layers: ClassVar[int] = 1

    kind: Kind
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-6
    rope: Mapping[str, Any] = field(default_factory=lambda: {"rope_theta": 10000.0, "rope_type": "default"}, hash=False)
    positions: int = 2048
    fc_bias: bool = False
    own_embedding: bool = True
    draft_vocab_size: int | None = None
    layers: tuple[int, ...] | None = None
    norm_before_residual: bool = False
    target: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r:.80}")
        for name in (*SIZES, "positions"):
            check_whole(name, getattr(self, name), 1, most=LARGEST)
        if self.num_attention_heads % self.num_key_value_heads or self.head_dim % 2:
            raise InputError(
                "num_attention_heads must be a multiple of num_key_value_heads and head_dim must be even, got "
                f"{self.num_attention_heads}, {self.num_key_value_heads} and {self.head_dim}"
            )
        for name in ("fc_bias", "own_embedding", "norm_before_residual"):
            if not isinstance(value := getattr(self, name), bool):
                raise InputError(f"{name} must be true or false, got {value!r:.60}")
        check_number("rms_norm_eps", self.rms_norm_eps, 1e-12, 1)
        if not (self.target is None or isinstance(self.target, str)):
            raise InputError(f"target must be the name or folder of a model, or None, got {self.target!r:.60}")
        normal_rope({"rope_parameters": self.rope})
        wrong = ("fc_bias",) if self.kind == "eagle3" else ("draft_vocab_size", "layers", "norm_before_residual")
        for name in wrong:
            if value := getattr(self, name):
                raise InputError(f"{name} is an option of the other kind, a head of kind {self.kind} has none: {value}")
        check_whole("draft_vocab_size", self.outputs, 1, most=self.vocab_size)
        if self.layers is not None:
            if not isinstance(self.layers, tuple) or not 0 < len(set(map(str, self.layers))) == len(self.layers):
                raise InputError(
                    f"layers must be different layers of the target, at least one, got {self.layers!r:.80}"
                )
            for layer in self.layers:
                check_whole("a number in layers", layer, 0, most=2**16)

    @property
    def computed(self) -> dict[str, Any]:
        """The fields that decide, together with the weights, what the head computes."""
        return {name: value for name, value in vars(self).items() if name not in ("positions", "target")}

    @property
    def outputs(self) -> int:
        """Number of tokens that the head can draft."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size

    @property
    def states(self) -> int:
        """Number of hidden states of the target that the head reads at each token."""
        return len(self.layers or (0, 0, 0)) if self.kind == "eagle3" else 1

    def llama(self, attention: str = "sdpa") -> LlamaConfig:
        """The configuration of the head's layer; `attention` is the attention implementation of transformers."""
        options = {name: getattr(self, name) for name in SIZES} | {"attn_implementation": attention}
        return LlamaConfig(
            num_hidden_layers=1,
            rms_norm_eps=self.rms_norm_eps,
            rope_parameters=dict(self.rope),
            max_position_embeddings=self.positions,
            **options,
        )

    def taps(self, layers: int) -> tuple[int, ...]:
        """Numbers of the hidden states that the head reads, of a target with `layers` layers.

        State i enters layer i. State `layers` is the last one, after the final norm, which EAGLE-1 heads read.

        Raises:
            InputError: they are not different layers of the target.
        """
        if self.kind == "eagle1":
            return (layers,)
        taps = self.layers or (2, layers // 2, layers - 3)
        if len(set(taps)) < len(taps) or not 0 <= min(taps) <= max(taps) < layers:
            default = "" if self.layers else " (2, n // 2, n - 3)"
            raise InputError(
                f"the head reads the inputs of layers {', '.join(map(str, taps))}{default}, which must be different "
                f"layers of the target, and the target has {layers} layers: use the target of the head, or set layers"
            )
        return taps

    def require_target(self, target: PreTrainedModel, dtype: torch.dtype) -> tuple[int, ...]:
        """Check that the head, whose weights have type `dtype`, belongs to `target`; return `taps` for this target.

        Raises:
            InputError: hidden sizes, vocabularies, numbers of layers or data types do not match.
        """
        theirs: Any = target.config
        named = f" ({self.target})" if self.target else ""
        for name in ("hidden_size", "vocab_size"):
            if (ours := getattr(self, name)) != (value := getattr(theirs, name)):
                raise InputError(
                    f"the head is for another target{named}: its {name} is {ours}, this target has {value}"
                )
        if dtype != target.dtype:
            raise InputError(
                f"the head has weights in {str(dtype).removeprefix('torch.')}, the target's hidden states are in "
                f"{str(target.dtype).removeprefix('torch.')}: load both with one data type"
            )
        return self.taps(theirs.num_hidden_layers)
