"""`Pair`: a target and a draft, stock Hugging Face causal models with one vocabulary, loaded from local folders."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from reference.heads import Head, holds_head, read_head
from reference.model_folders import PairError, load_folder
from spectheory.core.errors import InputError

SHIPPED = Path(__file__).parent / "pair"
"""The folder of the models that come with the package."""
TARGET, HEAD = SHIPPED / "target", SHIPPED / "head"
"""The shipped pair: a target, and a draft head that is trained for it."""
DRAFT = SHIPPED / "draft"
"""An independent draft model for the shipped target. It is in a checkout, not in the installed package."""
Attention = Literal["sdpa", "eager"]
"""How transformers computes attention; both support tree masks."""


@dataclass(frozen=True)
class Pair:
    """A target, a draft, and the tokenizer they share; `names` are the folders of target and draft.

    The draft is a model, or a draft head that is attached to the target.
    """

    target: PreTrainedModel
    draft: PreTrainedModel | Head
    tokenizer: PreTrainedTokenizerBase
    names: tuple[str, str]

    @property
    def vocab_size(self) -> int:
        """Number of tokens of a distribution: the size of the smaller output layer, since layers may be padded."""
        return min(model.config.vocab_size for model in (self.target, self.draft))

    @property
    def drafted_tokens(self) -> int:
        """Number of tokens that the draft can draft: those of a distribution, or a head's draft vocabulary."""
        return min(self.vocab_size, self.draft.config.outputs) if isinstance(self.draft, Head) else self.vocab_size

    def depths_of(self, wanted: int) -> int:
        """The number of depths of a cycle, at most `wanted`, at which the draft has distributions of their own.

        A draft model has one: its distribution after some tokens is the same whether they were drafted or not.
        """
        return wanted if isinstance(self.draft, Head) else 1

    def require_draft_model(self, what: str) -> None:
        """Raise InputError if the draft is a head: `what` runs the draft alone, without the target's hidden states."""
        if isinstance(self.draft, Head):
            raise InputError(
                f"{what} needs a draft model, {self.names[1]} is a draft head: use a draft model, as with --draft"
            )

    @property
    def context(self) -> int:
        """Maximum number of tokens of a text in both models."""
        return min(
            getattr(model.config, "max_position_embeddings", None) or 2**31 for model in (self.target, self.draft)
        )

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Token ids that end a text, from the target's generation settings, else from its tokenizer."""
        stop = getattr(self.target.generation_config, "eos_token_id", None)
        stop = getattr(self.tokenizer, "eos_token_id", None) if stop is None else stop
        return frozenset([stop] if isinstance(stop, int) else stop or [])

    @property
    def fingerprint(self) -> str:
        """A short hash of the weights of both models, see `weights_hash`."""
        return weights_hash(self.target, self.draft)

    @property
    def device(self) -> torch.device:
        """The device of both models."""
        return self.target.device

    @property
    def stamp(self) -> dict[str, Any]:
        """Fields for a provenance: names, device, dtype and attention, on which times and rounding depend."""
        attention = self.target.config._attn_implementation
        target, draft = self.names
        placement = {"device": str(self.device), "dtype": str(self.target.dtype), "attention": attention}
        return {"target": target, "draft": draft, **placement}


def weights_hash(*models: torch.nn.Module) -> str:
    """A short hash of names, shapes and a sample of the values of all weights of some models, and of a head's options.

    Heads with equal weights compute different things if they read other layers of the target or norm other states.
    """
    digest = hashlib.sha256()
    for model in models:
        if isinstance(model, Head):
            digest.update(json.dumps(model.config.computed, sort_keys=True).encode())
        for name, weight in model.state_dict().items():
            values = weight.flatten()
            sample = values[:: max(1, len(values) // 1024)].cpu().double().numpy()
            digest.update(f"{name} {tuple(weight.shape)}".encode() + sample.tobytes())
    return digest.hexdigest()[:16]


def load_pair(
    target: str | Path = TARGET,
    draft: str | Path = HEAD,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    attention: Attention = "sdpa",
) -> Pair:
    """Load the models of two local folders, by default the shipped pair. Code in them never runs, see `model_folders`.

    The folder of the draft may hold a draft head, see `reference.heads`.

    In bfloat16 and float16 greedy text with a tree may differ from plain decoding where the two largest logits are
    equal or a step or two of that precision apart, because SDPA rounds a forward of several tokens differently from a
    forward of one. No difference was measured with eager attention, which is slower and works for models without SDPA.

    Raises:
        PairError: a folder is missing, holds no causal model or needs code of its own, a model lacks SDPA, does not
            attend to all tokens or takes no positions, or the vocabularies differ.
        InputError: a draft head is for another target, or its files are not what they say; `attention` is neither sdpa
            nor eager, or this machine does not have the device.
    """
    placed = {"device": device, "dtype": dtype, "attention": attention}
    return _drafting(*load_target(target, **placed), draft, str(target))


def load_target(
    folder: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    attention: Attention = "sdpa",
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the target of a local folder without a draft, and its tokenizer.

    Raises:
        PairError: as `load_pair`.
        InputError: `attention` is neither sdpa nor eager, or this machine does not have the device.
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
    return load_folder("target", Path(folder), device, dtype, attention)


def with_draft(pair: Pair, draft: str | Path) -> Pair:
    """The target of `pair` with the draft of another folder, on the same device and in the same number type.

    Raises:
        PairError: as `load_pair`.
        InputError: the folder holds a draft head that does not belong to the target.
    """
    return _drafting(pair.target, pair.tokenizer, draft, pair.names[0])


def _drafting(target: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, draft: str | Path, name: str) -> Pair:
    """The target, called `name`, with the draft model or draft head of a folder."""
    names, attention = (name, str(draft)), str(target.config._attn_implementation)
    if holds_head(draft):
        head = read_head(Path(draft), device=target.device, dtype=target.dtype, attention=attention)
        return Pair(target, head.attach(target), tokenizer, names)
    model, own = load_folder("draft", Path(draft), target.device, target.dtype, attention)
    vocabularies = tokenizer.get_vocab(), own.get_vocab()
    if vocabularies[0] != vocabularies[1]:
        raise PairError(
            f"vocabularies differ: {names[0]} and {names[1]} must share one tokenizer "
            f"({len(vocabularies[0])} and {len(vocabularies[1])} tokens)"
        )
    for role, one in (("target", target), ("draft", model)):
        if one.config.vocab_size < len(vocabularies[0]):
            raise PairError(
                f"{role} has {one.config.vocab_size} outputs for {len(vocabularies[0])} tokens: "
                "use the tokenizer that belongs to it"
            )
    return Pair(target, model, tokenizer, names)
