"""Models from local folders, GGUF files and the Hugging Face Hub, without running any code of theirs.

transformers runs Python files of a folder if the user agrees, and unpickles weights, which can run any code. Here only
architectures and tokenizers of transformers itself are loaded, and only weights in safetensors. A folder that needs
more is refused before anything of it is loaded. An `auto_map` is ignored if transformers has the architecture or the
tokenizer itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import is_accelerate_available, is_gguf_available

from spectheory.core.errors import InputError
from spectheory.core.files import is_there, read_json
from spectheory.core.machine import available_bytes

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
"""What is fetched from a repository of the Hub, but not from its folders."""
TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "tekken.json", "*.model", "*.tiktoken")


class PairError(InputError):
    """A model is missing or cannot be used, or target and draft do not fit each other."""


@dataclass(frozen=True)
class ModelFiles:
    """A causal model that can read trees, and whose weights are not read yet.

    Attributes:
        role: target or draft.
        name: what was asked for: a folder, a GGUF file, or a model of the Hub.
        folder, gguf: local folder of the files, and name of the GGUF file in it; None for safetensors.
        config: settings of the model.
        tokenizer: its tokenizer.
        device, dtype, attention: how it will run.
    """

    role: str
    name: str
    folder: Path
    gguf: str | None
    config: PreTrainedConfig
    tokenizer: PreTrainedTokenizerBase
    device: str | torch.device
    dtype: torch.dtype
    attention: str

    def load(self) -> PreTrainedModel:
        """Read the weights: the model in evaluation mode.

        Raises:
            PairError: the weights are damaged.
        """
        with _loading(self.role, self.name):
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                self.folder,
                gguf_file=self.gguf,
                dtype=self.dtype,
                attn_implementation=self.attention,
                local_files_only=True,
                output_loading_info=True,
                trust_remote_code=False,
                use_safetensors=True,
            )
            model, loading = loaded
            model = model.to(self.device).eval().requires_grad_(False)
        if model.config._attn_implementation != self.attention:
            raise PairError(
                f"{self.role} {self.name} sets its attention to {model.config._attn_implementation!r}, asked for "
                f"{self.attention!r}: remove _attn_implementation from its config.json"
            )
        if absent := ", ".join(sorted(loading["missing_keys"])[:3]):
            raise PairError(f"{self.role} {self.name} lacks the weights {absent} and so is damaged: fetch it anew")
        read_windows(model)
        return model


def open_model(
    role: str, name: str | Path, device: str | torch.device, dtype: torch.dtype, attention: str
) -> ModelFiles:
    """Check a local folder, a GGUF file or a model of the Hub, which is fetched, before its weights are read.

    Raises:
        PairError: it is missing or damaged, holds no causal model that reads trees, needs its own code, or does not fit
            the memory.
    """
    folder, gguf = _located(role, str(name))
    if gguf is None:
        if not (folder / "config.json").is_file():
            raise PairError(
                f"{role} folder {folder} holds no config.json: name a Hugging Face model folder, a GGUF file, or a "
                "model of the Hub, such as Qwen/Qwen2.5-0.5B"
            )
        with _loading(role, name):
            reason = _runs_code(folder)
        if reason:
            raise PairError(f"{role} folder {folder} {reason}")
    with _loading(role, name):
        config: Any = AutoConfig.from_pretrained(folder, gguf_file=gguf, local_files_only=True, trust_remote_code=False)
    if reason := _undecodable(config):
        raise PairError(f"{role} {name} {reason}, which tree decoding does not support: use another model")
    with _loading(role, name), torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config, attn_implementation=attention, trust_remote_code=False)
    if "position_ids" not in signature(empty.forward).parameters:
        raise PairError(f"{role} {name} takes no position_ids, which a tree needs: use another architecture")
    if len({weight.shape for key, weight in empty.named_parameters() if key.endswith(".k_proj.weight")}) > 1:
        raise PairError(f"{role} {name} has keys of several sizes, which the cache does not support: use another model")
    need = sum(weight.numel() for weight in empty.parameters()) * dtype.itemsize
    on_gpu = torch.device(device).type == "cuda"
    available = torch.cuda.mem_get_info(device)[0] if on_gpu and torch.cuda.is_available() else available_bytes()
    if available is not None and need > available:
        raise PairError(
            f"{role} {name} needs {need / 1e9:,.1f} GB of memory in {str(dtype).removeprefix('torch.')}, "
            f"{available / 1e9:,.1f} GB are available: use a smaller type, a smaller model or a larger machine"
        )
    with _loading(role, name):
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, gguf_file=gguf, local_files_only=True, trust_remote_code=False
        )
        tokens = max(tokenizer.vocab_size, len(tokenizer.get_vocab()) - len(tokenizer.get_added_vocab()))
    if config.vocab_size < tokens:
        raise PairError(
            f"{role} {name} has {config.vocab_size} outputs for a tokenizer of {tokens} tokens: use the tokenizer that "
            "belongs to it"
        )
    return ModelFiles(role, str(name), folder, gguf, config, tokenizer, device, dtype, attention)


def of_the_hub(name: str) -> bool:
    """Whether this names a model of the Hugging Face Hub, such as Qwen/Qwen2.5-0.5B, and nothing that is here."""
    return bool(re.fullmatch(r"[\w.-]+/[\w.-]+", name)) and not is_gguf(name) and not is_there(name)


def is_gguf(name: str) -> bool:
    """Whether this names a GGUF file."""
    return name.endswith(".gguf")


def _located(role: str, name: str) -> tuple[Path, str | None]:
    """The local folder of a model, which is fetched if it is on the Hub, and the name of its GGUF file if it is one."""
    if is_gguf(name):
        if not Path(name).is_file():
            raise PairError(f"{role} {name} is not there: name a GGUF file")
        if not (is_gguf_available() and is_accelerate_available()):
            raise PairError(f"{role} {name} needs the packages gguf and accelerate: pip install 'spectheory[gguf]'")
        return Path(name).parent, Path(name).name
    if not of_the_hub(name):
        return Path(name), None
    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES, ignore_patterns=["*/*", "consolidated*"])), None
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise PairError(
            f"{role} {name} is no folder here, and the Hugging Face Hub did not give it ({reason:.200}): correct the "
            "name, connect to the network, or log in with `hf auth login` if the model is gated"
        ) from error


def read_windows(model: PreTrainedModel) -> None:
    """Give the layers of a model that see a sliding window masks of their own, where a call brings a tree's mask.

    transformers passes a mask of four dimensions to every layer as it is. What a row sees is a path of the tree with
    the text before it, in order, so the last `sliding_window` of these tokens are the window.
    """
    window, kinds = getattr(model.config, "sliding_window", None), getattr(model.config, "layer_types", None)
    if not window or (kinds and "sliding_attention" not in kinds):
        return

    def cut(_: torch.nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        mask = options.get("attention_mask")
        if isinstance(mask, torch.Tensor) and mask.ndim == 4:
            place = (mask == 0).cumsum(-1)
            near = mask.masked_fill(place <= place[..., -1:] - window, torch.finfo(mask.dtype).min)
            options["attention_mask"] = {"full_attention": mask, "sliding_attention": near} if kinds else near
        return args, options

    model.register_forward_pre_hook(cut, with_kwargs=True)


@contextmanager
def _loading(role: str, name: str | Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "scaled_dot_product_attention" in reason:
            raise PairError(f"{role} {name} has no SDPA: use load_pair(..., attention='eager')") from error
        what = "architecture that transformers reads" if is_gguf(str(name)) else "tokenizer"
        raise PairError(f"{role} {name} cannot be loaded as a causal model with its {what}: {reason:.600}") from error


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
        return "holds an adapter (adapter_config.json), which is not loaded: merge it, with peft's merge_and_unload()"
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        return "has no tokenizer but pickles, if any, which can run code: save the tokenizer as a tokenizer.json"
    listed = set(_settings(folder / INDEX).get("weight_map", {}).values())
    weights = [WEIGHTS] if (folder / WEIGHTS).is_file() else sorted(listed)
    if odd := next((name for name in weights if Path(name).name != name or not name.endswith(".safetensors")), None):
        return f"names weights that are no safetensors of the folder ({odd!r}), which can run code and are never loaded"
    if not weights:
        return "has no weights in safetensors; pickles can run code and are not loaded: convert those that you trust"
    return None


def _settings(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _undecodable(config: Any) -> str | None:
    """Why a model cannot read a tree, because of its layers or because it ignores positions; None if it can."""
    if getattr(config, "alibi", False) or config.model_type == "gpt_neo":
        return "counts distances in rows (ALiBi, or the local layers of GPT-Neo)"
    if hasattr(config, "type_vocab_size"):
        return "is an encoder, of the family of BERT"
    if config.get_text_config() is not config:
        return "reads more than text"
    if not {*(getattr(config, "layer_types", None) or ())} <= {"full_attention", "sliding_attention"}:
        return "has layers without attention to the text or to a window of it"
    return None
