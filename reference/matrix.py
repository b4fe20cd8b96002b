"""Drafters x verifiers x temperatures on one pair and its prompts: predicted tau beside measured tau.

Each combination is a Parquet file with one row per request, so that an interrupted matrix continues where it stopped.
The exact prediction is computed in every cycle, in float64, from the draft and the target's distributions there. Tau
minus that mean is a martingale difference, so that the sum of these differences over the root of the summed variances
is nearly normal. The positional prediction knows only the rates of a trace of other prompts. Nothing is timed here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reference import tracing
from reference.combinations import LEFT_OUT, Combination, best, lossless_combinations
from reference.decode import Cycle, Decoder
from reference.divergence import first_divergence
from reference.drafters import PlannedTree, SuffixArray, Variant
from reference.models import Pair
from reference.part_files import STAMP, claim, read_part, stamp_of, write_part
from reference.predictions import Positional, conditional
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import DrawRule, Tally, Tree
from spectheory.core.errors import InputError
from spectheory.results.calibration import Calibrated, Calibration
from spectheory.verify import Greedy

COLUMNS = pa.schema(
    [
        ("request", pa.int32()),
        ("tau", pa.list_(pa.int16())),
        ("expected", pa.list_(pa.float64())),
        ("variance", pa.list_(pa.float64())),
        ("nodes", pa.list_(pa.int16())),
        ("tokens", pa.list_(pa.int32())),
        ("identical", pa.bool_()),
        ("margin", pa.float64()),
    ]
)
"""One row per request. `tokens` is its text, the other lists are by cycle; the last two columns compare greedy texts
with plain decoding."""
ARROW = {"str": pa.string(), "int": pa.int64()}
SUMMARY = pa.schema([(field.name, ARROW.get(str(field.type), pa.float64())) for field in fields(Calibrated)])
MATRIX = "matrix.parquet"
PLAIN = Combination(Variant("plain decoding", "plain", PlannedTree(Tree.chain(0))), Greedy(), Sampling())


@dataclass(frozen=True)
class MatrixSettings:
    """Settings of a matrix, beside the pair and the prompts."""

    dataset: str
    new_tokens: int = 64
    seed: int = 0


@dataclass(frozen=True)
class Texts:
    """The tokens that a matrix works on.

    Attributes:
        traced: prompts of one length; their continuations give the rates of the positional prediction.
        measured: other prompts, decoded by every combination.
        stored: the corpus of the datastore drafter.
    """

    traced: list[list[int]]
    measured: list[list[int]]
    stored: list[list[int]]


class Matrix:
    """A matrix of combinations, kept in one folder.

    Args:
        folder: an empty folder, or that of the same matrix, which is continued.
        pair: target and draft.
        texts: tokens that are traced, decoded and stored.
        settings: name of the prompts, length of the texts, and seed.

    Raises:
        InputError: `folder` holds a matrix of other settings, prompts or weights, or there are no prompts.
    """

    def __init__(self, folder: Path, pair: Pair, texts: Texts, settings: MatrixSettings) -> None:
        if not texts.traced or not texts.measured:
            raise InputError(f"need prompts to trace and to measure, got {len(texts.traced)} and {len(texts.measured)}")
        self.folder, self.pair, self.texts, self.settings = folder, pair, texts, settings
        prompts = hashlib.sha256(json.dumps([texts.traced, texts.measured]).encode()).hexdigest()[:16]
        inputs = {"dataset": settings.dataset, "new_tokens": settings.new_tokens, "weights": pair.fingerprint}
        self.stamp = claim(folder, "matrix", seed=settings.seed, **pair.stamp, settings={**inputs, "prompts": prompts})
        self.positional = cache(self._traced)

    @property
    def temperatures(self) -> list[float]:
        """The temperatures at which the folder has results."""
        traced = [stamp_of(file.parent).temperature for file in self.folder.glob(f"trace-*/{STAMP}")]
        return sorted(t for t in traced if t is not None and any(self.folder.glob(f"*-temperature-{t:g}-*.parquet")))

    def combinations(
        self, temperatures: Sequence[float], done: Callable[[int, int], None] = lambda finished, total: None
    ) -> list[Combination]:
        """Every combination at these temperatures, each of which is traced first.

        `done` is called with the finished and all temperatures.
        """
        found, corpus = [], SuffixArray.build(self.texts.stored)
        for i, sampling in enumerate((Sampling(float(t)) for t in temperatures), start=1):
            found += lossless_combinations(
                sampling, self.positional(sampling).settled(best, DrawRule.NO_REPLACEMENT)[0], corpus
            )
            done(i, len(temperatures))
        return found

    def run(
        self, chosen: Sequence[Combination], done: Callable[[int, int], None] = lambda finished, total: None
    ) -> Calibration:
        """Decode what the folder lacks of `chosen`, and compare predictions with measurements; writes `matrix.parquet`.

        `done` is called with the finished and all combinations.
        """
        rows = []
        for combination in chosen:
            rows.append(self._calibrated(combination))
            done(len(rows), len(chosen))
        write_part(self.folder / MATRIX, (vars(row) for row in rows), SUMMARY)
        return Calibration(tuple(rows), LEFT_OUT, self.stamp)

    def file(self, combination: Combination) -> Path:
        """The file of one combination."""
        slug = re.sub(r"[^a-z0-9.]+", "-", combination.name.lower())
        return self.folder / f"{slug}-{combination.key:08x}.parquet"

    def part(self, combination: Combination) -> list[dict[str, Any]]:
        """The rows of one combination, by `COLUMNS`: read, or decoded and written where the file is missing."""
        file = self.file(combination)
        if not file.exists():
            write_part(
                file, (self._decoded(combination, request) for request in range(len(self.texts.measured))), COLUMNS
            )
        return read_part(file).to_pylist()

    @cached_property
    def _plain(self) -> list[list[int]]:
        """Each prompt's text by plain greedy decoding."""
        return [row["tokens"] for row in self.part(PLAIN)]

    def _traced(self, sampling: Sampling) -> Positional:
        """Trace the prompts at a temperature, for the positional prediction."""
        folder = self.folder / f"trace-{sampling.temperature:g}"
        settings = tracing.TraceSettings(
            dataset=self.settings.dataset,
            temperature=sampling.temperature,
            new_tokens=self.settings.new_tokens,
            seed=self.settings.seed,
        )
        tracing.record_trace(self.pair, self.texts.traced, settings, folder)
        return Positional(folder)

    def _decoded(self, combination: Combination, request: int) -> dict[str, Any]:
        """Decode one request: a row of the part."""
        pair, prompt = self.pair, self.texts.measured[request]
        row: dict[str, Any] = {"request": request, "tau": [], "expected": [], "variance": [], "nodes": []}

        def look(cycle: Cycle) -> None:
            values = len(cycle.emitted), *conditional(combination.verifier, cycle), cycle.draft.tree.budget
            for name, value in zip(("tau", "expected", "variance", "nodes"), values, strict=True):
                row[name].append(value)

        drafter, stop = combination.policy.drafter, pair.stop_tokens
        decoder = Decoder(pair, drafter, combination.sampling, combination.verifier, stop_tokens=stop)
        rngs = streams(pair, self.settings.seed, combination.key, request)
        row["tokens"] = decoder.generate(prompt, self.settings.new_tokens, *rngs, watch=look).tokens
        if combination.sampling.greedy and combination is not PLAIN:
            where = first_divergence(pair, prompt, self._plain[request], row["tokens"])
            row |= {"identical": row["tokens"] == self._plain[request], "margin": where and where.margin}
        return row

    def _calibrated(self, combination: Combination) -> Calibrated:
        """The numbers of one combination."""
        rows, policy, greedy = self.part(combination), combination.policy, combination.sampling.greedy
        tau, expected, variance, nodes = (
            np.concatenate([row[name] for row in rows]) for name in ("tau", "expected", "variance", "nodes")
        )
        taus = [np.array(row["tau"], np.int64) for row in rows]
        tally = Tally(
            emitted=np.array([one.sum() for one in taus]),
            cycles=np.array([len(one) for one in taus]),
            accepted_histogram=np.bincount(np.concatenate(taus) - 1),
        )
        low, high = tally.tau_interval() if len(rows) > 1 else (None, None)
        positional = (None,) * 3
        if policy.shape is not None:
            rule = policy.drafter.rule(combination.sampling)
            positional = self.positional(combination.sampling).tau(policy.shape, rule)
        margins = [row["margin"] for row in rows if row["margin"] is not None]
        return Calibrated(
            policy=policy.name,
            family=policy.family,
            verifier=combination.verifying,
            temperature=combination.sampling.temperature,
            requests=len(rows),
            cycles=len(tau),
            nodes=float(nodes.mean()),
            tau=tally.tau,
            tau_low=low,
            tau_high=high,
            exact=float(expected.mean()),
            z=z_score(tau, expected, variance),
            positional=positional[0],
            positional_low=positional[1],
            positional_high=positional[2],
            repeated_share=repeated_share([row["tokens"] for row in rows]),
            compared=len(rows) if greedy else 0,
            identical=sum(row["identical"] is True for row in rows),
            largest_margin=max(margins, default=None),
        )


def z_score(tau: np.ndarray, expected: np.ndarray, variance: np.ndarray) -> float | None:
    """Sum of tau - E[tau] over the root of the sum of Var[tau], over cycles; None where the variance is 0."""
    off, spread = float((tau - expected).sum()), float(np.sqrt(variance.sum()))
    if spread == 0:
        return math.copysign(math.inf, off) if off else None
    return off / spread


def repeated_share(texts: list[list[int]]) -> float | None:
    """Share of 4-grams that occurred earlier in the same text; None where no text has four tokens."""
    runs = [list(zip(*(text[i:] for i in range(4)), strict=False)) for text in texts]
    total = sum(map(len, runs))
    return 1 - sum(len(set(run)) for run in runs) / total if total else None
