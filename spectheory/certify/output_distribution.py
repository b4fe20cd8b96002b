"""The distribution of a verifier's output, summed over all drafts and extended by the target to a common length."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple

from spectheory.core.chance import Branch, branches
from spectheory.core.coins import is_float
from spectheory.core.draft import Draft
from spectheory.core.errors import InputError
from spectheory.core.world import Context, DrawPolicy, World

ROUNDED = 1e-6
"""A probability or total variation up to this counts as rounding. A lossy rule on small fractions has a larger one."""
ROUNDING = 1e-9
"""A probability may be this far below 0, because of rounding."""


class Ending(NamedTuple):
    """One way in which a verifier ends on a draft.

    Attributes:
        node: the last accepted node.
        token: the token after it.
        chance: probability; 0 if a random number must be exactly 0.
        given_zeros: probability given the random numbers that are exactly 0; equal to `chance` if there are none.
        error: error that the verifier raised in place of a node and a token, or None.
        branch: its random numbers; None if the verifier computes its distribution.
    """

    node: int
    token: int
    chance: Any
    given_zeros: Any
    error: Exception | None = None
    branch: Branch | None = None

    @property
    def is_rounded(self) -> bool:
        """Whether a float took part in its probability."""
        return is_float(self.chance) if self.branch is None else self.branch.is_rounded


DistributionOf = Callable[[Draft, Any], Iterable[Ending]]
"""(draft, p) -> all ways in which a verifier ends."""


class NotADistributionError(InputError):
    """A verifier returned a node or a token that does not exist, or a negative probability."""


@dataclass(frozen=True)
class Raised:
    """Errors of a verifier on one draft.

    Attributes:
        error: error of the most probable branch that raised one.
        chance: probability of an error, given the draft; 0 if a random number must be exactly 0.
        ending: that branch.
        draft: the draft.
    """

    error: Exception
    chance: Any
    ending: Ending
    draft: Draft


@dataclass(frozen=True)
class Difference:
    """The distribution of the output next to the target's distribution.

    Attributes:
        output: probability of each sequence of the common length in the output.
        target: probability of each sequence of the common length by the target.
        drafts: number of drafts in the sum.
        impossible: a sequence of probability 0 that the verifier still emits if random numbers are exactly 0, or None.
            Given these numbers, its probability is above the tolerance `ROUNDED`.
        raised: errors of the verifier, at most one for each draft.
        lost: probability that the verifier raises an error.
        is_rounded: whether a float took part in these probabilities.
    """

    output: dict[Context, Any]
    target: dict[Context, Any]
    drafts: int
    impossible: Context | None
    raised: tuple[Raised, ...] = ()
    lost: Any = 0
    is_rounded: bool = False

    @property
    def total_variation(self) -> Any:
        """Half the sum of absolute differences; the smallest value that any output instead of errors could give."""
        return (sum(abs(self.output[s] - self.target[s]) for s in self.target) - self.lost) / 2

    @property
    def most_in_excess(self) -> Context:
        """The emitted sequence whose probability exceeds the target's most; if none exceeds it, falls short least."""
        return max(self.target, key=lambda s: (self.output[s] > 0, self.output[s] - self.target[s]))


def compare(
    distribution_of: DistributionOf, world: World, policy: DrawPolicy, length: int, arithmetic: Callable[[Any], Any]
) -> Difference:
    """Compare a verifier's output with the target, over all drafts of `policy` in `world`.

    Outputs are extended by the target to `length` tokens. `arithmetic` makes the arrays that the verifier gets from the
    distributions of the world. The probabilities of drafts stay exact.

    Raises:
        NotADistributionError: the verifier states a node or a token that does not exist, or a negative probability. If
            its draws are enumerated, this is one of its errors instead, with its probability.
    """
    emitted: dict[Context, Any] = {}
    impossible, drafts, lost, is_rounded = None, 0, 0, False
    raised: list[Raised] = []
    for draft, chance in branches(lambda rng: policy.grow(world, rng)):
        drafts += 1
        seen = Draft(draft.tree, draft.tokens, arithmetic(draft.q), draft.draws, draft.rule)
        failed = []
        for ending in distribution_of(seen, arithmetic(world.target(draft))):
            is_rounded |= ending.is_rounded
            if ending.error is not None:
                failed.append(ending)
                continue
            node, token, probability = check_ending(ending.node, ending.token, draft), ending.token, ending.chance
            if probability < 0 and probability < -ROUNDING:
                raise NotADistributionError(
                    f"the verifier gives the negative probability {probability} to node {node}, token {token}"
                )
            text = (*draft.context(node), int(token))
            emitted[text] = emitted.get(text, 0) + chance * probability
            if probability == 0 and ending.given_zeros > ROUNDED and _probability(world, text) == 0:
                impossible = text
        if failed:
            here, likeliest = sum(e.chance for e in failed), max(failed, key=lambda e: e.given_zeros)
            assert likeliest.error is not None
            lost += chance * here
            raised.append(Raised(likeliest.error, here, likeliest, draft))
    output = extend(emitted, world, length)
    target = target_distribution(world, length)
    return Difference(output, target, drafts, impossible, tuple(raised), lost, is_rounded)


def check_ending(node: Any, token: Any, draft: Draft) -> int:
    """The node as an int, after a check that the node and the token exist."""
    _checked("token", token, len(draft.q[0]))
    return _checked("node", node, draft.tree.budget + 1)


def extend(emitted: dict[Context, Any], world: World, length: int) -> dict[Context, Any]:
    """The distribution of the first `length` tokens. Shorter outputs are extended by the target."""
    size = len(world.p(()))
    done: dict[Context, Any] = dict.fromkeys(itertools.product(range(size), repeat=length), 0)
    for text, chance in emitted.items():
        for rest in itertools.product(range(size), repeat=max(0, length - len(text))):
            done[(*text, *rest)[:length]] += chance * _probability(world, (*text, *rest), len(text))
    return done


def target_distribution(world: World, length: int) -> dict[Context, Any]:
    """The target's distribution of sequences of `length` tokens."""
    texts = itertools.product(range(len(world.p(()))), repeat=length)
    return {text: _probability(world, text) for text in texts}


def _probability(world: World, text: Context, given: int = 0) -> Any:
    """The target's probability of the tokens of `text` that follow its first `given` tokens."""
    chance: Any = 1
    for i in range(given, len(text)):
        chance = chance * world.p(text[:i])[text[i]]
    return chance


def _checked(name: str, given: Any, size: int) -> int:
    """`given` as an int, after a check that it is from 0 to `size` - 1."""
    number = index(given)
    if not 0 <= number < size:
        raise NotADistributionError(f"the verifier returned {name} {number}, but it must be from 0 to {size - 1}")
    return number
