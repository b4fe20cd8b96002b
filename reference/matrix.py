"""The matrix: every drafter with every verifier at every temperature on one pair, predicted and measured tau.

Each combination is a Parquet file with one row per request, so an interrupted matrix continues where it stopped. The
exact prediction is the mean of tau in each cycle, computed in float64 from the draft and the target's distributions.
Tau minus this mean is a martingale difference, so the sum of the differences divided by the root of the summed
variances is nearly normal. The positional prediction uses only rates from a trace of other prompts. Nothing is timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reference.combinations import LEFT_OUT, Combination, best, lossless_combinations
from reference.decode import Cycle, Decoder
from reference.divergence import first_divergence
from reference.drafters import PlannedTree, SuffixArray, Variant
from reference.matrix_scores import repeated_share, replay_z_score, z_score
from reference.models import Pair
from reference.part_files import STAMP, claim, only_writer, read_part, short_hash, stamp_of, write_part
from reference.predictions import conditional
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.traced_predictions import UNKNOWN, TracedPredictions
from reference.tracing import TraceSettings
from spectheory import DrawRule, Tally, Tree
from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters
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
"""One row per request. `tokens` is the text; the other lists have one entry per cycle; `identical` and `margin` compare
a greedy text with plain decoding."""
ARROW = {"str": pa.string(), "int": pa.int64()}
SUMMARY = pa.schema([(field.name, ARROW.get(str(field.type), pa.float64())) for field in fields(Calibrated)])
MATRIX = "matrix.parquet"
PLAIN = Combination(Variant("plain decoding", "plain", PlannedTree(Tree.chain(0))), Greedy(), Sampling())


@dataclass(frozen=True)
class MatrixSettings:
    """Settings of a matrix: `dataset` names the prompts, `top_k` and `top_p` hold above temperature 0."""

    dataset: str
    new_tokens: int = 64
    seed: int = 0
    top_k: int | None = None
    top_p: float = 1.0

    def sampling(self, temperature: float) -> Sampling:
        """The sampling at a temperature.

        Raises:
            InputError: a value is out of range.
        """
        limited = Sampling(temperature, self.top_k, self.top_p)
        return Sampling() if limited.greedy else limited


@dataclass(frozen=True)
class Texts:
    """The prompts and the corpus of a matrix, as token ids.

    Attributes:
        traced: prompts of one length, whose trace gives the rates of the positional prediction.
        measured: other prompts, which every combination decodes.
        stored: texts of the corpus of the datastore drafter.
    """

    traced: list[list[int]]
    measured: list[list[int]]
    stored: list[list[int]]


class Matrix:
    """A matrix of combinations, kept in one folder.

    Args:
        folder: empty folder, or folder of the same matrix, which is then continued.
        pair: target and draft.
        texts: prompts that are traced and decoded, and the corpus.
        settings: name of the prompts, length of the texts, and seed.

    Raises:
        InputError: `folder` holds a matrix of other settings, prompts or weights, or there are no prompts.
    """

    def __init__(self, folder: Path, pair: Pair, texts: Texts, settings: MatrixSettings) -> None:
        if not texts.traced or not texts.measured:
            raise InputError(f"need prompts to trace and to measure, got {len(texts.traced)} and {len(texts.measured)}")
        self.folder, self.pair, self.texts, self.settings = folder, pair, texts, settings
        prompts = short_hash([texts.traced, texts.measured])
        inputs = {"dataset": settings.dataset, "new_tokens": settings.new_tokens, "weights": pair.fingerprint}
        limits = {"top_k": settings.top_k, "top_p": None if settings.top_p == 1 else settings.top_p}
        stated = {"seed": settings.seed, **pair.stamp, **limits, "settings": {**inputs, "prompts": prompts}}
        self.stamp = claim(folder, "matrix", **stated)
        traced = TraceSettings(settings.dataset, new_tokens=settings.new_tokens, seed=settings.seed)
        self.predicted = TracedPredictions(folder, pair, texts.traced, traced)

    @property
    def temperatures(self) -> list[float]:
        """The temperatures at which the folder has results."""
        traced = [stamp_of(file.parent).temperature for file in self.folder.glob(f"trace-*/{STAMP}")]
        return sorted(t for t in traced if t is not None and any(self.folder.glob(f"*-temperature-{t:g}-*.parquet")))

    def combinations(
        self, temperatures: Sequence[float], done: Callable[[int, int], None] = lambda finished, total: None
    ) -> list[Combination]:
        """Trace the prompts at each temperature, and return every combination at these temperatures.

        `done` is called with the number of finished temperatures and the number of all.
        """
        found, corpus = [], SuffixArray.build(self.texts.stored)
        for i, sampling in enumerate((self.settings.sampling(float(t)) for t in temperatures), start=1):
            found += lossless_combinations(
                sampling, self.predicted.positional(sampling).settled(best, DrawRule.NO_REPLACEMENT)[0], corpus
            )
            done(i, len(temperatures))
        return found

    def run(
        self, chosen: Sequence[Combination], done: Callable[[int, int], None] = lambda finished, total: None
    ) -> Calibration:
        """Decode those combinations of `chosen` that the folder lacks, compare, and write `matrix.parquet`.

        `done` is called with the number of combinations that this call has decoded, and of all that it decodes.
        """
        rows = []
        with only_writer(self.folder):
            lacking = [combination for combination in chosen if not self.file(combination).exists()]
            done(0, len(lacking))
            for combination in chosen:
                rows.append(self._calibrated(combination))
                if combination in lacking:
                    done(lacking.index(combination) + 1, len(lacking))
            write_part(self.folder / MATRIX, (vars(row) for row in rows), SUMMARY)
        return Calibration(tuple(rows), LEFT_OUT, self.stamp)

    def file(self, combination: Combination) -> Path:
        """The Parquet file of one combination."""
        slug = re.sub(r"[^a-z0-9.]+", "-", combination.name.lower())
        return self.folder / f"{slug}-{combination.key:08x}.parquet"

    def part(self, combination: Combination) -> list[dict[str, Any]]:
        """The rows of one combination, with `COLUMNS`; if its file is missing, it is decoded and written first."""
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

    def _decoded(self, combination: Combination, request: int) -> dict[str, Any]:
        """Decode one request and return its row."""
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
        """Compare the predictions for one combination with its measurement."""
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
        low, high = tally.tau_interval() if clusters(tally.cycles) > 1 else (None, None)
        positional, by_classes = self.predicted.by_rates(combination)
        replayed = UNKNOWN if combination is PLAIN else self.predicted.replayed(combination)
        replay_z = None
        if replayed is not UNKNOWN:
            replay_z = replay_z_score(self.pair, combination, self.texts.measured, rows)
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
            classes=by_classes[0],
            classes_low=by_classes[1],
            classes_high=by_classes[2],
            replayed=replayed[0],
            replayed_low=replayed[1],
            replayed_high=replayed[2],
            replay_z=replay_z,
            repeated_share=repeated_share([row["tokens"] for row in rows]),
            compared=len(rows) if greedy else 0,
            identical=sum(row["identical"] is True for row in rows),
            largest_margin=max(margins, default=None),
        )
