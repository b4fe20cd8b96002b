"""TensorRT-LLM's `speculative_config` in YAML: dynamic tree, draft lengths by batch size, static tree, MTP and n-gram.

Versions, read 2026-11-21 (tensorrt_llm/llmapi/llm_args.py, https://nvidia.github.io/TensorRT-LLM/):

- 1.2: the batch sizes in `draft_len_schedule` are lower bounds. {1: 4, 8: 0} drafts 4 tokens from batch size 1 on, and
  none from 8 on. 1 must be a key (PR #8194).
- 1.3, 1.4: they are upper bounds. {4: 4, 8: 2} drafts 4 tokens up to batch size 4, 2 up to 8, and none above (PR
  #10860, merged 2026-03-13).
- Dynamic trees: in 1.3.0rc27 and 1.4.0rc1 (PR #13081, merged 2026-04).
- `eagle_choices`: up to 1.3, removed in 1.4 (PR #18210).
- MTP: `num_nextn_predict_layers` is the number of drafted tokens in 1.2. The last candidates of 1.3 rename it to
  `max_draft_len`, which the first ones overwrite with 1, and accept the old name. 1.4 has the new name.
- NGram: `max_draft_len`, without the overlap scheduler.
- Which versions change the draft length of MTP with the batch size is not known, and none does for NGram
  (`support_dynamic_draft_len`), so both get one length. `max_concurrency` is the last batch size with drafts.

The root is not counted. A dynamic tree needs max_draft_len <= max_total_draft_tokens <= topK * max_draft_len.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.exports import Export, release
from spectheory.planning.runnable import ChainRange, Envelope, Runnable, checked_ranges, is_chain_ranges, paths

FILE = "speculative_config.yaml"
Lines = dict[str, str]


@dataclass(frozen=True)
class Features:
    """What a version can run, and whether the batch sizes in its schedule are upper bounds."""

    dynamic_tree: bool
    static_tree: bool
    upper_bounds: bool
    mtp_length: str


VERSIONS = {
    "1.2": Features(dynamic_tree=False, static_tree=True, upper_bounds=False, mtp_length="num_nextn_predict_layers"),
    "1.3": Features(dynamic_tree=True, static_tree=True, upper_bounds=True, mtp_length="num_nextn_predict_layers"),
    "1.4": Features(dynamic_tree=True, static_tree=False, upper_bounds=True, mtp_length="max_draft_len"),
}
WITHOUT_MODEL = ("MTP", "NGram")
"""The values of `decoding_type` that load no draft: the module in the target's checkpoint, and n-gram lookup."""


def export(plan: Runnable, *, version: str, model: str) -> Export:
    """The plan as a YAML file for `trtllm-serve --extra_llm_api_options`, drafting with EAGLE-3.

    Args:
        plan: envelope, chains by batch size, or static tree.
        version: version of TensorRT-LLM, such as "1.4.0rc1".
        model: EAGLE-3 head that drafts.

    Raises:
        InputError: the version cannot run the plan, or the plan exceeds a limit of the engine.
    """
    key, features = release("TensorRT-LLM", version, VERSIONS)
    if isinstance(plan, Envelope):
        lines, notes = _envelope(plan, key, features)
    elif isinstance(plan, Tree):
        lines, notes = _tree(plan, key, features)
    elif is_chain_ranges(plan):
        lines, notes = _ranges(checked_ranges(plan), key, features)
    else:
        raise InputError(f"plan must be an Envelope, a Tree or a list of ChainRange, got {type(plan).__name__}")
    return _export(key, {"decoding_type": "Eagle3", "speculative_model": json.dumps(model)} | lines, notes)


def export_without_model(ranges: Sequence[ChainRange], *, version: str, decoding_type: str) -> Export:
    """Chains of one length, up to a batch size, as a YAML file for `trtllm-serve`, without a draft to load.

    Args:
        ranges: one range with drafts, and at most one without drafts for the larger batch sizes.
        version: version of TensorRT-LLM, such as "1.4.0rc1".
        decoding_type: "MTP" for the multi-token-prediction module in the target's checkpoint, "NGram" for n-gram
            lookup.

    Raises:
        InputError: the ranges have two lengths, speculation is off at small batch sizes, or the version or the type is
            unknown.
    """
    key, features = release("TensorRT-LLM", version, VERSIONS)
    if decoding_type not in WITHOUT_MODEL:
        raise InputError(f"decoding_type must be one of {', '.join(WITHOUT_MODEL)}, got {decoding_type!r:.60}")
    first, *others = checked_ranges(ranges)
    if first.length == 0 or len(others) > 1 or any(item.length for item in others):
        raise InputError(
            f"ranges must be one length, and no speculation above a batch size, for {decoding_type} in TensorRT-LLM, "
            f"got {', '.join(f'{item.length} up to batch {item.last_batch}' for item in (first, *others))}: choose one "
            "length"
        )
    named = features.mtp_length if decoding_type == "MTP" else "max_draft_len"
    lines = {"decoding_type": decoding_type, named: str(first.length)}
    if others:
        lines["max_concurrency"] = str(first.last_batch)
    if decoding_type == "MTP":
        return _export(key, lines, ("the checkpoint of the target must contain the module",))
    size = "max_matching_ngram_size has its default: count the acceptance with the same size"
    return _export(key, lines, (size,), {"disable_overlap_scheduler": "true"})


def _export(version: str, lines: Lines, notes: tuple[str, ...], others: Lines | None = None) -> Export:
    """The export of the lines of `speculative_config`, and of `others` beside it."""
    text = "speculative_config:\n" + "".join(f"  {name}: {value}\n" for name, value in lines.items())
    text += "".join(f"{name}: {value}\n" for name, value in (others or {}).items())
    return Export("TensorRT-LLM", version, ("--extra_llm_api_options", FILE), {FILE: text}, notes)


def _envelope(plan: Envelope, version: str, features: Features) -> tuple[Lines, tuple[str, ...]]:
    if not features.dynamic_tree:
        raise InputError(
            f"plan must be a list of ChainRange or a Tree for TensorRT-LLM {version}, got an Envelope: "
            "dynamic trees need 1.3 or newer (PR #13081)"
        )
    most = plan.branching * plan.levels
    if not plan.levels <= plan.nodes <= most:
        raise InputError(
            f"nodes must be between levels={plan.levels} and branching * levels={most} for TensorRT-LLM, "
            f"got {plan.nodes}: raise branching or lower nodes"
        )
    lines = {
        "max_draft_len": str(plan.levels),
        "use_dynamic_tree": "true",
        "dynamic_tree_max_topK": str(plan.branching),
        "max_total_draft_tokens": str(plan.nodes),
    }
    return lines, ("not for targets with MLA or sliding-window attention",)


def _ranges(ranges: list[ChainRange], version: str, features: Features) -> tuple[Lines, tuple[str, ...]]:
    longest = max(item.length for item in ranges)
    if ranges[0].length != longest:
        raise InputError(
            f"length of the first range must be the longest of all, got {ranges[0].length} where another range has "
            f"{longest}: TensorRT-LLM uses the length at batch size 1 as max_draft_len; shorten the other ranges, or "
            f"set the first length to {longest}"
        )
    lines = {"max_draft_len": str(longest)}
    last = ranges[-1]
    if len(ranges) == 1 and not features.upper_bounds:
        return lines, (f"TensorRT-LLM drafts {longest} token{'s' * (longest > 1)} at every batch size",)
    if features.upper_bounds:
        table = {item.last_batch: item.length for item in ranges if item != last or item.length > 0}
        notes = [
            f"above batch size {max(table)} this version does not speculate; before PR #10860 (2026-03-13), in "
            "early candidates of 1.3, keys were lower bounds"
        ]
        notes.append(
            "while drafting is off, the state of the draft goes stale, lowering acceptance (#16888, open in 2026-07)"
        )
    else:
        table = {item.first_batch: item.length for item in ranges}
        notes = [f"above batch size {last.last_batch} this version continues to draft {last.length} tokens"]
    lines["draft_len_schedule"] = "{" + ", ".join(f"{batch}: {length}" for batch, length in table.items()) + "}"
    return lines, tuple(notes)


def _tree(plan: Tree, version: str, features: Features) -> tuple[Lines, tuple[str, ...]]:
    if not features.static_tree:
        raise InputError(
            f"plan must be an Envelope or a list of ChainRange for TensorRT-LLM {version}, got a Tree: "
            "PR #18210 removed eagle_choices in 1.4; give the envelope of the tree"
        )
    choices = [list(path) for path in paths(plan, "TensorRT-LLM")]
    if plan.max_depth == 1:
        raise InputError(
            "tree must be at least 2 deep for TensorRT-LLM, got depth 1: the engine crashes on such trees (#10323)"
        )
    lines = {"max_draft_len": str(plan.max_depth), "eagle_choices": json.dumps(choices)}
    return lines, (
        "eagle_choices is deprecated, and removed in 1.4",
        "a user found that a wider tree accepts less, perhaps a fault of KV rewinding (#10343, open in 2025-12)",
    )
