"""The models that are shipped with the package, by name and by repository."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from spectheory.hardware.model_config import ModelConfig


def shipped_name(source: str) -> str | None:
    """The name of the shipped model that `source` names, in any case or by its repository; None if there is none.

    If `source` is an existing path, it is not taken as a repository.

    >>> shipped_name("meta-llama/Llama-3.1-8B")
    'llama-3.1-8b'
    """
    names = model_names()
    if source.lower() in names:
        return source.lower()
    if source.count("/") != 1 or Path(source).exists():
        return None
    return next((name for name in names if (repository(name) or "").lower() == source.lower()), None)


@cache
def model_names() -> tuple[str, ...]:
    """The names of all shipped models."""
    entries = (files("spectheory") / "data" / "models").iterdir()
    return tuple(sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")))


def repository(name: str) -> str | None:
    """The Hugging Face repository `owner/name` of a shipped model; None if there is no such model or repository.

    >>> repository("eagle3-llama-3.1-8b")
    'yuhuili/EAGLE3-LLaMA3.1-Instruct-8B'
    """
    if name.lower() not in model_names():
        return None
    source = json.loads(_text(name.lower()))["source"]
    host = "huggingface.co/"
    return source.removeprefix(host).split()[0].rstrip(",") if source.startswith(host) else None


@cache
def shipped_model(name: str) -> ModelConfig:
    """The shipped model of this name, one of `model_names()`."""
    return ModelConfig.from_hf(json.loads(_text(name)), name=name)


def _text(name: str) -> str:
    return (files("spectheory") / "data" / "models" / f"{name}.json").read_text(encoding="utf-8")
