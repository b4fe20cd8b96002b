"""Trees with their verifiers and draw rules, replayed on the same texts: what a plan chooses from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.otlp import RRS, Naive
from spectheory.replay import Replayed, Replays
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier, name_of

BUDGETS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256)
"""Budgets at which trees and chains are replayed. The local search reaches those between."""
PLANNED_VERIFIERS: tuple[Verifier, ...] = TopDown(Naive()), TopDown(RRS()), Traversal(), Block()
"""The verifiers of sampled text among which a plan chooses: those that are lossless for planned trees or chains, and
that no other of them beats everywhere."""


@final
@dataclass(frozen=True, eq=False)
class Option:
    """A tree, its verifier and its draw rule, with its cycles on the recorded texts."""

    tree: Tree
    verifier: Verifier
    rule: DrawRule
    replayed: Replayed

    def speedup(self, latency: Latency, context: int) -> float:
        """Predicted speedup over plain decoding."""
        return latency.speedup(self.tree, self.replayed.tau, context, name_of(self.verifier))


class ReplayedOptions:
    """The options on the same texts. A tree is replayed once with each verifier.

    Args:
        replays: the texts.

    Raises:
        InputError: `replays` is not a Replays.
    """

    def __init__(self, replays: Replays) -> None:
        if not isinstance(replays, Replays):
            raise InputError(f"replays must be a Replays, made from texts of the target, got {replays!r:.60}")
        self.replays = replays
        self._known: dict[tuple[Tree, Verifier], Option] = {}

    def of(self, tree: Tree, only: Verifier | None = None) -> list[Option]:
        """A tree with each of `planned_verifiers`, or with one of them only."""
        options = []
        for verifier, rule in planned_verifiers(self.replays, tree):
            if only is None or verifier == only:
                if (tree, verifier) not in self._known:
                    replayed = self.replays.replay(tree, verifier, rule)
                    self._known[tree, verifier] = Option(tree, verifier, rule, replayed)
                options.append(self._known[tree, verifier])
        return options

    @property
    def known(self) -> list[Option]:
        """All options so far."""
        return list(self._known.values())

    @property
    def deepest(self) -> int:
        """The depth of the deepest tree that the texts can judge: half the median text, so that a few long texts do not
        decide alone.
        """
        return (int(np.median([len(text) for text in self.replays.texts])) - self.replays.first) // 2

    def can_judge(self, tree: Tree) -> bool:
        """Whether the texts can judge a tree."""
        return 0 < tree.max_depth <= self.deepest and self.replays.can_replay(tree)

    def chains(self, longest: int) -> list[Option]:
        """The chains of `BUDGETS` tokens, up to `longest`, that the texts can judge, each with every verifier."""
        chains = [Tree.chain(length) for length in BUDGETS if length <= longest]
        return [option for chain in chains if self.can_judge(chain) for option in self.of(chain)]

    def of_verifier(self, tree: Tree, name: str) -> list[Option]:
        """A tree with the verifier of this name.

        Raises:
            InputError: it is not one that a plan replays for this tree.
        """
        known = {name_of(verifier): verifier for verifier, _ in planned_verifiers(self.replays, tree)}
        if name not in known:
            raise InputError(
                f"verifier must be one that a plan replays for {tree}, {', '.join(known)}, got {name!r:.60}"
            )
        return self.of(tree, known[name])


def planned_verifiers(replays: Replays, tree: Tree) -> Iterator[tuple[Verifier, DrawRule]]:
    """The verifiers for a planned tree on these texts, each with the rule by which the tree is drawn."""
    if replays.greedy:
        yield Greedy(), DrawRule.TOP_K
        return
    rule = DrawRule.IID if tree.is_chain else DrawRule.NO_REPLACEMENT
    for verifier in PLANNED_VERIFIERS:
        if rule in verifier.rules and (tree.is_chain or verifier.takes == "trees"):
            yield verifier, rule


def fastest(options: Iterable[Option], latency: Latency, context: int) -> Option | None:
    """The fastest of the options; None if there is none."""
    return max(options, key=lambda option: option.speedup(latency, context), default=None)


def paying(options: Iterable[Option], latency: Latency, context: int) -> Option | None:
    """The fastest of the options; None if none is faster than plain decoding."""
    best = fastest(options, latency, context)
    return best if best and best.speedup(latency, context) > 1 else None
