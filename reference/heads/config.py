"""`HeadConfig`: the sizes of a draft head, the options of its kind, and the target that it was made for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import torch
from transformers import LlamaConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

Kind = Literal["eagle1", "eagle3"]
"""The kinds of heads: of EAGLE-1 and EAGLE-2, which differ in their trees only, and of EAGLE-3 and EAGLE-3.1."""

SIZES = (
    *("hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("positions", "speculative_tokens", "target_hidden_size", "draft_vocab_size"),
)
LARGEST = 2**24
"""The largest size, far beyond those of any head, so that a damaged file takes neither memory nor time."""


def check_rope(rope: Any, frequencies: Callable[[], list[float]]) -> None:
    """Check the parameters of a rotary embedding by the `frequencies` that transformers computes from them.

    Raises:
        InputError: transformers cannot compute frequencies, or some are not finite numbers above 0.
    """
    try:
        found = frequencies()
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error) else type(error).__name__
        raise InputError(f"rope must be parameters of a rotary embedding, got {rope!r:.80}: {reason:.200}") from error
    if not all(0 < one < float("inf") for one in found):
        raise InputError(f"rope must give frequencies above 0, got {rope!r:.80}: mend rope_theta")


EAGLE3_OPTIONS = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
"""Options of an EAGLE-3 head."""
FLAGS = ("attention_bias", "mlp_bias", "fc_bias", "own_embedding", *EAGLE3_OPTIONS)


@dataclass(frozen=True)
class HeadConfig:
    """The sizes and options of a draft head of one Llama layer, which reads hidden states of its target.

    Attributes:
        kind: one of `Kind`.
        hidden_size: width of the head.
        intermediate_size: width of its MLP.
        vocab_size: number of tokens of the target, padding of its output layer included.
        num_attention_heads: number of query heads.
        num_key_value_heads: number of key-value heads.
        head_dim: size of an attention head.
        rms_norm_eps: constant of the norms.
        hidden_act: activation of the MLP.
        rope: parameters of the rotary embedding, as `rope_parameters` in transformers.
        positions: number of positions that the file states. The head also runs at later positions.
        attention_bias: whether the projections of the attention have biases.
        mlp_bias: whether the projections of the MLP have biases.
        fc_bias: whether `fc` has a bias.
        own_embedding: whether the head has its own token embeddings; else it reads the embeddings of its target.
        target_hidden_size: width of the target; None if it equals `hidden_size`.
        draft_vocab_size: number of tokens that an EAGLE-3 head drafts; None for all tokens of the target.
        layers: numbers of the target's layers whose inputs an EAGLE-3 head reads; None for 2, n // 2 and n - 3 of n.
        norm_before_fc: whether one norm is applied to the concatenated states before `fc`.
        fc_norm: whether each state has a norm of its own before `fc` (EAGLE-3.1).
        norm_output: whether the last norm is applied to the feature that the next step reads (EAGLE-3.1).
        norm_before_residual: whether the layer's residual is the feature after its norm.
        target: name or folder of the target, if it is known.
        target_architectures: architectures of the target, as its config.json names them, if they are known.
        speculative_tokens: number of tokens that an engine drafts by default.

    Raises:
        InputError: a size is out of range, sizes contradict each other, or an option belongs to another kind.
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
    hidden_act: str = "silu"
    rope: Mapping[str, Any] = field(default_factory=lambda: {"rope_theta": 10000.0, "rope_type": "default"}, hash=False)
    positions: int = 2048
    attention_bias: bool = False
    mlp_bias: bool = False
    fc_bias: bool = False
    own_embedding: bool = True
    target_hidden_size: int | None = None
    draft_vocab_size: int | None = None
    layers: tuple[int, ...] | None = None
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    norm_before_residual: bool = False
    target: str | None = None
    target_architectures: tuple[str, ...] = ()
    speculative_tokens: int = 3

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r:.80}")
        for name in SIZES:
            if (value := getattr(self, name)) is not None or name in SIZES[:8]:
                check_whole(name, value, 1, most=LARGEST)
        for name in FLAGS:
            if not isinstance(value := getattr(self, name), bool):
                raise InputError(f"{name} must be true or false, got {value!r:.60}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise InputError(
                f"num_attention_heads must be a multiple of num_key_value_heads, got {self.num_attention_heads} and "
                f"{self.num_key_value_heads}"
            )
        if self.head_dim % 2:
            raise InputError(f"head_dim must be even for the rotary embedding, got {self.head_dim}")
        eps, activation = self.rms_norm_eps, self.hidden_act
        if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < 1:
            raise InputError(f"rms_norm_eps must be a number between 0 and 1, such as 1e-6, got {eps!r:.60}")
        if not isinstance(activation, str) or activation not in ACT2FN:
            raise InputError(f"hidden_act must be an activation of transformers, such as silu, got {activation!r:.60}")
        if not (self.target is None or isinstance(self.target, str)):
            raise InputError(f"target must be the name or folder of a model, or None, got {self.target!r:.60}")
        check_rope(self.rope, lambda: LlamaRotaryEmbedding(self.llama()).inv_freq.tolist())
        self._check_features()

    def _check_features(self) -> None:
        for name in ("target_hidden_size", "draft_vocab_size", "layers", *EAGLE3_OPTIONS):
            if self.kind != "eagle3" and (value := getattr(self, name)):
                raise InputError(
                    f"{name} is an option of eagle3 heads, a head of kind {self.kind} has none, got {value}"
                )
        check_whole("draft_vocab_size", self.outputs, 1, most=self.vocab_size)
        if self.layers is not None:
            if not isinstance(self.layers, tuple) or not 0 < len(set(map(str, self.layers))) == len(self.layers):
                raise InputError(
                    f"layers must be different layers of the target, at least one, got {self.layers!r:.80}"
                )
            for layer in self.layers:
                check_whole("a number in layers", layer, 0, most=2**16)
        if not self.own_embedding and self.feature_size != self.hidden_size:
            raise InputError(
                f"own_embedding must be True for a head of width {self.hidden_size} and a target of width "
                f"{self.feature_size}: the head cannot read embeddings of another width"
            )
        if self.norm_before_fc and self.fc_norm:
            raise InputError("norm_before_fc and fc_norm exclude each other: set at most one of them")

    @property
    def computed(self) -> dict[str, Any]:
        """The fields that decide, together with the weights, what the head computes."""
        hints = ("positions", "target", "target_architectures", "speculative_tokens")
        return {name: value for name, value in vars(self).items() if name not in hints}

    @property
    def feature_size(self) -> int:
        """Width of the target's hidden states."""
        return self.target_hidden_size or self.hidden_size

    @property
    def outputs(self) -> int:
        """Number of tokens that the head can draft."""
        return self.draft_vocab_size or self.vocab_size

    @property
    def states(self) -> int:
        """Number of hidden states of the target that the head reads at each token."""
        return len(self.layers or (0, 0, 0)) if self.kind == "eagle3" else 1

    def llama(self, attention: str = "sdpa") -> LlamaConfig:
        """The configuration of the head's layer; `attention` is the attention implementation of transformers."""
        options: dict[str, Any] = {"attn_implementation": attention}
        return LlamaConfig(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            vocab_size=self.vocab_size,
            num_hidden_layers=1,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
            rms_norm_eps=self.rms_norm_eps,
            hidden_act=self.hidden_act,
            rope_parameters=dict(self.rope),
            max_position_embeddings=self.positions,
            attention_bias=self.attention_bias,
            mlp_bias=self.mlp_bias,
            **options,
        )

    def taps(self, layers: int) -> tuple[int, ...]:
        """Numbers of the hidden states that the head reads, of a target with `layers` layers.

        State i enters layer i. State `layers` is the last one, after the final norm; all kinds except eagle3 read it.

        Raises:
            InputError: the target has too few layers.
        """
        if self.kind != "eagle3":
            return (layers,)
        taps = self.layers or (2, layers // 2, layers - 3)
        if len(set(taps)) < len(taps) or not 0 <= min(taps) <= max(taps) < layers:
            chosen = "" if self.layers else " (2, n // 2, n - 3)"
            raise InputError(
                f"the head reads the inputs of layers {', '.join(map(str, taps))}{chosen}, which must be different "
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
        for name, ours in (("hidden_size", self.feature_size), ("vocab_size", self.vocab_size)):
            if ours != (value := getattr(theirs, name)):
                raise InputError(
                    f"the head is for another target{named}: its {name} is {ours}, this target has {value}"
                )
        if dtype != target.dtype:
            raise InputError(
                f"the head has weights in {str(dtype).removeprefix('torch.')}, the target's hidden states are in "
                f"{str(target.dtype).removeprefix('torch.')}: load both with one data type"
            )
        return self.taps(theirs.num_hidden_layers)
