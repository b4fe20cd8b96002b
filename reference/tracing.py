"""Traces: the rank of the target's token among the draft's candidates, at every position of a text.

The text is the target's own continuation of each prompt, and every position has a row. At temperature 0 the candidates
are the draft's top k. Above it they are drawn without replacement, and the naive solver emits the next token given the
candidates. The solver is lossless, so the text has the target's distribution, and the row has the rank of the token
among the candidates.

The candidates of a draft head depend on how many of the last tokens the cycle has drafted, so a row has a rank for each
depth. There the target writes the text first, and the candidates are drawn given the text: see `candidates_given`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from jaxtyping import Int

from reference.heads import Head
from reference.models import Pair
from reference.part_files import STAMP, claimed, read_part, short_hash, stamp_of, write_part
from reference.trace_rows import DEEPER, TraceSettings, columns_of, trace_rows
from spectheory import Acceptance, Tree
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

PROMPTS = "prompts.json"
"""File of the prompts, a list of token ids for each request."""


def record_trace(
    pair: Pair,
    prompts: list[list[int]],
    settings: TraceSettings,
    folder: Path,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> None:
    """Write a trace to files `part-*.parquet` in `folder`, one file for each batch of prompts.

    A file is written whole or not at all, and existing files are kept, so a call after an interruption continues. All
    prompts have one length. `done` is called with the number of tokens that this call has generated for all prompts,
    and of all that it generates.

    Raises:
        InputError: prompts differ in length, are too short for a head or do not fit the context, or `folder` holds a
            trace with other settings, prompts or weights, or is in use by another process.
        LogitsError: a model returns logits that give no probabilities.
    """
    lengths = {len(prompt) for prompt in prompts}
    if len(lengths) != 1:
        raise InputError(f"prompts must all have the same length, got lengths {sorted(lengths)}")
    length = lengths.pop()
    if length < 2 and isinstance(pair.draft, Head):
        raise InputError("prompts must have at least 2 tokens for a draft head, which drafts nothing after the first")
    need = length + settings.new_tokens
    if need > pair.context:
        raise InputError(
            f"prompts and new tokens need a context of {need}, these models have {pair.context}: shorten one of them"
        )
    if settings.candidates > pair.vocab_size:
        raise InputError(f"candidates must be at most the vocabulary of {pair.vocab_size}, got {settings.candidates}")
    inputs = {"prompts": short_hash(prompts), "weights": pair.fingerprint}
    with claimed(folder, "trace", **settings.provenance(pair, inputs)):
        _write_prompts(folder / PROMPTS, json.dumps(prompts))
        firsts = range(0, len(prompts), settings.batch)
        lacking = [first for first in firsts if not (folder / _part_name(first)).exists()]
        batches = [prompts[first : first + settings.batch] for first in lacking]
        finished, total = 0, settings.new_tokens * sum(map(len, batches))
        for first, rows in zip(lacking, batches, strict=True):
            step = partial(_report, done, finished, len(rows), total)
            found = trace_rows(pair, rows, settings, first, step)
            write_part(folder / _part_name(first), found, settings.columns(pair))
            finished += settings.new_tokens * len(rows)


def _report(done: Callable[[int, int], None], finished: int, rows: int, total: int, place: int) -> None:
    """Report that `rows` prompts have `place` tokens each, after `finished` tokens of other batches."""
    done(finished + rows * place, total)


def _write_prompts(file: Path, text: str) -> None:
    """Write the prompts, unless the file holds them."""
    if not file.exists() or file.read_bytes() != text.encode():
        write_whole(file, text)


def acceptance(
    folder: Path,
    *,
    max_depth: int = 16,
    min_trials: int = 100,
    policy: Tree | None = None,
    top: bool = False,
) -> Acceptance:
    """Rates by depth and rank from a recorded trace, with their counts; see `Acceptance.from_ranks`.

    Args:
        folder: folder that holds the trace.
        max_depth: maximum depth with rates of its own.
        min_trials: minimum number of visits that a depth needs to have rates of its own.
        policy: tree whose cycles decide which positions are counted: those where a cycle starts; None counts all.
        top: whether the candidates are the draft's most probable tokens, see `ranks`.

    Raises:
        InputError: the folder holds no trace, or a part of it is damaged.
    """
    texts, stamp = ranks(folder, top=top), stamp_of(folder)
    return Acceptance.from_ranks(
        texts,
        ranks=int(str(stamp.settings["candidates"])),
        max_depth=max_depth,
        min_trials=min_trials,
        policy=policy,
        provenance=stamp.replace(
            settings=stamp.settings
            | {"counted": "at every position" if policy is None else f"where cycles of {policy} start"}
        ),
    )


def ranks(folder: Path, *, top: bool = False) -> list[Int[np.ndarray, "*depths n"]]:
    """For each request the ranks of the target's tokens among the candidates, one per position; -1 for no candidate.

    A trace of a draft head has a row of ranks for each depth. With `top` the candidates are the draft's most probable
    tokens, for the rates of sample and match; else they are the drawn tokens. At temperature 0 both are the same.
    Raises InputError as `acceptance` does.
    """
    column = "target_top_rank" if top else "target_rank"
    found = by_request(folder, column)
    if _depths(folder) == 1:
        return found
    return [
        np.column_stack([own, *below.T]).T for own, below in zip(found, by_request(folder, DEEPER[column]), strict=True)
    ]


def _depths(folder: Path) -> int:
    """At how many depths the candidates of a trace were recorded: 1 for a draft model."""
    depths = stamp_of(folder).settings.get("depths", 1)
    if not isinstance(depths, int) or depths < 1:
        raise InputError(f"{folder / STAMP} has depths {depths!r:.60}: record the trace again")
    return depths


def by_request(folder: Path, column: str) -> list[Int[np.ndarray, "n ..."]]:
    """A column of the trace in a folder, one array for each request. Raises InputError as `acceptance` does."""
    parts = sorted(folder.glob("part-*.parquet"))
    if not parts or not (folder / STAMP).exists():
        raise InputError(f"{folder} holds no trace: record one with `spectheory trace`")
    stamp = stamp_of(folder)
    batch, new_tokens, candidates = (stamp.settings.get(name) for name in ("batch", "new_tokens", "candidates"))
    if not (isinstance(batch, int) and isinstance(new_tokens, int) and isinstance(candidates, int)):
        raise InputError(f"{folder / STAMP} is not of a trace: record the trace again")
    allowed = range(np.iinfo(np.int32).max) if column == "target_token" else range(-1, candidates)
    texts: list[np.ndarray] = []
    for part, first in zip(parts, count(0, batch), strict=False):
        if part.name != (name := _part_name(first)):
            raise InputError(f"{folder} lacks {name}: repeat `spectheory trace` to have it recorded")
        found = _texts_of(part, first, column, new_tokens, allowed, _depths(folder))
        if found is None or len(found) > batch or (len(found) < batch and part is not parts[-1]):
            raise InputError(
                f"{part} does not hold the requests from {first} on, position by position, with values from "
                f"{allowed.start} to {allowed.stop - 1} as {column}: remove it and record again"
            )
        texts += found
    return texts


def _part_name(first: int) -> str:
    return f"part-{first:06d}.parquet"


def _texts_of(
    part: Path, first: int, column: str, new_tokens: int, allowed: range, depths: int
) -> list[np.ndarray] | None:
    """A column of one part by request; None if requests, positions or values cannot be those of this part."""
    names, known = ["request_id", "pos", column], columns_of(depths)
    table = read_part(part, names)
    if any(table[name].type != known.field(name).type or table[name].null_count for name in names):
        return None
    request, positions = (table[name].to_numpy() for name in names[:2])
    values = table[column].to_numpy()
    if column in DEEPER.values():
        flat = table[column].combine_chunks().flatten()
        if flat.null_count:
            return None
        values = flat.to_numpy().reshape(-1, depths - 1)
    numbers = np.unique(request)
    if numbers.tolist() != list(range(first, first + len(numbers))) or not len(numbers):
        return None
    if values.min() < allowed.start or values.max() >= allowed.stop:
        return None
    places = [positions[request == number] for number in numbers]
    if any(len(place) > new_tokens or (place != np.arange(len(place))).any() for place in places):
        return None
    return [values[request == number] for number in numbers]
