"""vLLM's speculative config: keys, bounds and versions.

Versions: 0.11 to 0.32, from the sources below, read 2026-11-21. 0.33.0 existed then, but its source was not read.

- `speculative_token_tree`: since PR #20401 (2025-08), removed by PR #42121 (merged 2026-05-08, after 0.20.1).
- `synthetic_acceptance_rates`: PR #40662 (2026-04), counted from 0.21 on.
- `num_speculative_tokens_per_batch_size`: PR #32374 (merged 2026-06-14), first in the release notes of 0.24.0.

Methods, from vllm/config/speculative.py and v1/worker/gpu_model_runner.py of the source distributions of 0.11.0,
0.11.2, 0.12.0, 0.14.0, 0.15.1, 0.16.0 to 0.20.0, 0.24.0, 0.25.0 and 0.32.0: see `FIRST`. `mlp_speculator` is a name
that the config knows but the V1 runner refuses, in 0.11.0 as in 0.32.0, so it is refused here. In which version each
`*_mtp` came is not checked: most releases add some, and all of them accept `mtp`.

Keys: vllm/config/speculative.py at 002e77c1. `MAX_SPEC_LEN` in v1/sample/rejection_sampler.py is 128 in all of these
distributions. vLLM counts drafted tokens without the root, as spectheory does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.exports import Export, release
from spectheory.planning.runnable import ChainRange, Runnable, checked_ranges, is_chain_ranges, paths

MAX_SPEC_LEN = 128
FIRST_PARALLEL = 16
"""The minor number of the first version 0.minor that drafts all tokens in one forward of an EAGLE-3 head (P-EAGLE) or
of a draft model (PARD), with the key `parallel_drafting`: PR #32887, in the release notes of 0.16.0.
"""
WITH_MODEL = ("eagle", "eagle3", "draft_model", "medusa", "dflash", "dspark")
FIRST = {"suffix": 12, "draft_model": 15, "ngram_gpu": 18, "dflash": 20, "dspark": 25}
"""For each method that came after 0.11, the minor number of the first version 0.minor that has it.

- suffix: in 0.11.2, not in 0.11.0, counted from 0.12 on.
- draft_model: PR #24322; up to 0.14 NotImplementedError (https://github.com/vllm-project/vllm/issues/31883).
- ngram_gpu: PR #29184, not in 0.17.0.
- dflash: not in 0.19.0.
- dspark: PR #46995, not in 0.24.0.
"""
WITHOUT_MODEL = ("mtp", "suffix", "ngram", "ngram_gpu")


@dataclass(frozen=True)
class Keys:
    """Which keys of the speculative config a version has: for trees, synthetic acceptance, lengths by batch size."""

    tree: bool
    synthetic: bool
    schedule: bool


VERSIONS = {f"0.{minor}": Keys(minor <= 20, minor >= 21, minor >= 24) for minor in range(11, 33)}


def export(
    plan: Runnable,
    *,
    version: str,
    method: str,
    model: str | None,
    parallel: bool = False,
    synthetic_rates: Sequence[float] | None = None,
) -> Export:
    """The plan as `--speculative-config`.

    Args:
        plan: chains by batch size, or for versions before 0.21 a static tree.
        version: version of vLLM, such as "0.32.0".
        method: drafting method of vLLM, such as "eagle3".
        model: draft model or head; None for `mtp`, `suffix` and `ngram`.
        parallel: whether one forward of an EAGLE-3 head or of a draft model drafts all tokens (P-EAGLE, PARD).
        synthetic_rates: for measuring the plan's cost without a trained draft: entry i is the share of drafts whose
            first i + 1 tokens vLLM shall accept. It has one entry per token of the longest chain.

    Raises:
        InputError: the version cannot run the plan, or an argument is out of range.
    """
    number_of_version, keys = release("vLLM", version, VERSIONS)
    config: dict[str, Any] = {"method": method} | ({} if model is None else {"model": model})
    _check_method(method, model, number_of_version)
    if parallel:
        config["parallel_drafting"] = _checked_parallel(method, number_of_version)
    if isinstance(plan, Tree):
        added, notes = _tree_keys(plan, number_of_version, keys, method)
    elif is_chain_ranges(plan):
        added, notes = _range_keys(checked_ranges(plan), number_of_version, keys)
    else:
        raise InputError(
            f"plan must be a list of ChainRange for vLLM, got {type(plan).__name__}: vLLM drafts no trees (PR #42121 "
            "removed tree attention); export the best chain for each batch size"
        )
    config |= added
    if synthetic_rates is not None:
        config |= _synthetic_keys(synthetic_rates, config["num_speculative_tokens"], number_of_version, keys)
        notes.append("synthetic acceptance emits wrong text: use it only to measure cost")
    if method.startswith("ngram"):
        notes.append("add prompt_lookup_max, and prompt_lookup_min, to the config")
    return Export("vLLM", number_of_version, ("--speculative-config", json.dumps(config)), {}, tuple(notes))


def _check_method(method: str, model: str | None, version: str) -> None:
    without = method in WITHOUT_MODEL or method.endswith("_mtp")
    if method not in WITH_MODEL and not without:
        raise InputError(f"method must be one of {', '.join(WITH_MODEL + WITHOUT_MODEL)} or *_mtp, got {method!r}")
    if int(version.split(".")[1]) < FIRST.get(method, 0):
        others = [name for name in WITH_MODEL + WITHOUT_MODEL if int(version.split(".")[1]) >= FIRST.get(name, 0)]
        raise InputError(
            f"method must be one that vLLM {version} runs ({', '.join(others)}), got {method!r}, which "
            f"needs 0.{FIRST[method]} or newer"
        )
    if model is None and not without:
        raise InputError(f"model must name the draft for method={method!r}, got None")


def _checked_parallel(method: str, version: str) -> bool:
    if method not in ("eagle3", "draft_model"):
        raise InputError(f"parallel must be False for method={method!r}: vLLM has it for eagle3 and draft_model")
    if int(version.split(".")[1]) < FIRST_PARALLEL:
        raise InputError(f"parallel must be False for vLLM {version}: it needs 0.{FIRST_PARALLEL} or newer (PR #32887)")
    return True


def _check_chain(name: str, length: int) -> None:
    if length > MAX_SPEC_LEN:
        raise InputError(f"{name} must be at most MAX_SPEC_LEN={MAX_SPEC_LEN} of vLLM's sampler, got {length}")


def _range_keys(ranges: list[ChainRange], version: str, keys: Keys) -> tuple[dict[str, Any], list[str]]:
    longest = max(item.length for item in ranges)
    _check_chain("length", longest)
    if len(ranges) == 1:
        return {"num_speculative_tokens": longest}, [
            f"vLLM drafts {longest} token{'s' * (longest > 1)} at every batch size"
        ]
    if not keys.schedule:
        raise InputError(
            f"plan must have a single range for vLLM {version}, got {len(ranges)}: "
            "num_speculative_tokens_per_batch_size needs 0.24 or newer (PR #32374)"
        )
    table = [[item.first_batch, item.last_batch, item.length] for item in ranges]
    notes = [
        "vLLM ignores the table when data parallel > 1; full CUDA graphs need Model Runner V2",
        "Model Runner V2 ignored the table and drafted the longest chain (#51510, fix #57053 open in 2026-09)",
    ]
    if any(item.length == 0 for item in ranges):
        notes.append("a user saw throughput collapse at the batch size where the table turns to 0 (#49548, open)")
    return {"num_speculative_tokens": longest, "num_speculative_tokens_per_batch_size": table}, notes


def _tree_keys(tree: Tree, version: str, keys: Keys, method: str) -> tuple[dict[str, Any], list[str]]:
    if not keys.tree:
        raise InputError(
            f"plan must be a list of ChainRange for vLLM {version}, got a Tree: PR #42121 removed tree attention and "
            "speculative_token_tree; use vLLM 0.20, or export chains"
        )
    if method not in ("eagle", "eagle3"):
        raise InputError(f"method must be eagle or eagle3 for a tree, got {method!r}")
    found = paths(tree, "vLLM")
    _check_chain("nodes of the tree", len(found))
    note = "vLLM drafts the tree but verifies a chain only (#20401; the tree sampler #22752 was closed unmerged)"
    return {"num_speculative_tokens": len(found), "speculative_token_tree": str(found)}, [note]


def _synthetic_keys(rates: Sequence[float], longest: int, version: str, keys: Keys) -> dict[str, Any]:
    if not keys.synthetic:
        raise InputError(f"synthetic_rates must be None for vLLM {version}: they need 0.21 or newer (PR #40662)")
    if len(rates) != longest:
        raise InputError(f"synthetic_rates must have {longest} entries, one for each position, got {len(rates)}")
    for i, rate in enumerate(rates):
        if not 0 <= rate <= (rates[i - 1] if i else 1):
            raise InputError(f"synthetic_rates[{i}] must be a probability, and at most the entry before it, got {rate}")
    return {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [float(rate) for rate in rates]}
