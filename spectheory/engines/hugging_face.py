"""Hugging Face transformers: a chain as generation settings. It reports no statistics.

Version 5.23, from the installed source of 5.23.0 (generation/configuration_utils.py, candidate_generator.py), read
2026-11-21. The root is not counted. The settings belong in the generation config of the assistant model.
"""

from __future__ import annotations

import json

from spectheory.core.checks import check_whole
from spectheory.engines.engine import Engine, Export
from spectheory.planning.fitting import Fitting

FILE = "generation_config.json"
VERSIONS = {"5.23": ("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold")}


def export(length: int, *, version: str, lookup: bool = False) -> Export:
    """Generation settings for chains of `length` tokens, of an assistant model or, with `lookup`, of n-gram lookup."""
    key = ENGINE.release(version)
    check_whole("length", length, 1, ": name no draft to run without speculation")
    if lookup:
        settings = {"prompt_lookup_num_tokens": int(length)}
        notes = ("set this value on the model: model.generation_config.update(**settings)",)
    else:
        settings = dict(zip(VERSIONS[key], (int(length), "constant", 0.0), strict=True))
        notes = (
            "set these values on the assistant model: assistant.generation_config.update(**settings)",
            "the assistant keeps the threshold between calls: set it before the first call",
        )
    return Export("transformers", key, (), {FILE: json.dumps(settings, indent=1) + "\n"}, notes)


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest chain at batch size 1, of an assistant model or looked up. Version 5.23.0 does not support EAGLE."""
    fitting.require_batch_1()
    lookup = fitting.of_family({"model": False, "ngram": True})
    made = export(fitting.chain, version=version, lookup=lookup)
    return made.after(*fitting.notes_at_first(fitting.chain, alone=True))


ENGINE = Engine(name="hf", title="transformers", versions=VERSIONS, exporter=_fitted)
