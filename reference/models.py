"""A target and a draft: stock Hugging Face causal models with one vocabulary, from local folders."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from spectheory.core.errors import InputError

SHIPPED = Path(__file__).parent / "pair"
"""The folder of the pair that comes with the package."""
Attention = Literal["sdpa", "eager"]
"""How transformers computes attention; tree masks are right in both."""


class PairError(InputError):
    """A model folder is missing or foreign, or the two models do not fit each other."""


@dataclass(frozen=True)
class Pair:
    """A target, a draft, and the tokenizer they share."""

    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    names: tuple[str, str]

    @property
    def vocab_size(self) -> int:
        """Entries of the laws: the smaller of the two output layers, which may be padded beyond the tokenizer."""
        return min(model.config.vocab_size for model in (self.target, self.draft))

    @property
    def context(self) -> int:
        """Tokens that both models can hold."""
        return min(
            getattr(model.config, "max_position_embeddings", None) or 2**31 for model in (self.target, self.draft)
        )

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end a text, by the target's generation settings."""
        stop = getattr(self.target.generation_config, "eos_token_id", None)
        return frozenset([stop] if isinstance(stop, int) else stop or [])

    @property
    def fingerprint(self) -> str:
        """A short hash of names, shapes and a sample of the values of all weights of both models."""
        digest = hashlib.sha256()
        for model in (self.target, self.draft):
            for name, weight in model.state_dict().items():
                values = weight.flatten()
                sample = values[:: max(1, len(values) // 1024)].cpu().double().numpy()
                digest.update(f"{name} {tuple(weight.shape)}".encode() + sample.tobytes())
        return digest.hexdigest()[:16]

    @property
    def device(self) -> torch.device:
        """Where both models are."""
        return self.target.device

    @property
    def placement(self) -> dict[str, Any]:
        """How the models run, for records: the same weights elsewhere take other times, and round otherwise."""
        attention = self.target.config._attn_implementation
        return {"device": self.device, "dtype": self.target.dtype, "attention": attention}


def load_pair(
    target: str | Path = SHIPPED / "target",
    draft: str | Path = SHIPPED / "draft",
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    attention: Attention = "sdpa",
) -> Pair:
    """Load both models from local folders, evaluation mode.

    In bfloat16 and float16 the greedy text of a tree may part from plain decoding where the two largest logits tie or
    lie a step or two of that precision apart: SDPA rounds a forward of several tokens otherwise than one of a single
    token. Eager attention, which is slower and which models without SDPA need, did not part where this was measured.

    Raises:
        PairError: a folder is missing or holds no causal model, a model lacks SDPA, attends to less than all that is
            before a token or cannot be told positions, or the vocabularies differ.
        InputError: `attention` is neither of the two, or `device` is none of this machine.
    """
    if attention not in get_args(Attention):
        raise InputError(f"attention must be one of {', '.join(get_args(Attention))}, got {attention!r}")
    _require_device(device)
    folders = {"target": Path(target), "draft": Path(draft)}
    models, tokenizers = {}, {}
    for role, folder in folders.items():
        if not (folder / "config.json").is_file():
            raise PairError(f"{role} folder {folder} holds no config.json: name a local Hugging Face model folder")
        with _loading(role, folder):
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
        if reason := _undecodable(config):
            raise PairError(f"{role} {folder} {reason}, which tree decoding does not support")
        with _loading(role, folder):
            model, loading = _load(folder, dtype, attention)
            models[role] = model.to(device).eval().requires_grad_(False)
            tokenizers[role] = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        absent = sorted(loading["missing_keys"])
        if absent:
            raise PairError(f"{role} folder {folder} lacks the weights {', '.join(absent[:3])} and so is damaged")
        if "position_ids" not in signature(model.forward).parameters:
            raise PairError(f"{role} {folder} takes no position_ids, so that siblings cannot share a position in it")
    vocabularies = {role: tokenizer.get_vocab() for role, tokenizer in tokenizers.items()}
    if vocabularies["target"] != vocabularies["draft"]:
        raise PairError(
            f"vocabularies differ: {folders['target']} and {folders['draft']} must share one tokenizer "
            f"({len(vocabularies['target'])} and {len(vocabularies['draft'])} tokens)"
        )
    for role, model in models.items():
        if model.config.vocab_size < len(vocabularies[role]):
            raise PairError(f"{role} has {model.config.vocab_size} outputs for {len(vocabularies[role])} tokens")
    names = (str(folders["target"]), str(folders["draft"]))
    return Pair(models["target"], models["draft"], tokenizers["target"], names)


def _require_device(device: str | torch.device) -> None:
    """Put a number there and read it."""
    try:
        torch.zeros((), device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device must be one of this machine, such as cpu, got {str(device)!r}: {reason:.100}"
        ) from error


@contextmanager
def _loading(role: str, folder: Path) -> Iterator[None]:
    """What transformers raises, as a PairError."""
    try:
        yield
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "scaled_dot_product_attention" in reason:
            raise PairError(
                f"{role} {folder} has no SDPA: load_pair(..., attention='eager') or --attention eager takes it"
            ) from error
        raise PairError(
            f"{role} folder {folder} cannot be loaded as a causal model with its tokenizer: {reason:.300}"
        ) from error


def _load(folder: Path, dtype: torch.dtype, attention: Attention) -> tuple[Any, dict[str, Any]]:
    """The model, and what transformers says of its weights."""
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation=attention, local_files_only=True, output_loading_info=True
    )
    return loaded


def _undecodable(config: Any) -> str | None:
    """Why a model cannot read a tree: it attends to less than the whole past, or counts rows in place of positions."""
    if getattr(config, "alibi", False):
        return "counts distances in rows (ALiBi)"
    kinds = getattr(config, "layer_types", None)
    window = bool(getattr(config, "sliding_window", None)) and getattr(config, "use_sliding_window", True)
    if any(kind != "full_attention" for kind in kinds) if kinds else window:
        return "has layers without full attention"
    return None
