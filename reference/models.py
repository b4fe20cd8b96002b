"""`Pair`: a target and a draft, stock Hugging Face causal models with one vocabulary, or a target alone."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from reference.heads import Head, holds_head, read_head
from reference.model_folders import ModelFiles, PairError, open_model
from spectheory.core.errors import InputError

SHIPPED = Path(__file__).parent / "pair"
"""The folder of the models that come with the package."""
TARGET, HEAD = SHIPPED / "target", SHIPPED / "head"
"""The shipped pair: a target, and a draft head that is trained for it."""
DRAFT = SHIPPED / "draft"
"""An independent draft model for the shipped target. It is in a checkout, not in the installed package."""
NO_DRAFT = "no draft"
"""Name of the draft of a target alone."""
Attention = Literal["sdpa", "eager"]
"""How transformers computes attention; both support tree masks."""


class NoDraftError(InputError):
    """A draft is needed, and the pair is a target alone."""


@dataclass(frozen=True)
class Pair:
    """A target, a draft, and the tokenizer they share; `names` say where target and draft come from.

    The draft is a model, or a draft head that is attached to the target; None is for drafters without a model.
    """

    target: PreTrainedModel
    draft: PreTrainedModel | Head | None
    tokenizer: PreTrainedTokenizerBase
    names: tuple[str, str]

    @property
    def models(self) -> list[Any]:
        """The target, and the draft if there is one."""
        return [self.target] if self.draft is None else [self.target, self.draft]

    @property
    def vocab_size(self) -> int:
        """Number of tokens of a distribution: the size of the smaller output layer, since layers may be padded."""
        return min(model.config.vocab_size for model in self.models)

    @property
    def drafted_tokens(self) -> int:
        """Number of tokens that the draft can draft: those of a distribution, or a head's draft vocabulary."""
        return min(self.vocab_size, self.draft.config.outputs) if isinstance(self.draft, Head) else self.vocab_size

    def require_draft(self) -> Any:
        """The draft; raises NoDraftError for a target alone."""
        if self.draft is None:
            raise NoDraftError(f"{self.names[0]} is alone and this needs a draft: load one beside it, as with --draft")
        return self.draft

    def require_draft_model(self, what: str) -> None:
        """Raise InputError if the draft is a head or missing: `what` runs the draft without the target's states."""
        if self.draft is None or isinstance(self.draft, Head):
            raise InputError(
                f"{what} needs a draft model, {self.names[0]} has {self.names[1]}: use a draft model, as with --draft"
            )

    @property
    def context(self) -> int:
        """Maximum number of tokens of a text in both models."""
        return min(context_of(model.config) for model in self.models)

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Token ids that end a text, from the target's generation settings."""
        stop = getattr(self.target.generation_config, "eos_token_id", None)
        return frozenset([stop] if isinstance(stop, int) else stop or [])

    @property
    def fingerprint(self) -> str:
        """A short hash of the weights of both models, see `weights_hash`."""
        return weights_hash(*self.models)

    @property
    def device(self) -> torch.device:
        """The device of both models."""
        return self.target.device

    @property
    def stamp(self) -> dict[str, Any]:
        """Fields for a provenance: names, device, dtype and attention, on which times and rounding depend."""
        draft, attention = None if self.draft is None else self.names[1], self.target.config._attn_implementation
        placement = {"device": str(self.device), "dtype": str(self.target.dtype), "attention": attention}
        return {"target": self.names[0], "draft": draft, **placement}


def weights_hash(*models: torch.nn.Module) -> str:
    """A short hash of names, shapes and a sample of the values of all weights of some models, and of a head's options.

    Heads with equal weights compute different things if they read other layers of the target or norm other states.
    """
    digest = hashlib.sha256()
    for model in models:
        if isinstance(model, Head):
            digest.update(json.dumps(model.config.computed, sort_keys=True).encode())
        state = model.state_dict()
        samples = [one.flatten()[:: max(1, one.numel() // 1024)].double() for one in state.values()]
        hosted = torch.cat(samples).cpu().split([len(one) for one in samples])  # one copy, since the device may be busy
        for (name, weight), sample in zip(state.items(), hosted, strict=True):
            digest.update(f"{name} {tuple(weight.shape)}".encode() + sample.numpy().tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class PairFiles:
    """A target and a draft that fit each other, whose weights are not read yet; the draft may be a folder of a head."""

    target: ModelFiles
    draft: ModelFiles | Path | None

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that both share."""
        return self.target.tokenizer

    @property
    def names(self) -> tuple[str, str]:
        """What the models are called, as in `Pair`."""
        draft = self.draft.name if isinstance(self.draft, ModelFiles) else str(self.draft or NO_DRAFT)
        return self.target.name, draft

    @property
    def context(self) -> int:
        """Maximum number of tokens of a text in both models; that of the target if the draft is a head."""
        return min(context_of(one.config) for one in (self.target, self.draft) if isinstance(one, ModelFiles))

    def load(self) -> Pair:
        """Read the weights.

        Raises:
            PairError: the weights are damaged.
            InputError: a draft head is for another target, or its files are not what they say.
        """
        return _drafting(self.target.load(), self.tokenizer, self.draft, self.names)


def open_pair(
    target: str | Path = TARGET,
    draft: str | Path | None = HEAD,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    attention: Attention = "sdpa",
) -> PairFiles:
    """Check what `load_pair` loads, but the weights.

    Raises:
        PairError, InputError: see `load_pair`.
    """
    if attention not in get_args(Attention):
        raise InputError(f"attention must be one of {', '.join(get_args(Attention))}, got {attention!r}")
    try:
        torch.zeros((), device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device must be one of this machine, such as cpu, got {str(device)!r}: {reason:.100}"
        ) from error
    opened = open_model("target", target, device, dtype, attention)
    return PairFiles(opened, _open_draft(draft, opened.tokenizer, opened.name, device, dtype, attention))


def load_pair(
    target: str | Path = TARGET,
    draft: str | Path | None = HEAD,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    attention: Attention = "sdpa",
) -> Pair:
    """Load a target and a draft, by default the shipped pair. Code of theirs never runs, see `model_folders`.

    Each is a local folder, a GGUF file, which is dequantised, or a model of the Hugging Face Hub, such as
    Qwen/Qwen2.5-Coder-0.5B-Instruct. The folder of the draft may hold a draft head, see `reference.heads`. Without a
    draft (None) the target alone runs, with drafters that need no model.

    In bfloat16 and float16 greedy text with a tree may differ from plain decoding where the two largest logits are
    equal or a step or two of that precision apart, because SDPA rounds a forward of several tokens differently from a
    forward of one. No difference was measured with eager attention, which is slower and works for models without SDPA.

    Raises:
        PairError: a model is missing, is no causal model, needs code of its own or more memory than there is, lacks
            SDPA, has layers that cannot read trees or takes no positions, or the vocabularies differ.
        InputError: a draft head is for another target, or its files are not what they say; `attention` is neither sdpa
            nor eager, or this machine does not have the device.
    """
    return open_pair(target, draft, device=device, dtype=dtype, attention=attention).load()


def with_draft(pair: Pair, draft: str | Path) -> Pair:
    """The target of `pair` with another draft, on the same device and in the same number type.

    Raises:
        PairError: as `load_pair`.
        InputError: the folder holds a draft head that does not belong to the target.
    """
    target, name = pair.target, pair.names[0]
    place = target.device, target.dtype, str(target.config._attn_implementation)
    return _drafting(target, pair.tokenizer, _open_draft(draft, pair.tokenizer, name, *place), (name, str(draft)))


def _open_draft(
    draft: str | Path | None, tokenizer: PreTrainedTokenizerBase, target: str, *place: Any
) -> ModelFiles | Path | None:
    """The files of a draft, or the folder of a head, for the target that is called `target`."""
    if draft is None or holds_head(draft):
        return None if draft is None else Path(draft)
    opened = open_model("draft", draft, *place)
    theirs, ours = tokenizer.get_vocab(), opened.tokenizer.get_vocab()
    if theirs != ours:
        token = next(token for token in [*theirs, *ours] if theirs.get(token) != ours.get(token))
        raise PairError(
            f"vocabularies differ: {target} and {opened.name} must share one tokenizer, but {token!r} is token "
            f"{theirs.get(token)} of the one and {ours.get(token)} of the other: use a draft of the target's family"
        )
    return opened


def _drafting(
    target: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, draft: ModelFiles | Path | None, names: tuple[str, str]
) -> Pair:
    if isinstance(draft, Path):
        attention = str(target.config._attn_implementation)
        head = read_head(draft, device=target.device, dtype=target.dtype, attention=attention)
        return Pair(target, head.attach(target), tokenizer, names)
    needed = min(target.config.vocab_size, 1 + max(tokenizer.get_vocab().values()))
    if draft is not None and (there := draft.config.vocab_size) < needed:
        raise PairError(f"draft {names[1]} has {there} outputs for the {needed} tokens of {names[0]}: use another")
    return Pair(target, None if draft is None else draft.load(), tokenizer, names)


def context_of(config: Any) -> int:
    """Maximum number of tokens of a text. After the original context of LongRoPE all keys, cached ones too, differ."""
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        return rope["original_max_position_embeddings"]
    return getattr(config, "max_position_embeddings", None) or 2**31
