"""Acceptance rates of published heads, from the tokens per target call that their publishers measured."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError, unknown
from spectheory.core.files import shipped
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.engines.statistics import RANK_0_ONLY, constant
from spectheory.hardware.model_config import MTP
from spectheory.hardware.models import draft_of, kind_named, model


@cache
def published_rows() -> dict[str, dict[str, str]]:
    """The rows of `data/published_rates.csv`, by names such as `eagle3:llama-3.1-8b`."""
    text = shipped("published_rates.csv")
    return {f"{row['draft']}:{row['target']}": row for row in csv.DictReader(text.splitlines())}


def published_rates(name: str) -> Acceptance:
    """The rates of a published head by the kind of head and its target, such as `eagle3:llama-3.1-8b`.

    tau was published for chains of a few lengths. Between two of these lengths, and before the first, one rate holds.
    It is rounded, so single rates are noisy: tokens beyond the longest chain take the lowest of the rates.

    Raises:
        InputError: no rates are known for this head; the message lists similar names.

    >>> rates = published_rates("eagle3:meta-llama/Llama-3.1-8B-Instruct").table[:, 0]
    >>> round(float(1 + rates[0] + rates[0] * rates[1]), 2)
    2.36
    """
    kind, _, named = name.partition(":")
    target = model(named)
    assert target.design is not None, "a model by its name"
    key = f"{kind_named(kind) or kind}:{target.design.fields.where}"
    if (row := published_rows().get(key)) is None:
        raise InputError(unknown("published rates", key, published_rows()))
    table = _rates(list(zip(map(int, row["lengths"].split()), map(float, row["taus"].split()), strict=True)))
    if row["draft"] != MTP:  # whose depth plans do not exceed
        table.append(min(table))
    draft = draft_of(target, kind)
    said = f"rates of {key} as published, {row['source']}, texts {row['texts']}, from tau of chains of {row['lengths']}"
    stamp = Provenance(row["url"], target=target.design.fields.where, draft=draft.name if draft else None)
    return Acceptance(np.array(table), provenance=stamp.assuming(RANK_0_ONLY, said))


def stated_rates(text: str) -> Acceptance:
    """The rates of chains whose tokens per target call you know: `tau=2.7@3` for a chain of 3, `tau=2.1@2,2.7@3`.

    Raises:
        InputError: no chain of this length has this tau.

    >>> stated_rates("tau=2.533@3").table[:, 0].round(3).tolist()
    [0.7, 0.7, 0.7]
    """
    if not re.fullmatch(r"tau=(\d{1,9}\.?\d*@\d{1,3},?)+", text):
        raise InputError(f"tau must be given with its chain of at most 999, such as tau=2.7@3, got {text!r:.80}")
    points = [(int(length), float(tau)) for tau, length in re.findall(r"([\d.]+)@(\d+)", text)]
    for (before, low), (length, tau) in pairwise([(0, 1.0), *points]):
        if not before < length or not low <= tau <= low + length - before:
            raise InputError(f"tau of chain {length} must be from {low:g} to {low + length - before:g}, got {tau:g}")
    stamp = Provenance("the command line").assuming(RANK_0_ONLY, f"the rates up to {text} are alike")
    table = np.array(_rates(points))
    return Acceptance(table, provenance=stamp, cycles_of=Tree.chain(points[-1][0]))


def _rates(points: Sequence[tuple[int, float]]) -> list[list[float]]:
    """The rates by depth with which chains of increasing lengths have these tau: alike between two lengths."""
    table, reach = [], 1.0
    for (before, low), (length, tau) in pairwise([(0, 1.0), *points]):
        rates = constant(1 + (tau - low) / reach, length - before).table
        table, reach = [*table, *rates.tolist()], reach * float(rates.prod())
    return table
