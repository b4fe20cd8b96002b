"""Drafts drawn from the draft model in a fixed shape: chains, independent paths, delayed trees, k-ary trees."""

from __future__ import annotations

from dataclasses import dataclass

from reference.candidates import child_tokens
from reference.drafters.drafter import Drafter, DrafterKind
from reference.drafters.model import PathDrafting
from reference.drafters.static import PlannedTree, full_tree
from reference.host_arrays import numpy_on_host
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy, Growth, Levels, Paths


@dataclass(frozen=True)
class Drawn(Drafter):
    """Draws drafts from the draft model by `policy`: `Levels`, or `Paths`, which includes delayed trees.

    Greedy decoding draws nothing: use a `PlannedTree` there.
    """

    policy: DrawPolicy

    def rule(self, sampling: Sampling) -> DrawRule:
        return self.policy.rule

    @property
    def chains(self) -> bool:
        if isinstance(self.policy, Paths):
            return self.policy.paths == 1
        return isinstance(self.policy, Levels) and set(self.policy.counts) == {1}

    @property
    def paths(self) -> bool:
        return isinstance(self.policy, Paths) or self.chains

    @property
    def shape(self) -> DrawPolicy:
        return self.policy

    def start(self, pair: Pair, sampling: Sampling) -> PathDrafting:
        if sampling.greedy:
            raise InputError(f"{self.policy.name} draws its drafts and temperature 0 draws nothing: use a PlannedTree")
        return DrawnDrafting(pair, sampling, self.policy)


class DrawnDrafting(PathDrafting):
    """Drafts one text by a policy, with one draft forward per level."""

    def __init__(self, pair: Pair, sampling: Sampling, policy: DrawPolicy) -> None:
        super().__init__(pair, sampling)
        self.policy = policy

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """Nodes with the same path (`DrawRule.IID_APART`) share a row of the draft's forward."""
        growth, level = Growth(self.policy.rule, self.pending[-1]), [0]
        for depth in range(room):
            counts = {node: count for node in level if (count := self.policy.draws(depth, growth.hits[node]))}
            if not counts:
                break
            rows = {path: row for row, path in enumerate(dict.fromkeys(growth.contexts[node] for node in counts))}
            q = numpy_on_host(self.sampling.distribution(self.logits(list(rows))))
            if len(rows) < len(counts):
                q = q[[rows[growth.contexts[node]] for node in counts]]
            drawn = child_tokens(q, max(counts.values()), self.policy.rule, rng).tolist()
            level = []
            for (node, count), own, tokens in zip(counts.items(), q, drawn, strict=True):
                level += growth.add(node, own, [token for token in tokens[:count] if token >= 0])
        return growth.draft()


def _compared(sampling: Sampling) -> dict[str, Drafter]:
    if sampling.greedy:
        trees = {"3 paths of 4": full_tree((3, 1, 1, 1)), "delayed (3, 2, 2)": full_tree((1, 1, 3, 1))}
        return {name: PlannedTree(tree) for name, tree in trees.items()}
    return {
        "3 paths of 4": Drawn(Paths(3, 4)),
        "delayed (3, 2, 2)": Drawn(Paths(3, 2, trunk=2)),
        "hub 2x2x2": Drawn(Levels((2, 2, 2), DrawRule.HUB)),
        "top and one 3x2x1": Drawn(Levels((3, 2, 1), DrawRule.TOP_K_THEN_ONE)),
    }


KIND = DrafterKind(
    compared=lambda sampling, plan: _compared(sampling),
    greedy=lambda: (),
    small=lambda: map(Drawn, (Paths(2, 2), Paths(2, 1, trunk=1), *(Levels((2, 1), rule) for rule in DrawRule))),
)
