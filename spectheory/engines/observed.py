"""`Observed`: what a server did for a while, from its log or its metrics; and how an engine is observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spectheory.core.errors import InputError
from spectheory.engines.statistics import Statistics

Cause = Literal["acceptance", "draft", "verification", "batch", "overhead"]
"""What can make speculation slow."""


@dataclass(frozen=True, eq=False)
class Observed:
    """What one served model did for a while. A figure that the log or the metrics do not have is None.

    Attributes:
        engine: title of the engine, such as "vLLM".
        kind: kind of the report, such as "vllm-metrics".
        model: value of the label that tells the models of a server apart; "" without such a label.
        statistics: what was drafted and accepted; None if the server did not speculate.
        tau: tokens per target call; 1 without speculation.
        nodes: drafted tokens per cycle, the root excluded; 0 without speculation.
        depth: positions or levels of a draft.
        batch: mean number of sequences that decode together.
        step_seconds: mean seconds of a cycle, or of a plain step without speculation.
        draft_seconds: seconds of a cycle in which the draft runs.
        prompt_tokens: mean tokens of a prompt.
        cached_share: share of the prompts' tokens that were in the prefix cache.
        output_tokens: mean tokens of an answer.
        notes: sentences on what the figures contain, and on what was assumed.
    """

    engine: str
    kind: str
    model: str = ""
    statistics: Statistics | None = None
    tau: float = 1.0
    nodes: float | None = 0.0
    depth: int | None = 0
    batch: float | None = None
    step_seconds: float | None = None
    draft_seconds: float | None = None
    prompt_tokens: float | None = None
    cached_share: float = 0.0
    output_tokens: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Observer:
    """How one kind of report is read as `Observed`.

    Attributes:
        read: reads the text of a log, or the `Metrics` of one model of a scrape; its second argument is `min_trials`.
        scraped: whether the report is a Prometheus scrape, so that two of them are subtracted.
        label: the label of the scrape that tells the models of a server apart.
    """

    read: Callable[[Any, int], Observed]
    scraped: bool = False
    label: str = "model_name"


@dataclass(frozen=True)
class Advice:
    """What to change in an engine.

    Attributes:
        length: the setting of chains of `{length}` drafted tokens; `{nodes}` is one more, which counts the root.
        causes: for each cause the settings that help.
    """

    length: str = ""
    causes: Mapping[Cause, str] = field(default_factory=dict)


NO_ADVICE = Advice()


def nothing_decoded(kind: str) -> InputError:
    """The error for a report in which the server generated nothing."""
    return InputError(
        f"{kind} shows no decoding: take the scrapes around the traffic, or give a log with requests in it"
    )
