"""How far the texts of a lossy rule are from those of the target: exactly, and by bounds from steps and cycles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

from spectheory.core.arrays import Vector
from spectheory.core.chance import branches
from spectheory.core.errors import InputError
from spectheory.core.world import Context, DrawPolicy, Levels, World
from spectheory.lossy.fly import FLy
from spectheory.lossy.rule import LossyRule, lossy_step
from spectheory.otlp import NSS
from spectheory.verify import TopDown, Traversal, UniVer, Verifier

LOSSLESS = (Traversal(), UniVer(), TopDown(NSS()))
"""Lossless verifiers to compare with; the first that takes the draw rule."""


@dataclass(frozen=True)
class TextError:
    """How far the texts of one length that a lossy rule decodes are from those of what it stands in for.

    Attributes:
        length: number of tokens of each text.
        total_variation: total variation between the two distributions of texts, exactly.
        by_cycles: sum over the cycles of the expected total variation that one cycle adds; a bound.
        by_steps: sum over the tokens of the expected total variation of the node that emits it; a bound that is not
            below `by_cycles`. None for `FLy` and for policies that are not `Levels`, whose tokens are not emitted node
            by node.
        tokens_per_call: tokens divided by the expected number of target calls, the last one included.
        lossless_tokens_per_call: the same for a lossless verifier with the same drafts.
    """

    length: int
    total_variation: Any
    by_cycles: Any
    by_steps: Any
    tokens_per_call: Any
    lossless_tokens_per_call: Any


def text_error(
    rule: LossyRule | FLy, world: World, policy: DrawPolicy, length: int, *, lossless: Verifier | None = None
) -> TextError:
    """Decode all texts of `length` tokens with `rule`, and compare them with those of the target.

    All drafts and texts are enumerated, in Fractions if the world's distributions are Fractions. The cost grows like
    V^length times the number of drafts.

    The two bounds telescope. If the rule decodes j + 1 cycles (or tokens) instead of j, and the target the rest, the
    distribution of the text changes by at most the expected total variation of that cycle (or token). So the sum of the
    total variations of the nodes along one text that the rule generated is an unbiased estimate of `by_steps`, and its
    mean over texts of real models bounds the total variation of these texts.

    Args:
        rule: the lossy rule; a node rule is used from the root down, as by `verify.TopDown`.
        world: target and draft, after the prompt.
        policy: the policy that grows the draft of each cycle.
        length: number of tokens, at least 1.
        lossless: the verifier to compare the number of target calls with; None takes one for the policy's draw rule.

    Raises:
        InputError: length is below 1, or the rule refuses a draft.
    """
    if length < 1:
        raise InputError(f"length must be at least 1 token, got {length}")
    lossy = _Decoding(rule, world, policy)
    exact = lossless or next(one for one in LOSSLESS if policy.rule in one.rules)
    plain = World(lambda context: rule.wanted(world.p(context)), lossy.drawn.q)
    ours, target = lossy.texts((), length), lossy.target((), length)
    return TextError(
        length,
        sum(max(mass - target.get(text, 0), 0) for text, mass in ours.items()),
        lossy.by_cycles((), length),
        lossy.by_steps((), 0, length) if isinstance(rule, LossyRule) and isinstance(policy, Levels) else None,
        length / lossy.calls((), length),
        length / _Decoding(exact, plain, policy).calls((), length),
    )


def text_bound(step_errors: Iterable[Any]) -> Any:
    """1 - prod (1 - d): bound of the total variation of a text whose token t is emitted with an error of at most d_t.

    `step_errors` are the largest total variations of each step over all contexts. The text of the rule and that of the
    target can be drawn together such that, while they agree, token t differs with probability at most d_t.

    >>> from fractions import Fraction
    >>> str(text_bound([Fraction(1, 10)] * 2))
    '19/100'
    """
    return 1 - reduce(lambda kept, error: kept * (1 - error), step_errors, 1)


class _Decoding:
    """Decoding with a verifier or a lossy rule, cycle after cycle, over all draws. Results are kept by context."""

    def __init__(self, rule: LossyRule | Verifier, world: World, policy: DrawPolicy) -> None:
        self.rule, self.world, self.policy = rule, world, policy
        self.verifier = TopDown(rule) if isinstance(rule, LossyRule) else rule
        self.drawn = World(world.p, lambda context: self._drawn_from(world.q(context)))
        self._known: dict[tuple[Any, ...], Any] = {}

    def _drawn_from(self, q: Vector) -> Vector:
        return self.rule.drawn_from(q) if isinstance(self.rule, LossyRule) else q

    def _wanted(self, p: Vector) -> Vector:
        return self.rule.wanted(p) if isinstance(self.rule, (LossyRule, FLy)) else p

    @cached_property
    def _exact(self) -> bool:
        return self.world.p(()).dtype == object

    def _cycle(self, context: Context) -> dict[Context, Any]:
        """Probability of the tokens that one cycle emits after `context`."""
        if ("cycle", context) not in self._known:
            found: dict[Context, Any] = {}
            here = World(lambda more: self.world.p((*context, *more)), lambda more: self.drawn.q((*context, *more)))
            for draft, chance in branches(lambda rng: self.policy.grow(here, rng)):
                after = [(*context, *draft.context(node)) for node in range(draft.tree.budget + 1)]
                seen = replace(draft, q=[self.world.q(one) for one in after])
                rows = [self.world.p(one) for one in after]
                rows = [row if drawn else self._wanted(row) for row, drawn in zip(rows, draft.draws, strict=True)]
                outcome = self.verifier._outcome(seen, rows)
                for node, stop in enumerate(outcome.stop):
                    for token, share in enumerate(outcome.next_token[node]):
                        if mass := stop * share * (chance if self._exact else float(chance)):
                            tokens = (*draft.context(node), token)
                            found[tokens] = found.get(tokens, 0) + mass
            self._known["cycle", context] = found
        return self._known["cycle", context]

    def texts(self, context: Context, left: int) -> dict[Context, Any]:
        """Probability of each text of `left` tokens after `context`."""
        return self._continued(context, left, self.texts)

    def target(self, context: Context, left: int) -> dict[Context, Any]:
        """The same for what the rule stands in for."""
        if ("target", context, left) not in self._known:
            found = {(): 1}
            for _ in range(left):
                found = {
                    (*text, token): mass * share
                    for text, mass in found.items()
                    for token, share in enumerate(self._wanted(self.world.p((*context, *text))))
                    if share
                }
            self._known["target", context, left] = found
        return self._known["target", context, left]

    def _continued(self, context: Context, left: int, texts: Any) -> dict[Context, Any]:
        """One cycle after `context`, then `texts`, up to `left` tokens."""
        name = (texts.__name__, "continued", context, left)
        if name not in self._known:
            found: dict[Context, Any] = {}
            for tokens, mass in self._cycle(context).items():
                rest = texts((*context, *tokens), left - len(tokens)) if len(tokens) < left else {(): 1}
                for more, share in rest.items():
                    text = (*tokens, *more)[:left]
                    found[text] = found.get(text, 0) + mass * share
            self._known[name] = found
        return self._known[name]

    def by_cycles(self, context: Context, left: int) -> Any:
        """Sum of the expected errors of the cycles."""
        ours, target = self._continued(context, left, self.target), self.target(context, left)
        error = sum(max(mass - target.get(text, 0), 0) for text, mass in ours.items())
        return error + self._after(context, left, self.by_cycles)

    def calls(self, context: Context, left: int) -> Any:
        """Expected number of target calls."""
        return 1 + self._after(context, left, self.calls)

    def _after(self, context: Context, left: int, value: Any) -> Any:
        """The expected `value` after one cycle; 0 if the cycle completes the text."""
        name = (value.__name__, "after", context, left)
        if name not in self._known:
            self._known[name] = sum(
                mass * value((*context, *tokens), left - len(tokens))
                for tokens, mass in self._cycle(context).items()
                if len(tokens) < left
            )
        return self._known[name]

    def by_steps(self, context: Context, depth: int, left: int) -> Any:
        """Sum of the expected errors of the nodes, from a node at `depth` of its draft on."""
        name = ("steps", context, depth, left)
        if left and name not in self._known:
            assert isinstance(self.rule, LossyRule)
            p, k = self.world.p(context), self.policy.draws(depth, 1)
            emitted = self._wanted(p)
            kept, error = emitted * 0, 0
            if k:
                step = lossy_step(self.rule, p, self.world.q(context), k, self.policy.rule)
                emitted, kept, error = step.distribution, step.accepted, step.total_variation
            for token, mass in enumerate(emitted):
                for deeper, share in ((depth + 1, kept[token]), (0, mass - kept[token])):
                    if share:
                        error = error + share * self.by_steps((*context, token), deeper, left - 1)
            self._known[name] = error
        return self._known[name] if left else 0
