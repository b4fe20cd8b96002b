"""The five factors of speculation's speed, each with its usual value.

For each factor the seconds per token are computed again with its usual value, `Usual`, and everything else as measured.
A factor is a cause if that makes the server at least `NOTABLE` times as fast. The usual values are conventions of ours,
stated here so that they can be changed; they are not measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectheory.core.checks import check_not_negative
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.cycle_parts import FAR, CycleParts
from spectheory.engines.observed import Advice, Observed
from spectheory.engines.statistics import constant_rate
from spectheory.results.diagnosis import NOTABLE, Factor

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


def factors_of(
    seen: Observed, parts: CycleParts, tree: Tree | None, advice: Advice, usual: Usual, wanted: str
) -> tuple[Factor, ...]:
    """The five factors. `wanted` says what would tell the parts of a cycle."""
    return (
        _acceptance(seen, parts, tree, advice, usual),
        _draft(seen, parts, tree, advice, usual, wanted),
        *_verification(seen, parts, tree, advice, wanted),
        _overhead(seen, parts, advice, usual, wanted),
    )


def _factor(name: str, figures: str, gain: float | None, advice: Advice, measure: str = "") -> Factor:
    change = advice.causes.get(name, "") if gain is not None and gain >= NOTABLE else ""  # pyrefly: ignore[no-matching-overload]
    return Factor(name, figures, gain, change, "" if gain is not None else measure)  # pyrefly: ignore[bad-argument-type]


def rates_by_position(seen: Observed, tree: Tree | None) -> list[float] | None:
    """The rate of each position, given that the positions before it were accepted; one rate if only tau is known."""
    if tree is None:
        return None
    found = seen.statistics and seen.statistics.acceptance
    if found is None:
        return None if seen.tau > tree.max_depth + 1 else [constant_rate(seen.tau, tree.max_depth)] * tree.max_depth
    rows = found.table.sum(axis=1).tolist()
    return [rows[min(d, len(rows) - 1)] for d in range(max(tree.max_depth, seen.depth or 0))]


def accepted_tokens(rates: Sequence[float]) -> float:
    """Mean number of accepted tokens of a chain with these rates."""
    total, reached = 0.0, 1.0
    for rate in rates:
        reached *= rate
        total += reached
    return total


def _acceptance(seen: Observed, parts: CycleParts, tree: Tree | None, advice: Advice, usual: Usual) -> Factor:
    rates = rates_by_position(seen, tree)
    figures = f"tau {seen.tau:.2f}" + ("" if rates is None else f" of at most {len(rates) + 1}")
    if rates is None:
        return _factor("acceptance", figures, None, advice, "the number of drafted tokens: give --nodes, and --depth")
    counted = seen.statistics is not None and seen.statistics.acceptance is not None
    listed = ", ".join(f"{rate:.2f}" for rate in rates) if counted else f"{rates[0]:.2f} at every position"
    raised, now = accepted_tokens([max(rate, usual.rate) for rate in rates]), accepted_tokens(rates)
    better = 1 + (seen.tau - 1) * raised / now if now else 1 + raised
    gain = parts.gain(seen.tau, 0.0, better) if parts.work is not None else max(1.0, better / seen.tau)
    said = f"{figures}; rates {listed}; usual {usual.rate:g}, which gives tau {better:.2f}"
    return _factor("acceptance", said, gain, advice)


def _draft(seen: Observed, parts: CycleParts, tree: Tree | None, advice: Advice, usual: Usual, wanted: str) -> Factor:
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
    seen: Observed, parts: CycleParts, tree: Tree | None, advice: Advice, wanted: str
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


def _overhead(seen: Observed, parts: CycleParts, advice: Advice, usual: Usual, wanted: str) -> Factor:
    if parts.overhead is None or parts.plain is None or parts.forward is None:
        return _factor("overhead", "", None, advice, wanted)
    of_plain = max(0.0, parts.plain - parts.forward)
    allowed = of_plain + usual.overhead * parts.plain
    said = (
        f"{1e3 * parts.overhead:.3g} ms of a cycle are in no forward, {parts.overhead / parts.plain:.2f} plain steps; "
        f"usual {allowed / parts.plain:.2f}"
    )
    return _factor("overhead", said, parts.gain(seen.tau, max(0.0, parts.overhead - allowed)), advice)
