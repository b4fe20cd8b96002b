"""Which modules of a model the names and patterns in a quantization_config mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from spectheory.core.errors import InputError
from spectheory.hardware.packing import Packing, Rule
from spectheory.hardware.shape import Weights

_FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
}
"""Names of matrices that some checkpoints store as one, with the names of their parts."""


def names_of(weights: Weights) -> set[str]:
    """The names that checkpoints give to a module: as a whole model, and as a part of a multimodal one."""
    name = weights.name
    return {name, f"language_model.{name}", name.replace("model.", "model.language_model.", 1)}


def matches(pattern: str, names: set[str], where: str) -> bool:
    """Whether a pattern of a config means one of `names`: a regular expression after `re:`, a glob, or a part."""
    for fused, parts in _FUSED.items():
        if fused in pattern:
            names = {
                f"{head}.{fused if last in parts else last}" for head, _, last in (n.rpartition(".") for n in names)
            }
    if pattern.startswith("re:"):
        try:
            return any(re.match(pattern[3:], name) for name in names)
        except re.error as error:
            raise InputError(
                f"{where} has the pattern {pattern!r:.80}, which is not a regular expression: {error}"
            ) from None
    if "*" in pattern:
        return any(fnmatchcase(name, pattern) for name in names)
    dotted = f".{pattern.strip('.')}."
    return any(dotted in f".{name}." for name in names)


def except_for(rule: Rule, patterns: Iterable[str], where: str) -> Rule:
    """`rule` for weights that none of `patterns` means."""
    kept = tuple(patterns)

    def excepted(weights: Weights) -> Packing | None:
        packing = rule(weights)
        names = names_of(weights) if packing else set()
        return None if any(matches(pattern, names, where) for pattern in kept) else packing

    return excepted
