"""The matrix: every drafter with every verifier at every temperature on one pair, predicted and measured tau.

Each combination is a Parquet file with one row per request, so an interrupted matrix continues where it stopped. The
exact prediction is the mean of tau in each cycle, computed in float64 from the draft and the target's distributions.
Tau minus this mean is a martingale difference, so the sum of the differences divided by the root of the summed
variances is nearly normal. The positional prediction uses only rates from a trace of other prompts. Nothing is timed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reference import tracing
from reference.combinations import LEFT_OUT, Combination, best, lossless_combinations
from reference.decode import Cycle, Decoder
from reference.divergence import first_divergence
from reference.drafters import Drafter, Drawn, PlannedTree, SuffixArray, Variant
from reference.measuring import count_fourgrams
from reference.models import Pair
from reference.part_files import STAMP, claim, only_writer, read_part, short_hash, stamp_of, write_part
from reference.predictions import Positional, conditional
from reference.random_streams import streams
from reference.replaying import OffTextError, replay_drafter, replays
from reference.sampling import Sampling
from reference.teacher_forcing import forced_texts
from spectheory import DrawPolicy, DrawRule, RequestClasses, Tally, Tree
from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters
from spectheory.otlp import Naive
from spectheory.replay import Replayed, Replays
from spectheory.results.calibration import Calibrated, Calibration
from spectheory.verify import Greedy, TopDown

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
SAMPLES = 2
"""Replays of a combination's own texts, each with its own draws of the siblings."""
COUNTED = Tree.chain(5)
"""The chain from whose counts the request classes are fitted."""
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
        self.positional = cache(self._traced)
        self.replays = cache(self._replays)
        self.classes = cache(self._fitted_classes)

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
                sampling, self.positional(sampling).settled(best, DrawRule.NO_REPLACEMENT)[0], corpus
            )
            done(i, len(temperatures))
        return found

    def run(
        self, chosen: Sequence[Combination], done: Callable[[int, int], None] = lambda finished, total: None
    ) -> Calibration:
        """Decode those combinations of `chosen` that the folder lacks, compare, and write `matrix.parquet`.

        `done` is called with the number of finished combinations and the number of all.
        """
        rows = []
        with only_writer(self.folder):
            for combination in chosen:
                rows.append(self._calibrated(combination))
                done(len(rows), len(chosen))
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

    def _traced(self, sampling: Sampling) -> Positional:
        """Trace the prompts with `sampling`, for the positional prediction."""
        folder = self._trace_folder(sampling)
        settings = tracing.TraceSettings(
            dataset=self.settings.dataset,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            new_tokens=self.settings.new_tokens,
            seed=self.settings.seed,
        )
        tracing.record_trace(self.pair, self.texts.traced, settings, folder)
        return Positional(folder)

    def _replays(self, sampling: Sampling) -> Replays:
        """The traced texts, ready to replay."""
        self.positional(sampling)
        return replays(self._trace_folder(sampling), self.pair, seed=self.settings.seed)

    def _fitted_classes(self, sampling: Sampling) -> RequestClasses | None:
        """Classes of contexts, from the counts that an engine with the chain `COUNTED` gives on the traced prompts."""
        verifier = Greedy() if sampling.greedy else TopDown(Naive())
        counted = self.replays(sampling).replay(COUNTED, verifier, DrawRule.IID).accepted
        later = self.positional(sampling).settled(best, DrawRule.NO_REPLACEMENT)[1]
        try:
            return RequestClasses.from_histogram(np.rint(counted).astype(np.int64)).with_ranks(later)
        except InputError:
            return None

    def _trace_folder(self, sampling: Sampling) -> Path:
        return self.folder / f"trace-{sampling.temperature:g}"

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
        positional = by_classes = (None,) * 3
        if policy.shape is not None:
            rule, rates = policy.drafter.rule(combination.sampling), self.positional(combination.sampling)
            positional, tree = rates.tau(policy.shape, rule), rates.settled(policy.shape, rule)[0]
            classes = self.classes(combination.sampling)
            if classes is not None and (greedy or rule is not DrawRule.TOP_K):
                by_classes = classes.block_efficiency(tree), *classes.block_efficiency_interval(tree)
        replayed = self._replayed(combination, rows)
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
            replay_z=replayed[3],
            repeated_share=repeated_share([row["tokens"] for row in rows]),
            compared=len(rows) if greedy else 0,
            identical=sum(row["identical"] is True for row in rows),
            largest_margin=max(margins, default=None),
        )

    def _replayed(
        self, combination: Combination, rows: list[dict[str, Any]]
    ) -> tuple[float | None, float | None, float | None, float | None]:
        """Tau replayed on the traced texts with its 95% limits, and the z of the measured cycles on their own texts."""
        drafter, sampling, verifier = combination.policy.drafter, combination.sampling, combination.verifier
        shape = shape_of(drafter)
        if shape is None:
            predicted = self._followed(drafter, sampling)
            return (None, None, None, None) if predicted is None else (predicted.tau, *_limits(predicted), None)
        if depth_of(shape) > self.replays(sampling).deepest or combination is PLAIN:
            return None, None, None, None
        rule = None if sampling.greedy else drafter.rule(sampling)
        predicted = self.replays(sampling).replay(shape, verifier, rule)
        z = None if sampling.greedy else self._replay_z(combination, rows, shape)
        return predicted.tau, *_limits(predicted), z

    def _replay_z(self, combination: Combination, rows: list[dict[str, Any]], shape: Tree | DrawPolicy) -> float | None:
        """Cycles counted in the measured texts, less the number that replay expects on them, in standard deviations.

        Sampled siblings make the expected number an estimate. The variance given the text is the mean of the variances
        that the samples compute plus the variance between samples; that of the mean of the samples is added.
        """
        sampling, depth = combination.sampling, depth_of(shape)
        texts = list(forced_texts(self.pair, self.texts.measured, [row["tokens"] for row in rows], sampling))
        if Replays(texts).deepest < depth:
            return None
        rule = combination.policy.drafter.rule(sampling)
        expected = [Replays(texts, seed=i).replay(shape, combination.verifier, rule) for i in range(SAMPLES)]
        cycles = np.array([one.cycles for one in expected])
        variance = np.mean([one.variance for one in expected], 0) + (1 + 1 / SAMPLES) * cycles.var(0, ddof=1)
        counted = sum(
            (1 + np.cumsum([0, *row["tau"][:-1]]) < len(row["tokens"]) - depth).sum() for row in rows if row["tau"]
        )
        spread = math.sqrt(max(0.0, variance.sum()))
        return float(counted - cycles.mean(0).sum()) / spread if spread else None

    def _followed(self, drafter: Drafter, sampling: Sampling) -> Replayed | None:
        """The cycles of a drafter whose shape depends on the text, on the traced texts; None if it reads the target."""
        self.positional(sampling)
        traced = [text.tolist() for text in tracing.by_request(self._trace_folder(sampling), "target_token")]
        try:
            return replay_drafter(self.pair, drafter, self.texts.traced, traced, sampling)
        except OffTextError:
            return None


def _limits(predicted: Replayed) -> tuple[float | None, float | None]:
    """The 95% interval of a replayed tau; None for one text."""
    return predicted.tau_interval() if clusters(predicted.cycles) > 1 else (None, None)


def z_score(tau: np.ndarray, expected: np.ndarray, variance: np.ndarray) -> float | None:
    """Sum of tau - E[tau] divided by the root of the sum of Var[tau]; without variance None, or infinite if off."""
    off, spread = float((tau - expected).sum()), float(np.sqrt(variance.sum()))
    if spread == 0:
        return math.copysign(math.inf, off) if off else None
    return off / spread


def repeated_share(texts: list[list[int]]) -> float | None:
    """Share of four-token runs that occurred earlier in the same text; None if no text has four tokens."""
    total, repeated = np.sum([count_fourgrams(text) for text in texts], axis=0).tolist()
    return repeated / total if total else None


def shape_of(drafter: Drafter) -> Tree | DrawPolicy | None:
    """The shape that a drafter drafts in every cycle; None if it depends on the text."""
    if isinstance(drafter, PlannedTree):
        return drafter.tree
    return drafter.policy if isinstance(drafter, Drawn) else None


def depth_of(shape: Tree | DrawPolicy) -> int:
    """Depth of the deepest node that a shape can have."""
    if isinstance(shape, Tree):
        return shape.max_depth
    return next(depth for depth in count() if not shape.draws(depth, 1))
