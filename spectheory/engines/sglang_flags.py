"""SGLang's flags for an envelope, and its adaptive config for chains by batch size.

Versions 0.5.12 to 0.5.23, from the wheels of 0.5.12, 0.5.15, 0.5.18 and 0.5.23, read 2026-11-22 (server_args.py,
arg_groups/speculative_hook.py, speculative/adaptive_spec_params.py). NEXTN is another name of EAGLE. Batch sizes as
keys of the adaptive config: PR #24055, not in 0.5.12, in 0.5.15; 0.5.13 and 0.5.14 were not read and are assumed not to
have them.

`--speculative-num-draft-tokens` counts the root: it is n + 1 for n drafted nodes. Levels and steps are the same. Keys
of the adaptive config are lower bounds: batch size b, padded to a captured CUDA graph, uses the largest key <= b.
"""

from __future__ import annotations

import json

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.exports import Export, release
from spectheory.planning.runnable import ChainRange, Envelope, Runnable, checked_ranges, is_chain_ranges

ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK")
ADAPTIVE_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN")
ONE_CHAIN = {"NGRAM": ("--speculative-ngram-max-bfs-breadth", "1"), "DFLASH": (), "DSPARK": ()}
"""The algorithms that draft one chain of the same length at all batch sizes, and flags that they need for this."""
FIRST_DSPARK = 18
"""The first version 0.5.patch that has DSPARK, of those that were read: 0.5.15 does not have it."""
ADAPTIVE_FILE = "adaptive.json"
VERSIONS = {f"0.5.{patch}": patch >= 15 for patch in range(12, 24)}
"""The versions, and whether their adaptive config takes batch sizes."""


def export(plan: Runnable, *, version: str, algorithm: str, model: str | None) -> Export:
    """The plan as flags of `sglang.launch_server`, with an adaptive config for chains by batch size.

    Args:
        plan: envelope, or chains by batch size.
        version: version of SGLang, such as "0.5.23".
        algorithm: drafting algorithm of SGLang, such as "EAGLE3".
        model: draft model; None if the target has a draft of its own.

    Raises:
        InputError: the version cannot run the plan, or an argument is out of its bounds.
    """
    key, by_batch = release("SGLang", version, VERSIONS, parts=3)
    if algorithm not in ALGORITHMS:
        raise InputError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    args = ["--speculative-algorithm", algorithm]
    args += [] if model is None else ["--speculative-draft-model-path", model]
    if algorithm == "DSPARK" and int(key.split(".")[2]) < FIRST_DSPARK:
        raise InputError(
            f"algorithm must be another than DSPARK for SGLang {key}: it needs 0.5.{FIRST_DSPARK} or newer"
        )
    if algorithm in ONE_CHAIN:
        return _one_chain(plan, key, algorithm, args)
    if isinstance(plan, Envelope):
        return _envelope(plan, key, args)
    if isinstance(plan, Tree):
        raise InputError(
            "plan must be an Envelope or a list of ChainRange for SGLang, got a Tree: give the envelope of the tree"
        )
    if not is_chain_ranges(plan):
        raise InputError(f"plan must be an Envelope or a list of ChainRange, got {type(plan).__name__}")
    ranges = checked_ranges(plan)
    if len(ranges) == 1:
        length = ranges[0].length
        return _envelope(Envelope(length, 1, length), key, args)
    if not by_batch:
        raise InputError(
            f"plan must have a single range for SGLang {key}, got {len(ranges)}: "
            "its adaptive config has no batch sizes; use SGLang 0.5.15 or newer (PR #24055)"
        )
    if algorithm not in ADAPTIVE_ALGORITHMS:
        raise InputError(f"algorithm must be EAGLE, EAGLE3 or NEXTN for chains by batch size, got {algorithm!r}")
    return _adaptive(ranges, key, args)


def _one_chain(plan: Runnable, version: str, algorithm: str, args: list[str]) -> Export:
    """The number of verified tokens, with the root: these algorithms have no steps and no branches to choose."""
    ranges = checked_ranges(plan) if is_chain_ranges(plan) else []
    if len(ranges) != 1:
        raise InputError(
            f"plan must be one ChainRange for {algorithm} of SGLang, got {plan!s:.80}: it drafts one chain"
        )
    flags = ("--speculative-num-draft-tokens", str(ranges[0].length + 1), *ONE_CHAIN[algorithm])
    return Export("SGLang", version, (*args, *flags))


def _flags(steps: int, topk: int, nodes: int) -> list[str]:
    """All three flags, because SGLang requires all or none. SGLang counts the root as a draft token."""
    return [
        *("--speculative-num-steps", str(steps)),
        *("--speculative-eagle-topk", str(topk)),
        *("--speculative-num-draft-tokens", str(nodes + 1)),
    ]


def _envelope(plan: Envelope, version: str, args: list[str]) -> Export:
    if plan.branching == 1 and plan.nodes != plan.levels:
        raise InputError(
            f"nodes must be levels={plan.levels} for branching=1, got {plan.nodes}: with topk 1 SGLang always "
            "verifies steps + 1 tokens"
        )
    notes = ()
    if plan.branching > 1:
        notes = ("topk > 1 with page_size > 1 needs the attention backend flashinfer, fa3 or triton",)
    return Export("SGLang", version, (*args, *_flags(plan.levels, plan.branching, plan.nodes)), {}, notes)


def _adaptive(ranges: list[ChainRange], version: str, args: list[str]) -> Export:
    longest = max(item.length for item in ranges)
    config = {str(item.first_batch): {"candidate_steps": [item.length]} for item in ranges}
    args += [*_flags(longest, 1, longest), "--speculative-adaptive", "--speculative-adaptive-config", ADAPTIVE_FILE]
    notes = (
        "a batch is padded to the next captured CUDA graph before its range is looked up: capture the last batch size "
        f"of each range, {', '.join(str(item.last_batch) for item in ranges)} (--cuda-graph-bs)",
        f"above batch size {ranges[-1].last_batch} SGLang continues with {ranges[-1].length} steps",
        "with attention DP, two-batch overlap, pdmux or multi-layer EAGLE, SGLang falls back to fixed steps",
    )
    return Export("SGLang", version, tuple(args), {ADAPTIVE_FILE: json.dumps(config, indent=1) + "\n"}, notes)
