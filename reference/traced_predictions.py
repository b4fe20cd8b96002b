"""`TracedPredictions`, what the traces of a matrix predict for a combination: by rates, by classes and by replay."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from reference import tracing
from reference.combinations import Combination, best, depth_of, shape_of
from reference.drafters import Drafter
from reference.models import Pair
from reference.predictions import Positional
from reference.replaying import OffTextError, replay_drafter, replays
from reference.sampling import Sampling
from reference.tracing import TraceSettings
from spectheory import DrawRule, RequestClasses, Tree
from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters
from spectheory.otlp import Naive
from spectheory.replay import Replayed, Replays, can_replay
from spectheory.verify import Greedy, TopDown

COUNTED = Tree.chain(5)
"""The chain from whose counts the request classes are fitted."""
Predicted = tuple[float | None, float | None, float | None]
"""A tau with its 95% limits; None where nothing is predicted."""
UNKNOWN: Predicted = (None, None, None)


class TracedPredictions:
    """Predictions from one trace for each sampling, each of which is recorded when it is first needed.

    Args:
        folder: folder of the matrix, which holds the folders of the traces.
        pair: target and draft.
        prompts: prompts of one length that are traced.
        settings: settings of the traces, whose sampling is replaced.
    """

    def __init__(self, folder: Path, pair: Pair, prompts: list[list[int]], settings: TraceSettings) -> None:
        self.folder, self.pair, self.prompts, self.settings = folder, pair, prompts, settings
        self.positional = cache(self._traced)
        self.replays = cache(self._replays)
        self.classes = cache(self._fitted_classes)

    def by_rates(self, combination: Combination) -> tuple[Predicted, Predicted]:
        """Tau by the product of rates, and tau by classes of contexts."""
        policy, sampling = combination.policy, combination.sampling
        if policy.shape is None:
            return UNKNOWN, UNKNOWN
        rule, rates, classes = policy.drafter.rule(sampling), self.positional(sampling), self.classes(sampling)
        positional = rates.tau(policy.shape, rule)
        if classes is None or (rule is DrawRule.TOP_K and not sampling.greedy):
            return positional, UNKNOWN
        tree = rates.settled(policy.shape, rule)[0]
        return positional, (classes.block_efficiency(tree), *classes.block_efficiency_interval(tree))

    def replayed(self, combination: Combination) -> Predicted:
        """Tau replayed on the traced texts."""
        drafter, sampling = combination.policy.drafter, combination.sampling
        shape = shape_of(drafter)
        if shape is None:
            found = self._followed(drafter, sampling)
        elif not can_replay(combination.verifier) or depth_of(shape) > self.replays(sampling).deepest:
            found = None
        else:
            rule = None if sampling.greedy else drafter.rule(sampling)
            found = self.replays(sampling).replay(shape, combination.verifier, rule)
        return UNKNOWN if found is None else (found.tau, *_limits(found))

    def _trace_folder(self, sampling: Sampling) -> Path:
        return self.folder / f"trace-{sampling.temperature:g}"

    def _traced(self, sampling: Sampling) -> Positional:
        """Trace the prompts with `sampling`, for the positional prediction."""
        folder = self._trace_folder(sampling)
        limits = {"top_k": sampling.top_k, "top_p": sampling.top_p}
        settings = replace(self.settings, temperature=sampling.temperature, **limits)
        tracing.record_trace(self.pair, self.prompts, settings, folder)
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

    def _followed(self, drafter: Drafter, sampling: Sampling) -> Replayed | None:
        """The cycles of a drafter whose shape depends on the text, on the traced texts; None if it reads the target."""
        self.positional(sampling)
        traced = [text.tolist() for text in tracing.by_request(self._trace_folder(sampling), "target_token")]
        try:
            return replay_drafter(self.pair, drafter, self.prompts, traced, sampling)
        except OffTextError:
            return None


def _limits(predicted: Replayed) -> tuple[float | None, float | None]:
    """The 95% interval of a replayed tau; None for one text."""
    return predicted.tau_interval() if clusters(predicted.cycles) > 1 else (None, None)
