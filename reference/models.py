"""A target and a draft: stock Hugging Face causal models with one vocabulary, from local folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

SHIPPED = Path(__file__).parent / "pair"
"""The folder of the pair that comes with the package."""


class PairError(ValueError):
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
        """Entries of both models' laws."""
        return self.target.config.vocab_size

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
    def device(self) -> torch.device:
        """Where both models are."""
        return self.target.device


def load_pair(
    target: str | Path = SHIPPED / "target",
    draft: str | Path = SHIPPED / "draft",
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Pair:
    """Load both models from local folders, SDPA attention, evaluation mode.

    Raises:
        PairError: a folder is missing or holds no causal model, or the vocabularies differ.
    """
    folders = {"target": Path(target), "draft": Path(draft)}
    models, tokenizers = {}, {}
    for role, folder in folders.items():
        if not (folder / "config.json").is_file():
            raise PairError(f"{role} folder {folder} holds no config.json: name a local Hugging Face model folder")
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, attn_implementation="sdpa", local_files_only=True
            )
            tokenizers[role] = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:
            raise PairError(
                f"{role} folder {folder} cannot be loaded as a causal model with its tokenizer: {error}"
            ) from error
        models[role] = model.to(device).eval().requires_grad_(False)
        if any(kind != "full_attention" for kind in getattr(model.config, "layer_types", None) or []):
            raise PairError(f"{role} {folder} has layers without full attention, which tree decoding does not support")
    if tokenizers["target"].get_vocab() != tokenizers["draft"].get_vocab():
        raise PairError(
            f"vocabularies differ: {folders['target']} and {folders['draft']} must share one tokenizer "
            f"({len(tokenizers['target'])} and {len(tokenizers['draft'])} tokens)"
        )
    sizes = {role: model.config.vocab_size for role, model in models.items()}
    if sizes["target"] != sizes["draft"]:
        raise PairError(f"vocab_size differs: target {sizes['target']}, draft {sizes['draft']}")
    names = (str(folders["target"]), str(folders["draft"]))
    return Pair(models["target"], models["draft"], tokenizers["target"], names)
