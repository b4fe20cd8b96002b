"""Loading of Hugging Face model folders, without running any code of a folder.

transformers runs Python files of a folder if the user agrees, and unpickles weights, which can run any code. Here only
architectures and tokenizers of transformers itself are loaded, and only weights in safetensors. A folder that needs
more is refused before anything of it is loaded. An `auto_map` is ignored if transformers has the architecture or the
tokenizer itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from spectheory.core.errors import InputError
from spectheory.core.files import read_json
from spectheory.core.machine import available_bytes

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZERS = ("tokenizer*.p*kl*", "vocab*.p*kl*", "tokenizer*.pt", "vocab*.pt", "tokenizer*.bin", "vocab*.bin")
TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "tekken.json", "*.model", "*.tiktoken")


class PairError(InputError):
    """A model folder is missing or cannot be used, or target and draft do not fit each other."""


def load_folder(
    role: str, folder: Path, device: str | torch.device, dtype: torch.dtype, attention: str
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the causal model of a local folder, in evaluation mode, and its tokenizer.

    Raises:
        PairError: the folder is missing or damaged, holds no causal model that reads trees, or needs its own code.
    """
    if not (folder / "config.json").is_file():
        raise PairError(f"{role} folder {folder} holds no config.json: name a local Hugging Face model folder")
    with _loading(role, folder):
        reason = _runs_code(folder)
    if reason:
        raise PairError(f"{role} folder {folder} {reason}")
    with _loading(role, folder):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        need = _weights(folder) * dtype.itemsize
    if reason := _undecodable(config):
        raise PairError(f"{role} {folder} {reason}, which tree decoding does not support: use another model")
    available = available_bytes()
    if available is not None and need > available:
        raise PairError(
            f"{role} {folder} needs {need / 1e9:,.1f} GB of memory in {str(dtype).removeprefix('torch.')}, "
            f"{available / 1e9:,.1f} GB are available: use a smaller type, a smaller model or a larger machine"
        )
    with _loading(role, folder):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=attention,
            local_files_only=True,
            output_loading_info=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
        model, loading = loaded
        model = model.to(device).eval().requires_grad_(False)
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        tokenizer.get_vocab()
    if model.config._attn_implementation != attention:
        raise PairError(
            f"{role} folder {folder} sets its attention to {model.config._attn_implementation!r}, asked for "
            f"{attention!r}: remove _attn_implementation from its config.json"
        )
    absent = sorted(loading["missing_keys"])
    if absent:
        some = ", ".join(absent[:3])
        raise PairError(f"{role} folder {folder} lacks the weights {some} and so is damaged: fetch it anew")
    if "position_ids" not in signature(model.forward).parameters:
        raise PairError(f"{role} {folder} takes no position_ids, which a tree needs: use another architecture")
    return model, tokenizer


@contextmanager
def _loading(role: str, folder: Path) -> Iterator[None]:
    """Turn exceptions of transformers into a PairError."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "scaled_dot_product_attention" in reason:
            raise PairError(f"{role} {folder} has no SDPA: use load_pair(..., attention='eager')") from error
        raise PairError(
            f"{role} folder {folder} cannot be loaded as a causal model with its tokenizer: {reason:.600}"
        ) from error


def _runs_code(folder: Path) -> str | None:
    """Why a folder cannot be loaded from its JSON and safetensors files alone, and the repair; None if it can.

    Classes of a folder (`auto_map`) are refused by transformers, which is told not to trust them.
    """
    config = _settings(folder / "config.json")
    if other := next((name for name in ("configuration_files", "transformers_weights") if name in config), None):
        return f"names other files in its config.json ({other}), which are not read: remove {other}"
    if "/" in (kernel := str(config.get("_attn_implementation", ""))):
        return f"names an attention kernel of the Hub ({kernel!r}), which is not loaded: remove _attn_implementation"
    if (folder / "adapter_config.json").exists():
        return (
            "holds an adapter (adapter_config.json), which is not loaded: merge it into its model, with peft's "
            "model.merge_and_unload().save_pretrained(...)"
        )
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        return "has no tokenizer but pickles, if any, which can run code: save the tokenizer as a tokenizer.json"
    weights = _weight_files(folder)
    if odd := next((name for name in weights if Path(name).name != name or not name.endswith(".safetensors")), None):
        return f"names weights that are no safetensors of the folder ({odd!r}), which can run code and are never loaded"
    if not weights:
        return (
            "has no weights in safetensors; pickles can run code and are never loaded: convert them, where you trust "
            "them, with model.save_pretrained(...)"
        )
    return None


def _weight_files(folder: Path) -> list[str]:
    """The files of the weights: one, or those that an index names."""
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS]
    return sorted(set(_settings(folder / INDEX).get("weight_map", {}).values()))


def _weights(folder: Path) -> int:
    """How many weights the safetensors of a folder have."""
    count = 0
    for name in _weight_files(folder):
        with safe_open(folder / name, "pt") as file:
            count += sum(math.prod(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118
    return count


def _settings(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no file."""
    return read_json(file) if file.is_file() else {}


def _undecodable(config: Any) -> str | None:
    """Why a model cannot read a tree, because it does not attend to all tokens or ignores positions; None if it can."""
    if getattr(config, "alibi", False):
        return "counts distances in rows (ALiBi)"
    kinds = getattr(config, "layer_types", None)
    window = bool(getattr(config, "sliding_window", None)) and getattr(config, "use_sliding_window", True)
    if any(kind != "full_attention" for kind in kinds) if kinds else window:
        return "has layers without full attention"
    return None
