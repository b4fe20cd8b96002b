"""`RooflineInputs`: the deployment from which a roofline computes the seconds of a latency."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.hardware.deployment_class import ClassErrors, deployment_class
from spectheory.hardware.engine_costs import EngineCosts, split
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.pairs import require_pair
from spectheory.hardware.roofline import Roofline
from spectheory.hardware.uncertainty import CostUncertainty


@dataclass(frozen=True)
class RooflineInputs:
    """The deployment from which a roofline computes the seconds of a latency.

    Attributes:
        place: GPUs, batch, context and costs.
        target, draft: the models, without their single weights; the draft is None if drafts are looked up.
        engine: the engine, such as `vllm` or `vllm@0.11`.
        given: whether the costs are the caller's, as after a calibration, not those of the engine in the table.
        uncertainty: how uncertain the costs are after a calibration; None if they are those of the table, or if that is
            unknown.
    """

    place: Roofline
    target: ModelConfig
    draft: ModelConfig | None
    engine: str
    given: bool = False
    uncertainty: CostUncertainty | None = None

    def __post_init__(self) -> None:
        split(self.engine)
        if self.uncertainty is not None and not self.given:
            raise InputError("uncertainty is for given costs, but these are of the table: give uncertainty=None")

    @classmethod
    def checked(cls, place: Roofline, target: ModelConfig, draft: ModelConfig | None, engine: str, given: bool) -> Self:
        """The inputs, of which the models and the curves have only what the roofline uses.

        Raises:
            InputError: the draft cannot draft for the target, the context is too long for the models, or the models and
                the cache do not fit into the memory of the GPUs.
        """
        longest = math.ceil(place.context if place.last_context is None else place.last_context)
        require_pair(target, target if draft is None else draft, longest)
        place.require_memory(target, draft)
        known = [one for one in (target, draft) if one is not None]
        curves = tuple(curve for curve in place.curves if any(curve.holds(one, place.gpu) for one in known))
        models = [one and replace(one, design=None, prediction=None) for one in (target, draft)]
        return cls(replace(place, curves=curves), models[0] or target, models[1], engine, given)

    @property
    def provenance(self) -> Provenance:
        """The provenance of the computed seconds, with all assumptions except those on drafting."""
        return self.place.provenance(self.target, self.draft, self.engine, given=self.given)

    def at(self, batch: int) -> Self:
        """The same with another batch size, and as many tokens of prompts for each sequence."""
        prompts = self.place.prefill_tokens * batch / self.place.batch
        return replace(self, place=replace(self.place, batch=batch, prefill_tokens=prompts))

    def with_costs(self, costs: EngineCosts) -> Self:
        """The same with other costs."""
        return replace(self, place=replace(self.place, costs=costs))

    def seconds(self, tokens: Sequence[int]) -> dict[str, Any]:
        """The seconds of forwards of these numbers of tokens, and the overheads, by the names of `Latency`."""
        target = self.place.forward_seconds(self.target, tokens)[None]
        drafted, prompts = np.zeros_like(target), 0.0
        if self.draft is not None:
            drafted = self.place.of_draft.forward_seconds(self.draft, tokens)[None]
            prompts = self.place.of_draft.prefill_seconds(self.draft)
        return {
            "target_seconds": target,
            "draft_seconds": drafted,
            "prompt_seconds": self.place.prefill_seconds(self.target),
            "draft_prompt_seconds": prompts,
            **vars(replace(self.place, prefill_tokens=0.0).overheads(self.target, self.draft)),
        }

    @property
    def fits(self) -> bool:
        """Whether the models and their caches fit into memory."""
        offered = self.place.costs.memory_share * self.place.gpu.memory_bytes
        return self.place.memory_needed(self.target, self.draft) <= offered

    def largest_batch(self, most: int) -> int:
        """The largest batch size up to `most` that fits into memory; 0 if none does."""
        return bisect_left(range(1, most + 1), True, key=lambda batch: not self.at(batch).fits)

    @property
    def class_errors(self) -> ClassErrors:
        """The errors that deployments of this class had in the validation."""
        name = deployment_class(self.engine, self.target, self.place.gpus, self.place.batch)
        return ClassErrors.of(name, calibrated=self.given)

    @property
    def cost_uncertainty(self) -> CostUncertainty | None:
        """How uncertain the costs are; None if they were given without a calibration."""
        return self.uncertainty if self.given else CostUncertainty.of_engine(self.engine)

    @property
    def engine_name(self) -> str:
        """The name of the engine without its version."""
        return split(self.engine)[0]
