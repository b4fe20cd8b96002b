"""Loading of Hugging Face model folders, without running any code of a folder.

transformers runs Python files of a folder if the user agrees, and unpickles weights, which can run any code. Here only
architectures and tokenizers of transformers itself are loaded, and only weights in safetensors. A folder that needs
more is refused before anything of it is loaded. An `auto_map` is ignored if transformers has the architecture or the
tokenizer itself.
"""

from __future__ import annotations

import math
import os.path
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import torch
import transformers.dynamic_module_utils as dynamic_module_utils
from safetensors import safe_open
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    TOKENIZER_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

from spectheory.core.errors import InputError
from spectheory.core.files import read_json
from spectheory.core.machine import available_bytes

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED_WEIGHTS = (".bin", ".bin.index.json", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
"""Endings of files that can run code when they are loaded."""
PICKLED_TOKENIZERS = ("tokenizer*.p*kl*", "vocab*.p*kl*", "tokenizer*.pt", "vocab*.pt", "tokenizer*.bin", "vocab*.bin")
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
    """Turn exceptions of transformers into a PairError. Code of a folder is refused without asking the user."""
    before = dynamic_module_utils.TIME_OUT_REMOTE_CODE
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # pyrefly: ignore[bad-assignment]
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "scaled_dot_product_attention" in reason:
            raise PairError(f"{role} {folder} has no SDPA: use load_pair(..., attention='eager')") from error
        raise PairError(
            f"{role} folder {folder} cannot be loaded as a causal model with its tokenizer: {reason:.600}"
        ) from error
    finally:
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = before


def _runs_code(folder: Path) -> str | None:
    """Why a folder cannot be loaded without running its code, and the repair; None if it can."""
    config, tokenizer = _settings(folder / "config.json"), _settings(folder / "tokenizer_config.json")
    return (
        _redirected(config)
        or _needs_python(config, tokenizer)
        or _pickled_tokenizer(folder)
        or _pickled_weights(folder, config)
    )


def _redirected(config: dict[str, Any]) -> str | None:
    """Why a configuration that names other files or kernels is refused, and the repair; None if it names none."""
    if "configuration_files" in config:
        return "names other configurations (configuration_files), which are not read: keep a single config.json"
    kernel = str(config.get("_attn_implementation", ""))
    if "/" in kernel:
        return f"names an attention kernel of the Hub ({kernel!r}), which is not loaded: remove _attn_implementation"
    return None


def _needs_python(config: dict[str, Any], tokenizer: dict[str, Any]) -> str | None:
    kind = str(config.get("model_type"))
    ours = None
    if kind in CONFIG_MAPPING:
        ours = CONFIG_MAPPING[kind]
    if config.get("auto_map") and (ours is None or ours not in MODEL_FOR_CAUSAL_LM_MAPPING):
        return (
            f"needs Python code of its own for {kind!r} (auto_map in config.json), which is never run: "
            "use a model whose architecture transformers itself has"
        )
    name = tokenizer.get("tokenizer_class")
    known = ours is not None and ours in TOKENIZER_MAPPING
    known = known or (isinstance(name, str) and tokenizer_class_from_name(name) is not None)
    if tokenizer.get("auto_map") and not known:
        return (
            f"needs Python code of its own for its tokenizer {name!r} (auto_map in tokenizer_config.json), which is "
            "never run: save the tokenizer as a tokenizer.json, with tokenizer_class PreTrainedTokenizerFast"
        )
    return None


def _pickled_tokenizer(folder: Path) -> str | None:
    pickled = sorted(file.name for pattern in PICKLED_TOKENIZERS for file in folder.glob(pattern))
    if pickled and not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        return (
            f"has its tokenizer as a pickle alone ({pickled[0]}), which can run code and is never loaded: "
            "save the tokenizer as a tokenizer.json"
        )
    return None


def _pickled_weights(folder: Path, config: dict[str, Any]) -> str | None:
    if (folder / "adapter_config.json").exists():
        return (
            "holds an adapter (adapter_config.json), which is not loaded: merge it into its model, with peft's "
            "model.merge_and_unload().save_pretrained(...)"
        )
    convert = "convert them, where you trust them, with model.save_pretrained(...), which writes safetensors"
    named = config.get("transformers_weights")
    found = [named] if named else [name for name in (WEIGHTS, INDEX) if (folder / name).is_file()][:1]
    if not found:
        pickled = sorted(file.name for file in folder.iterdir() if file.name.endswith(PICKLED_WEIGHTS))
        if pickled:
            return (
                f"has its weights as pickles alone ({pickled[0]}), which can run code and are never loaded: {convert}"
            )
        return None
    if found[0].endswith(".index.json") and _inside(found[0]):
        found += sorted(set(_settings(folder / found[0])["weight_map"].values()))
    for number, name in enumerate(found):
        if not _inside(name):
            return f"names weights outside of itself ({name!r}), which are not loaded: put them into the folder"
        if not name.endswith((".safetensors", ".safetensors.index.json") if number == 0 else ".safetensors"):
            return (
                f"names weights that are not safetensors ({name!r}), which can run code and are never loaded: {convert}"
            )
    return None


def _weights(folder: Path) -> int:
    """How many weights the safetensors of a folder have."""
    files = {WEIGHTS} if (folder / WEIGHTS).is_file() else set(_settings(folder / INDEX).get("weight_map", {}).values())
    count = 0
    for name in files:
        with safe_open(folder / name, "pt") as file:
            count += sum(math.prod(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118
    return count


def _inside(name: str) -> bool:
    """Whether a file name stays in its folder. Symbolic links may lead anywhere, as in the Hub's cache."""
    path = Path(os.path.normpath(name))
    return not path.is_absolute() and os.pardir not in path.parts


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
