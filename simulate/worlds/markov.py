"""`MarkovWorld`, a target and a draft whose next token depends on the last token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Shaped

from simulate.worlds.world import SimulatedWorld, Walks, check_sizes
from spectheory import Draft, DrawPolicy, DrawRule, InputError, MarkovDraft, Tree, Verifier, World, branches
from spectheory.core.arrays import RandomSource, check_distribution
from spectheory.core.chance import draw
from spectheory.core.checks import check_array
from spectheory.core.world import Growth
from spectheory.search.policy_comparison import Policy
from spectheory.yields.expected import MOST_DRAFTS

Shape = Tree | DrawPolicy | Policy
"""What is drafted: a static tree, a policy that draws, or a policy that searches a draft model."""


@dataclass(frozen=True, eq=False)
class MarkovWorld(SimulatedWorld):
    """Tokens whose distribution depends on the last token only: the smallest world with real contexts.

    Every cycle drafts tokens by q and verifies them against p with the verifier itself. So all policies and verifiers
    can be simulated that agree on a draw rule, static and dynamic: `Tree`, `Levels`, `Paths`, `OptTree`, `Eagle2`,
    `Salf`, `SpecExec`. The last three of these and `OptTree` choose the most probable tokens, `DrawRule.TOP_K`.

    Easy and hard tokens make easy and hard contexts, cycles start where the verifier left off, and no table of rates by
    depth and rank describes that exactly. The last tokens at the starts of the cycles are a Markov chain of their own.
    Its stationary distribution gives the exact values of a long run; `tau_of_first` gives those of the first cycles.

    Attributes:
        p: (V, V) the target; row t is the distribution of the token after token t. float64 or Fractions.
        q: (V, V) the draft.
        start: (V,) distribution of the token before the first cycle of a request. None means the stationary
            distribution of p, as after a long prompt.

    Raises:
        InputError: the shapes disagree, a row is not a distribution, or start is None and p has several closed classes
            of tokens.
    """

    p: Any
    q: Any
    start: Any = None

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            rows = check_array(name, getattr(self, name))
            if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or not rows.size:
                raise InputError(f"{name} must have shape (V, V), one row for each last token, got {rows.shape}")
            for token, row in enumerate(rows):
                check_distribution(f"{name}[{token}]", row)
            object.__setattr__(self, name, rows)
        if self.p.shape != self.q.shape:
            raise InputError(f"p and q must have one vocabulary, got {len(self.p)} and {len(self.q)} tokens")
        start = stationary(self.p, "p") if self.start is None else check_array("start", self.start)
        check_distribution("start", start)
        if len(start) != len(self.p):
            raise InputError(f"start must have one entry for each of {len(self.p)} tokens, got {len(start)}")
        object.__setattr__(self, "start", start)

    @cached_property
    def _after(self) -> list[tuple[World, MarkovDraft]]:
        """For each last token, the world and the draft model after it."""
        q = self.q.astype(np.float64)
        return [(World.markov(self.p, self.q, last), MarkovDraft(q, last)) for last in range(len(self.p))]

    def _walks(
        self, shape: Shape, verifier: Any, rule: DrawRule | None, requests: int, cycles: int, rng: np.random.Generator
    ) -> Walks:
        """Draft and verifier draw from streams of their own, both spawned from `rng`."""
        verifier = _require_verifier(shape, verifier, rule)
        drafting, verifying = rng.spawn(2)
        accepted, deepest = np.empty((requests, cycles), np.int64), 0
        for request in range(requests):
            last = draw(self.start, rng)
            for cycle in range(cycles):
                kept, last, depth = self._cycle(last, shape, verifier, rule, drafting, verifying)
                accepted[request, cycle] = kept
                deepest = max(deepest, depth)
        return Walks(accepted.ravel(), np.repeat(np.arange(requests), cycles), deepest)

    def _cycle(
        self, last: int, shape: Shape, verifier: Verifier, rule: DrawRule | None, drafting: Any, verifying: Any
    ) -> tuple[int, int, int]:
        """Play one cycle after the token `last`: tokens kept, the token emitted after them, and the draft's depth."""
        world, model = self._after[last]
        draft = drawn(shape, rule, world, model, drafting)
        node, following = verifier.sample(draft, world.target(draft), verifying)
        return int(draft.tree.depth[node]), following, draft.tree.max_depth

    def emitted_tokens(
        self, shape: Shape, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> Shaped[np.ndarray, " lengths"]:
        """See SimulatedWorld.emitted_tokens. Consecutive cycles are not independent of each other in this world."""
        joint = self.cycle_outcomes(shape, verifier, rule)
        return stationary(joint.sum(1), "the chain of cycle starts") @ joint.sum(2)

    def tau_of_first(
        self, cycles: int, shape: Shape, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> Any:
        """Expected tokens per target call over the first `cycles` cycles of a request. Raises InputError as `walks`."""
        check_sizes(1, cycles)
        joint = self.cycle_outcomes(shape, verifier, rule)
        emitted = joint.sum(2) @ np.arange(1, joint.shape[1] + 1)
        last, total = self.start, emitted[0] * 0
        for _ in range(cycles):
            total += last @ emitted
            last = last @ joint.sum(1)
        return total / cycles

    def cycle_outcomes(
        self, shape: Shape, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> Shaped[np.ndarray, "V lengths V"]:
        """Probability that a cycle after each token keeps 0..L drafted tokens and then emits each token.

        Every draft is enumerated, and the verifier's own distribution is summed over them.

        Raises:
            InputError: see `walks`; or there are too many drafts.
        """
        verifier = _require_verifier(shape, verifier, rule)
        return self._padded([list(self._outcomes(last, shape, verifier, rule)) for last in range(len(self.p))])

    def _outcomes(
        self, last: int, shape: Shape, verifier: Verifier, rule: DrawRule | None
    ) -> Iterator[tuple[int, Any]]:
        """(Tokens kept, (V,) probabilities of the token emitted next) of all drafts after `last`."""
        world, model = self._after[last]
        for draft, chance in every(shape, rule, world, model):
            outcome = verifier.outcome(draft, world.target(draft))
            weight = chance if self.p.dtype == object else float(chance)
            for depth, stop, following in zip(draft.tree.depth, outcome.stop, outcome.next_token, strict=True):
                yield int(depth), weight * stop * following

    def _padded(self, rows: list[list[tuple[int, Any]]]) -> np.ndarray:
        """The sum of the outcomes after each token, with as many depths as the deepest draft."""
        deepest = max(depth for row in rows for depth, _ in row)
        found = np.zeros((len(rows), deepest + 1, len(rows)), np.result_type(self.p, self.q))
        found += self.p[0, 0] * 0  # Fractions, not whole numbers, in an array of objects
        for last, row in enumerate(rows):
            for depth, masses in row:
                found[last, depth] += masses
        return found


def _require_verifier(shape: Shape, verifier: Verifier | None, rule: DrawRule | None) -> Verifier:
    """The verifier, with a check that it and the shape can be simulated together as far as their rules say."""
    check_shape(shape, rule)
    if not isinstance(verifier, Verifier):
        raise InputError(f"verifier must be a Verifier such as verify.Block(), got {verifier!r:.60}")
    drafted_by = rule if isinstance(shape, Tree) else getattr(shape, "rule", DrawRule.TOP_K)
    if drafted_by is not None and drafted_by not in verifier.rules:
        named = ", ".join(one.name for one in verifier.rules)
        raise InputError(
            f"shape is drafted by {drafted_by.name}, {verifier} is lossless only for {named}: use one of these"
        )
    return verifier


def stationary(steps: Shaped[np.ndarray, "states states"], what: str) -> Shaped[np.ndarray, " states"]:
    """The stationary distribution of a chain with transition probabilities `steps`.

    States are eliminated one after the other without a subtraction, so that nothing cancels in floating point
    (Grassmann, Taksar and Heyman 1985), and Fractions stay exact.

    Raises:
        InputError: the chain has several closed classes of states, so that the start decides in which one it ends. The
            message names the chain as `what`.
    """
    closed = _closed_classes(steps)
    if len(closed) > 1:
        raise InputError(
            f"{what} must have one closed class of states, got {len(closed)}, such as {closed[0][:4].tolist()} and "
            f"{closed[1][:4].tolist()}: its first token decides which class a request stays in; simulate each class on "
            "its own"
        )
    states = closed[0]
    rest: Any = steps[np.ix_(states, states)].copy()
    for last in range(len(states) - 1, 0, -1):
        rest[:last, last] /= rest[last, :last].sum()
        rest[:last, :last] += np.outer(rest[:last, last], rest[last, :last])
    weights = steps[0] * 0
    weights[states[0]] += 1
    for place in range(1, len(states)):
        weights[states[place]] = weights[states[:place]] @ rest[:place, place]
    return weights / weights.sum()


def _closed_classes(steps: np.ndarray) -> list[np.ndarray]:
    """The sets of states that reach each other and nothing else."""
    from scipy.sparse.csgraph import connected_components

    possible = (steps > 0).astype(np.int8)
    count, label = connected_components(possible, connection="strong")
    leaves = {int(label[a]) for a, b in np.argwhere(possible) if label[a] != label[b]}
    return [np.flatnonzero(label == number) for number in range(count) if number not in leaves]


def check_shape(shape: Any, rule: DrawRule | None) -> None:
    """Refuse what is not a shape, a tree without a rule, and a rule given with a policy. Raises InputError."""
    if isinstance(shape, Tree):
        if rule is None:
            raise InputError("rule must say how the children of a tree are drawn, such as DrawRule.NO_REPLACEMENT")
    elif not isinstance(shape, DrawPolicy) and not callable(getattr(shape, "grow", None)):
        raise InputError(
            f"shape must be a Tree, a DrawPolicy such as Levels, or a policy such as OptTree(16), got {shape!r:.60}"
        )
    elif rule not in (None, own := shape.rule if isinstance(shape, DrawPolicy) else DrawRule.TOP_K):
        raise InputError(f"rule must be left out for a policy, or be the rule of the policy, {own.name}, got {rule}")


def drawn(shape: Shape, rule: DrawRule | None, world: World, draft: MarkovDraft, rng: RandomSource) -> Draft:
    """Draw one draft. `rng` is a `numpy.random.Generator`, or a `Branch` to enumerate all drafts."""
    if isinstance(shape, Tree):
        assert rule
        return _filled(shape, rule, world, draft.start, rng)
    if isinstance(shape, DrawPolicy):
        return shape.grow(world, rng)
    found = shape.grow(draft)
    tokens = found.tokens.copy()
    tokens[0] = draft.start
    distributions = [world.q((int(token),)) for token in tokens]
    return Draft(found.tree, tokens, distributions, found.tree.child_lists, DrawRule.TOP_K)


def every(shape: Shape, rule: DrawRule | None, world: World, draft: MarkovDraft) -> list[tuple[Draft, Fraction]]:
    """Every draft with its probability.

    Raises:
        InputError: there are more than `MOST_DRAFTS`.
    """
    found = list(islice(branches(lambda rng: drawn(shape, rule, world, draft, rng)), MOST_DRAFTS + 1))
    if len(found) > MOST_DRAFTS:
        raise InputError(
            f"shape {shape} has more than {MOST_DRAFTS:,} drafts in this world: take a smaller one for exact values; "
            "walks have no such limit"
        )
    return [(one, chance) for one, chance in found if chance]


def _filled(tree: Tree, rule: DrawRule, world: World, start: int, rng: RandomSource) -> Draft:
    """A static tree filled with tokens. Distinct draws fill the children in order; nodes without one are left out."""
    growth, planned = Growth(rule, start), [0]
    for node, place in enumerate(planned):  # the list grows during the loop
        q, children = world.q(growth.contexts[node]), tree.child_lists[place]
        if children:
            new = growth.add(node, q, rule.children(q, len(children), rng))
            planned += children[: len(new)]
    return growth.draft()
