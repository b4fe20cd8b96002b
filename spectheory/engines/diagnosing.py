"""`diagnose`: why speculation on a server is as fast as it is, from its log or its metrics.

The seconds per token of a sequence are (draft + verification + overhead) / tau, plus the prompts that are read in
between. For each factor they are computed again with its usual value, `Usual`, and everything else as measured. A
factor is a cause if that makes the server at least `NOTABLE` times as fast. The usual values are conventions of ours,
stated here so that they can be changed; they are not measurements.

A cycle is measured as a whole. Its parts come from the engine where it reports them (the draft in TensorRT-LLM and
llama.cpp), otherwise from forward times, measured or computed. What then remains of the measured cycle is overhead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectheory.core.checks import check_not_negative
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.engines.observed import Advice, Observed
from spectheory.engines.statistics import constant_rate
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import Deployment
from spectheory.results.diagnosis import NOTABLE, Diagnosis, Factor

Times = Deployment | Latency | Sequence[Latency]
LONGEST = 32
"""Largest number of drafted tokens that is tried as the fastest."""
SHORT = 0.1
"""The forwards may exceed the measured cycle by this share before the times are said not to fit."""
FAR = 1.5
"""Batch sizes that differ by this factor are different loads."""
GIVE_TIMES = (
    "give forward times: --gpu, --target and --draft for computed ones, --costs for ones calibrated on this server, or "
    "--latency with the record of `spectheory profile`"
)
GIVE_BATCH = "give the number of sequences that decode together (--batch)"
GIVE_FITTING = "calibrate the forward times on this server (spectheory calibrate), and give them with --costs"
GIVE_PLAIN = "the same traffic on the same server without speculation, as --plain"
GIVE_ALONE = "forward times of batch size 1 too: --gpu, --target and --draft, or a second --latency"


@dataclass(frozen=True)
class Usual:
    """The usual values, with which a factor is compared.

    Attributes:
        rate: acceptance rate of a drafted token, given that the tokens before it were accepted.
        draft: seconds of a drafted level, as a share of a plain step.
        overhead: seconds of a cycle outside its forwards beyond those of a plain step, as a share of a plain step.
    """

    rate: float = 0.6
    draft: float = 0.1
    overhead: float = 0.1

    def __post_init__(self) -> None:
        for name in ("rate", "draft", "overhead"):
            check_not_negative(name, getattr(self, name), ": give a share")
        if self.rate > 1:
            raise InputError(f"rate must be at most 1, got {self.rate:g}: give a probability")


@dataclass(frozen=True)
class _Parts:
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


def diagnosed(
    seen: Observed,
    advice: Advice,
    *,
    plain: Observed | None = None,
    times: Times | None = None,
    context: int | None = None,
    usual: Usual | None = None,
) -> Diagnosis:
    """The diagnosis of one observed model; see `spectheory.diagnose`."""
    usual = Usual() if usual is None else usual
    stamp = Provenance.now("spectheory.diagnose", settings={"report": seen.kind})
    if seen.statistics is None:
        said = "nothing was drafted, so there is nothing to diagnose: is speculation configured, or off at this load?"
        return Diagnosis(
            seen.engine, seen.kind, seen.model, 1.0, 0.0, 0, seen.batch, seen.step_seconds, seen.step_seconds,
            None, None, None, (), notes=(*seen.notes, said), provenance=stamp,
        )  # fmt: skip
    notes = list(seen.notes)
    tree = _tree(seen, notes)
    latency, alone, at = _latencies(times, seen, context, notes)
    wanted = GIVE_TIMES if times is None else GIVE_BATCH
    if latency is not None and tree is not None and not _fit(seen, latency, at, tree, notes):
        latency, wanted = None, GIVE_FITTING
    parts = _parts(seen, plain, latency, alone, at, tree, notes)
    factors = _factors(seen, parts, tree, advice, usual, wanted)
    length, gain = _fastest(seen, parts, latency, at, tree)
    return Diagnosis(
        seen.engine,
        seen.kind,
        seen.model,
        seen.tau,
        seen.nodes,
        None if tree is None else tree.max_depth,
        seen.batch,
        _cycle(seen, parts),
        None if parts.plain is None else parts.plain + parts.prompts[1],
        parts.draft,
        parts.verification,
        parts.overhead,
        factors,
        length,
        gain,
        "" if length is None else _setting(advice, length),
        tuple(dict.fromkeys(notes)),
        stamp if latency is None else stamp.assuming(*latency.provenance.assumptions),
    )


def _cycle(seen: Observed, parts: _Parts) -> float | None:
    """Seconds of a cycle with its prompts, as measured, or else as the forward times have it."""
    if seen.step_seconds is not None:
        return seen.step_seconds
    return None if parts.work is None else parts.work + seen.tau * parts.prompts[0]


def _setting(advice: Advice, length: int) -> str:
    if length == 0:
        return "no speculation at this load"
    return advice.length.format(length=length, nodes=length + 1)


def _tree(seen: Observed, notes: list[str]) -> Tree | None:
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


def _latencies(
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


def _fit(seen: Observed, latency: Latency, at: int, tree: Tree, notes: list[str]) -> bool:
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


def _parts(
    seen: Observed,
    plain: Observed | None,
    latency: Latency | None,
    alone: Latency | None,
    at: int,
    tree: Tree | None,
    notes: list[str],
) -> _Parts:
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
        return _Parts(seen.step_seconds, step, seen.draft_seconds)
    read = latency.prompt_seconds + latency.draft_prompt_seconds
    draft = latency.draft_levels(tree, at) if seen.draft_seconds is None else seen.draft_seconds
    verification, forward = latency.target(tree.budget + 1, at), latency.target(1, at)
    cycle = None if seen.step_seconds is None else seen.step_seconds - seen.tau * read
    overhead = latency.overhead(tree)
    if cycle is None:
        notes.append("the cycle is not measured: its overhead is the one of the forward times")
    else:
        overhead = max(0.0, cycle - draft - verification)
    return _Parts(
        cycle,
        plain=forward + latency.plain_overhead_seconds if step is None else max(step - latency.prompt_seconds, 0.0),
        draft=draft,
        verification=verification,
        overhead=overhead,
        forward=forward,
        alone=None if alone is None else alone.target(tree.budget + 1, at) / alone.target(1, at),
        prompts=(read, latency.prompt_seconds),
    )


def _factors(
    seen: Observed, parts: _Parts, tree: Tree | None, advice: Advice, usual: Usual, wanted: str
) -> tuple[Factor, ...]:
    """The five factors. `wanted` says what would tell the parts of a cycle."""
    return (
        _acceptance(seen, parts, tree, advice, usual),
        _draft(seen, parts, tree, advice, usual, wanted),
        *_verification(seen, parts, tree, advice, wanted),
        _overhead(seen, parts, advice, usual, wanted),
    )


def _factor(name: str, figures: str, gain: float | None, advice: Advice, measure: str = "") -> Factor:
    change = advice.causes.get(name, "") if gain is not None and gain >= NOTABLE else ""  # pyright: ignore
    return Factor(name, figures, gain, change, "" if gain is not None else measure)  # pyright: ignore


def _rates(seen: Observed, tree: Tree | None) -> list[float] | None:
    """The rate of each position, given that the positions before it were accepted; one rate if only tau is known."""
    if tree is None:
        return None
    found = seen.statistics and seen.statistics.acceptance
    if found is None:
        return None if seen.tau > tree.max_depth + 1 else [constant_rate(seen.tau, tree.max_depth)] * tree.max_depth
    rows = found.table.sum(axis=1).tolist()
    return [rows[min(d, len(rows) - 1)] for d in range(max(tree.max_depth, seen.depth or 0))]


def _tokens(rates: Sequence[float]) -> float:
    """Mean number of accepted tokens of a chain with these rates."""
    total, reached = 0.0, 1.0
    for rate in rates:
        reached *= rate
        total += reached
    return total


def _acceptance(seen: Observed, parts: _Parts, tree: Tree | None, advice: Advice, usual: Usual) -> Factor:
    rates = _rates(seen, tree)
    figures = f"tau {seen.tau:.2f}" + ("" if rates is None else f" of at most {len(rates) + 1}")
    if rates is None:
        return _factor("acceptance", figures, None, advice, "the number of drafted tokens: give --nodes, and --depth")
    counted = seen.statistics is not None and seen.statistics.acceptance is not None
    listed = ", ".join(f"{rate:.2f}" for rate in rates) if counted else f"{rates[0]:.2f} at every position"
    raised, now = _tokens([max(rate, usual.rate) for rate in rates]), _tokens(rates)
    better = 1 + (seen.tau - 1) * raised / now if now else 1 + raised
    gain = parts.gain(seen.tau, 0.0, better) if parts.work is not None else max(1.0, better / seen.tau)
    said = f"{figures}; rates {listed}; usual {usual.rate:g}, which gives tau {better:.2f}"
    return _factor("acceptance", said, gain, advice)


def _draft(seen: Observed, parts: _Parts, tree: Tree | None, advice: Advice, usual: Usual, wanted: str) -> Factor:
    if parts.draft is None or parts.plain is None or tree is None:
        figures = "" if parts.draft is None else f"{1e3 * parts.draft:.3g} ms of a cycle"
        if parts.draft is not None and parts.work:
            figures += f" of {1e3 * parts.work:.3g} ms"
        measure = wanted if parts.draft is None or tree is None else f"{GIVE_PLAIN}; or {wanted}"
        return _factor("draft", figures, None, advice, measure)
    allowed = usual.draft * parts.plain * tree.max_depth
    said = (
        f"{1e3 * parts.draft:.3g} ms for {tree.max_depth} levels, {parts.draft / parts.plain:.2f} plain steps; usual "
        f"{usual.draft * tree.max_depth:.2f}"
    )
    gain = parts.gain(seen.tau, max(0.0, parts.draft - allowed))
    return _factor("draft", said, gain, advice)


def _verification(
    seen: Observed, parts: _Parts, tree: Tree | None, advice: Advice, wanted: str
) -> tuple[Factor, Factor]:
    """Verification at batch size 1, and how much more it costs at the server's batch size."""
    batch = "" if seen.batch is None else "1 sequence" if seen.batch == 1 else f"{seen.batch:.3g} sequences"
    if parts.verification is None or parts.forward is None or tree is None:
        figures = ""
        if parts.cycle is not None and parts.plain:
            other = parts.cycle - (parts.draft or 0.0)
            what = "verification and overhead take" if parts.draft is not None else "a cycle takes"
            figures = f"{what} {other / parts.plain:.2f} plain steps"
        return (
            _factor("verification", figures, None, advice, wanted),
            _factor("batch", batch, 1.0 if seen.batch is not None and seen.batch < FAR else None, advice, wanted),
        )
    ratio = parts.verification / parts.forward
    alone = ratio if seen.batch is not None and seen.batch < FAR else parts.alone
    whole = parts.gain(seen.tau, max(0.0, parts.verification - parts.forward)) or 1.0
    said = f"{1e3 * parts.verification:.3g} ms for {tree.budget + 1} tokens, {ratio:.2f} forwards of one token"
    if alone is None:
        gain = None if whole >= NOTABLE else whole
        return (
            _factor("verification", said, gain, advice, GIVE_ALONE),
            _factor("batch", batch, gain, advice, GIVE_ALONE),
        )
    steep, crowded = max(0.0, min(alone, ratio) - 1), max(0.0, ratio - max(alone, 1.0))
    return (
        _factor(
            "verification",
            f"{said}; {alone:.2f} at batch size 1; flat would be 1",
            parts.gain(seen.tau, steep * parts.forward),
            advice,
        ),
        _factor(
            "batch",
            f"{batch}, at which verification takes {ratio:.2f} forwards instead of {alone:.2f}",
            parts.gain(seen.tau, crowded * parts.forward),
            advice,
        ),
    )


def _overhead(seen: Observed, parts: _Parts, advice: Advice, usual: Usual, wanted: str) -> Factor:
    if parts.overhead is None or parts.plain is None or parts.forward is None:
        return _factor("overhead", "", None, advice, wanted)
    of_plain = max(0.0, parts.plain - parts.forward)
    allowed = of_plain + usual.overhead * parts.plain
    said = (
        f"{1e3 * parts.overhead:.3g} ms of a cycle are in no forward, {parts.overhead / parts.plain:.2f} plain steps; "
        f"usual {allowed / parts.plain:.2f}"
    )
    return _factor("overhead", said, parts.gain(seen.tau, max(0.0, parts.overhead - allowed)), advice)


def _fastest(
    seen: Observed, parts: _Parts, latency: Latency | None, at: int, tree: Tree | None
) -> tuple[int | None, float | None]:
    """The fastest number of drafted tokens, and how many times as fast as now it is; None, None if it is unknown.

    The rate of the last measured position is used for deeper positions. Overheads beyond those of the forward times
    stay as they are.
    """
    rates = _rates(seen, tree)
    if latency is None or tree is None or rates is None or not tree.is_chain or parts.plain is None:
        return None, None
    extra = (parts.overhead or 0.0) - latency.overhead(tree)
    scale = 1.0 if not seen.draft_seconds else seen.draft_seconds / max(latency.draft_levels(tree, at), 1e-30)
    longest = min(LONGEST, 2 * tree.budget, int(latency.tokens[-1]) - 1)

    def per_token(length: int) -> float:
        chain, known = Tree.chain(length), [*rates, *[rates[-1]] * length][:length]
        work = scale * latency.draft_levels(chain, at) + latency.target(length + 1, at) + latency.overhead(chain)
        return (work + extra) / (1 + _tokens(known)) + parts.prompts[0]

    seconds = {0: parts.plain + parts.prompts[1]} | {n: per_token(n) for n in range(1, longest + 1)}
    best = min(seconds, key=seconds.__getitem__)
    return best, per_token(tree.budget) / seconds[best]
