"""The seconds of a cycle of a server and of its parts, from its reports and from forward times.

A cycle is measured as a whole. Its parts come from the engine where it reports them (the draft in TensorRT-LLM and
llama.cpp), otherwise from forward times, measured or computed. What then remains of the measured cycle is overhead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.observed import Observed
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import Deployment

Times = Deployment | Latency | Sequence[Latency]
SHORT = 0.1
"""The forwards may exceed the measured cycle by this share before the times are said not to fit."""
FAR = 1.5
"""Batch sizes that differ by this factor are different loads."""


@dataclass(frozen=True)
class CycleParts:
    """Seconds of a cycle and of a plain step. A part that is unknown is None.

    `forward` is the target's forward of a plain step, and `alone` is how many times as long as it the verification
    takes at batch size 1. `prompts` are seconds of prompts for each token, with speculation and without it.
    """

    cycle: float | None
    plain: float | None
    draft: float | None
    verification: float | None = None
    overhead: float | None = None
    forward: float | None = None
    alone: float | None = None
    prompts: tuple[float, float] = (0.0, 0.0)

    @property
    def work(self) -> float | None:
        """Seconds of a cycle without prompts; None if neither it nor its parts are known."""
        if self.draft is not None and self.verification is not None and self.overhead is not None:
            return self.draft + self.verification + self.overhead
        return self.cycle

    def gain(self, tau: float, saved: float, usual_tau: float | None = None) -> float | None:
        """How many times as fast the server is with `saved` seconds less in a cycle, or with another tau."""
        if self.work is None:
            return None
        per_token = (self.work - saved) / (usual_tau or tau) + self.prompts[0]
        return max(1.0, (self.work / tau + self.prompts[0]) / per_token)


def drafted_tree(seen: Observed, notes: list[str]) -> Tree | None:
    """A tree with the drafted nodes, spread evenly over the levels; None if their number is unknown."""
    nodes = seen.depth if seen.nodes is None else max(1, round(seen.nodes))
    if nodes is None:
        return None
    if seen.depth is None:
        notes.append(f"drafts are taken as chains of {nodes} tokens: for trees, give their levels (--depth)")
    depth = min(nodes, seen.depth or nodes)
    parent, first = [-1], 0
    for level in range(depth):
        width = nodes // depth + (level < nodes % depth)
        parent += [first] * width
        first = len(parent) - width
    return Tree(parent)


def forward_times(
    times: Times | None, seen: Observed, context: int | None, notes: list[str]
) -> tuple[Latency | None, Latency | None, int]:
    """The forward times at the server's batch size and at batch size 1, if known, and their context."""
    if times is None:
        return None, None, 0
    if seen.batch is None:
        known = [times] if isinstance(times, Latency) else [] if isinstance(times, Deployment) else list(times)
        if len({latency.batch for latency in known}) != 1:
            notes.append("the forward times are not used, because the batch size is not known: give it (--batch)")
            return None, None, 0
        seen = replace(seen, batch=float(known[0].batch))
        notes.append(f"the batch size is taken as {known[0].batch}, the batch size of the forward times")
    batch = seen.batch or 1.0
    if isinstance(times, Deployment):
        place = _with_lengths(times, seen, notes)
        return place.latency(max(1, round(batch))), place.latency(1), place.planned_context
    records = [times] if isinstance(times, Latency) else list(times)
    if not records:
        raise InputError("times must have at least one latency, got none")
    near = min(records, key=lambda latency: max(latency.batch / batch, batch / latency.batch))
    if max(near.batch / batch, batch / near.batch) > FAR:
        notes.append(f"the forward times are of batch size {near.batch}, but {batch:.3g} sequences decode together")
    alone = next((latency for latency in records if latency.batch == 1), None)
    return near, alone, near.context_of(context)


def _with_lengths(place: Deployment, seen: Observed, notes: list[str]) -> Deployment:
    """The deployment with the mean lengths of the requests, if it has no lengths and no context of its own."""
    given = (place.prompt_tokens, place.output_tokens, place.context, place.measured)
    if any(value is not None for value in given) or not seen.prompt_tokens or not seen.output_tokens:
        return place
    read = seen.prompt_tokens * (1 - seen.cached_share)
    middle = round(seen.prompt_tokens + seen.output_tokens / 2)
    lowest, highest = -(-read // 1), (read + seen.output_tokens) // 1
    notes.append(
        f"a request has {seen.prompt_tokens:.0f} tokens of prompt, of which {read:.0f} are not in the prefix cache, "
        f"and {seen.output_tokens:.0f} tokens of answer"
    )
    return replace(
        place,
        prompt_tokens=read,
        output_tokens=seen.output_tokens,
        context=int(min(max(middle, lowest), highest)),
    )


def fits(seen: Observed, latency: Latency, at: int, tree: Tree, notes: list[str]) -> bool:
    """Whether the forwards fit into the measured cycle. A note says by how much they do not."""
    draft = latency.draft_levels(tree, at) if seen.draft_seconds is None else seen.draft_seconds
    least = draft + latency.target(tree.budget + 1, at)
    least += seen.tau * (latency.prompt_seconds + latency.draft_prompt_seconds)
    if seen.step_seconds is None or least <= (1 + SHORT) * seen.step_seconds:
        return True
    notes.append(
        f"the forward times are not used, because they do not fit this server: by them a cycle takes at least "
        f"{1e3 * least:.3g} ms, measured are {1e3 * seen.step_seconds:.3g} ms"
    )
    return False


def cycle_parts(
    seen: Observed,
    plain: Observed | None,
    latency: Latency | None,
    alone: Latency | None,
    at: int,
    tree: Tree | None,
    notes: list[str],
) -> CycleParts:
    """The seconds of a cycle and of a plain step."""
    step = None if plain is None else plain.step_seconds
    if plain is not None and step is None:
        raise InputError("plain must have the time of a step, but its log or metrics do not tell it")
    if plain is not None and plain.batch and seen.batch and not 1 / FAR < plain.batch / seen.batch < FAR:
        notes.append(
            f"without speculation {plain.batch:.3g} sequences decode together, with it {seen.batch:.3g}: their speeds "
            "are compared as if the load were the same"
        )
    if latency is None or tree is None:
        return CycleParts(seen.step_seconds, step, seen.draft_seconds)
    read = latency.prompt_seconds + latency.draft_prompt_seconds
    draft = latency.draft_levels(tree, at) if seen.draft_seconds is None else seen.draft_seconds
    verification, forward = latency.target(tree.budget + 1, at), latency.target(1, at)
    cycle = None if seen.step_seconds is None else seen.step_seconds - seen.tau * read
    overhead = latency.overhead(tree)
    if cycle is None:
        notes.append("the cycle is not measured: its overhead is the one of the forward times")
    else:
        overhead = max(0.0, cycle - draft - verification)
    return CycleParts(
        cycle,
        plain=forward + latency.plain_overhead_seconds if step is None else max(step - latency.prompt_seconds, 0.0),
        draft=draft,
        verification=verification,
        overhead=overhead,
        forward=forward,
        alone=None if alone is None else alone.target(tree.budget + 1, at) / alone.target(1, at),
        prompts=(read, latency.prompt_seconds),
    )


def cycle_seconds(seen: Observed, parts: CycleParts) -> float | None:
    """Seconds of a cycle with its prompts, as measured, or else as the forward times have it."""
    if seen.step_seconds is not None:
        return seen.step_seconds
    return None if parts.work is None else parts.work + seen.tau * parts.prompts[0]
