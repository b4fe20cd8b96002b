"""The modules of draft heads, one Llama layer that reads tokens and hidden states of the target, and `HeadStep`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.masking_utils import create_causal_mask
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from reference.heads.config import HeadConfig
from reference.losses.passes import attended
from spectheory.core.errors import InputError


class Head(nn.Module, ABC):
    """A draft head. Row i reads a token and the feature of the token before it, and predicts the token after.

    The feature of a token of the text is `fuse` of the target's hidden states there. The feature of a drafted token is
    the head's own output at its row. Embeddings and an output head that belong to the target are not weights of this
    module: `attach` borrows them.

    Attributes:
        config: sizes and options.
        taps: numbers of the target's hidden states to read, see `HeadConfig.taps`; empty before `attach`.
        generation_config: none, as transformers does not generate with a head.
    """

    fc: nn.Linear
    layer: LlamaDecoderLayer
    embed_tokens: nn.Embedding | None
    generation_config: Any = None

    def __init__(self, config: HeadConfig, attention: str = "sdpa") -> None:
        super().__init__()
        self.config = config
        self.taps: tuple[int, ...] = ()
        self.llama = config.llama(attention)
        self.rotary = LlamaRotaryEmbedding(self.llama)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size) if config.own_embedding else None
        self._borrowed: dict[str, Any] = {}

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.fc.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return self.fc.weight.dtype

    def attach(self, target: PreTrainedModel) -> Self:
        """Borrow the embeddings and the output head of `target`, and learn which hidden states to read.

        Raises:
            InputError: the head is for another target; see `HeadConfig.require_target`.
        """
        self.taps = self.config.require_target(target, self.dtype)
        self._borrowed = {"embeddings": target.get_input_embeddings(), "output head": target.get_output_embeddings()}
        return self

    def embed(self, tokens: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows hidden"]:
        """Embeddings of tokens."""
        return (self.embed_tokens or self._target_part("embeddings"))(tokens)

    def _target_part(self, name: str) -> Any:
        if name not in self._borrowed:
            raise InputError(f"this head reads the {name} of its target: call head.attach(target) first")
        return self._borrowed[name]

    @abstractmethod
    def fuse(self, states: Float[Tensor, "*rows states"]) -> Float[Tensor, "*rows hidden"]:
        """Features from the target's concatenated hidden states."""

    @abstractmethod
    def mix(
        self, embedded: Float[Tensor, "B n hidden"], features: Float[Tensor, "B n hidden"], attention: dict[str, Any]
    ) -> Float[Tensor, "B n hidden"]:
        """The output of the layer for embeddings and features."""

    @abstractmethod
    def logits(self, outputs: Float[Tensor, "*rows hidden"]) -> Float[Tensor, "*rows drafted"]:
        """Logits of the tokens that the head drafts, from its outputs."""

    @property
    def token_ids(self) -> Tensor | None:
        """The token of the target for each logit, if these are not all tokens in their order."""
        return None

    def on_vocabulary(self, logits: Float[Tensor, "*rows drafted"]) -> Float32[Tensor, "*rows V"]:
        """Logits of all tokens of the target; -infinity for those that the head does not draft."""
        if self.token_ids is None:
            return logits.float()
        found = logits.new_full((*logits.shape[:-1], self.config.vocab_size), -torch.inf, dtype=torch.float32)
        found[..., self.token_ids] = logits.float()
        return found

    def forward(
        self,
        tokens: Int[Tensor, "B n"],
        features: Float[Tensor, "B n hidden"],
        *,
        position_ids: Int[Tensor, "#B n"] | None = None,
        attention_mask: Float[Tensor, "#B 1 n rows"] | None = None,
        past_key_values: Cache | None = None,
    ) -> Float[Tensor, "B n hidden"]:
        """The outputs at n tokens: features of these tokens for the rows that follow.

        Args:
            tokens: token ids.
            features: feature of the token before each of `tokens`.
            position_ids: positions of the rows; by default they follow those in the cache.
            attention_mask: numbers that are added to the attention scores; by default a row
                attends to itself and to all rows before it.
            past_key_values: cache of the earlier rows, which the new rows are added to.
        """
        embedded = self.embed(tokens)
        if position_ids is None:
            past = 0 if past_key_values is None else past_key_values.get_seq_length()
            position_ids = torch.arange(past, past + tokens.shape[1], device=tokens.device)[None]
        if attention_mask is None:
            attention_mask = create_causal_mask(  # pyrefly: ignore[bad-assignment]
                config=self.llama,
                inputs_embeds=embedded,
                attention_mask=None,
                past_key_values=past_key_values,
                position_ids=position_ids,
            )
        attention = {
            "attention_mask": attention_mask,
            "position_embeddings": self.rotary(embedded, position_ids),
            "past_key_values": past_key_values,
        }
        return self.mix(embedded, features, attention)


class Eagle1Head(Head):
    """The head of EAGLE-1 and EAGLE-2: embedding and feature are mixed by `fc`, then pass one layer.

    The feature is the target's last hidden state, after the final norm; the output head is the target's own, frozen.
    The layer has no norm at its input, as in the source.

    Source: EAGLE (Li et al., 2024), Section 3; SafeAILab/EAGLE, model/cnets1.py.
    """

    def __init__(self, config: HeadConfig, attention: str = "sdpa") -> None:
        super().__init__(config, attention)
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=config.fc_bias)
        self.layer = LlamaDecoderLayer(self.llama, 0)
        self.layer.input_layernorm = nn.Identity()  # pyrefly: ignore[bad-assignment]

    def fuse(self, states: Tensor) -> Tensor:
        """The state itself."""
        return states

    def mix(self, embedded: Tensor, features: Tensor, attention: dict[str, Any]) -> Tensor:
        return self.layer(self.fc(torch.cat([embedded, features], -1)), **attention)

    def logits(self, outputs: Tensor) -> Tensor:
        """By the target's output head, without its final norm."""
        return self._target_part("output head")(outputs)


class Eagle3Layer(LlamaDecoderLayer):
    """A Llama layer whose attention reads an embedding and a feature, each after a norm of its own."""

    def __init__(self, head: HeadConfig, attention: str) -> None:
        config = head.llama(attention)
        super().__init__(config, 0)
        self.norm_before_residual = head.norm_before_residual
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        for name in ("q_proj", "k_proj", "v_proj"):
            narrow = getattr(self.self_attn, name)
            wide = nn.Linear(2 * narrow.in_features, narrow.out_features, bias=narrow.bias is not None)
            setattr(self.self_attn, name, wide)

    def forward(self, embedded: Tensor, features: Tensor, **attention: Any) -> Tensor:  # pyrefly: ignore[bad-override]
        """The output (B, n, hidden) for embeddings and features (B, n, hidden)."""
        normed = self.hidden_norm(features)
        mixed, _ = self.self_attn(torch.cat([self.input_layernorm(embedded), normed], -1), **attention)
        states = (normed if self.norm_before_residual else features) + mixed
        return states + self.mlp(self.post_attention_layernorm(states))


class Eagle3Head(Head):
    """The head of EAGLE-3: several hidden states of the target are fused by `fc`; the output head is the head's own.

    The output head may have a draft vocabulary: logit i is for token `i + d2t[i]` of the target, and `t2d` is true at
    these tokens. They rise with i, so that the target's probabilities at `t2d` are in the order of the logits.

    Source: EAGLE-3 (Li et al., 2025), Section 3; SafeAILab/EAGLE, model/cnets.py; vllm-project/speculators,
    models/eagle3.
    """

    d2t: Tensor
    t2d: Tensor

    def __init__(self, config: HeadConfig, attention: str = "sdpa") -> None:
        super().__init__(config, attention)
        self.fc = nn.Linear(config.states * config.hidden_size, config.hidden_size, bias=False)
        self.layer = Eagle3Layer(config, attention)
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.outputs, bias=False)
        self.register_buffer("d2t", torch.zeros(config.outputs, dtype=torch.int64))
        self.register_buffer("t2d", torch.arange(config.vocab_size) < config.outputs)

    def fuse(self, states: Tensor) -> Tensor:
        return self.fc(states)

    def mix(self, embedded: Tensor, features: Tensor, attention: dict[str, Any]) -> Tensor:
        """The output before the last norm, which the next row reads."""
        return self.layer(embedded, features, **attention)

    def logits(self, outputs: Tensor) -> Tensor:
        return self.lm_head(self.norm(outputs))

    @property
    def token_ids(self) -> Tensor | None:
        if self.config.draft_vocab_size is None:
            return None
        return torch.arange(self.config.outputs, device=self.d2t.device) + self.d2t

    def check_vocabulary(self) -> None:
        """Raise InputError if `d2t` and `t2d` do not name the same tokens in the same order."""
        tokens = torch.arange(self.config.outputs, device=self.d2t.device) + self.d2t
        if not torch.equal(tokens, self.t2d.nonzero().flatten()):
            raise InputError(
                f"d2t and t2d contradict each other: the {self.config.outputs} numbers i + d2t[i] must increase with i "
                f"and be the tokens below {self.config.vocab_size} at which t2d is true: sort the tokens with their "
                "rows of lm_head"
            )

    def set_vocabulary(self, tokens: Tensor) -> Self:
        """Draft only these tokens (draft_vocab_size,) of the target, in increasing order.

        Raises:
            InputError: the tokens do not increase.
        """
        self.d2t.copy_(tokens - torch.arange(self.config.outputs, device=tokens.device))
        self.t2d.zero_()[tokens] = True
        self.check_vocabulary()
        return self


def new_head(config: HeadConfig, attention: str = "sdpa") -> Head:
    """A head with random weights and, if it has a draft vocabulary, the first tokens of its target."""
    return (Eagle3Head if config.kind == "eagle3" else Eagle1Head)(config, attention)


class HeadStep:
    """The forward of a head for one batch, a `Step` for `reference.losses.unroll`.

    Row r of the first call has the feature of position r and the token of position r + 1. In call i, row r has the
    output that call i - 1 returned for it and the token of position r + 1 + i, so it computes what the head computes at
    depth i of a draft that starts at r. Its position is r + i, and keys and values of all calls are kept. Gradients
    pass through them. Texts start at row 0 and are padded on the right, if at all: a row attends to all rows before it.
    """

    def __init__(self, head: Head) -> None:
        self.head = head
        self.cache = DynamicCache()
        self.calls = 0

    def __call__(
        self, features: Float[Tensor, "B L hidden"], tokens: Int[Tensor, "B L"]
    ) -> tuple[Float[Tensor, "B L hidden"], Float[Tensor, "B L V"]]:
        """Outputs and logits for features and tokens."""
        length = tokens.shape[1]
        mask = torch.zeros(length, (self.calls + 1) * length, dtype=features.dtype)
        mask.masked_fill_(~attended(length, self.calls), torch.finfo(features.dtype).min)
        outputs = self.head(
            tokens,
            features,
            position_ids=torch.arange(self.calls, self.calls + length, device=tokens.device)[None],
            attention_mask=mask[None, None].to(tokens.device),
            past_key_values=self.cache,
        )
        self.calls += 1
        return outputs, self.head.logits(outputs)
