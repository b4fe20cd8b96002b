"""Goose: a path copied from the text (the spine), with short branches beside it from stored successors."""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import ceil

from torch import Tensor

from reference.drafters.drafter import Drafter, DrafterKind, Drafting, undrawn
from reference.drafters.lookup import TextIndex, chain, check_lengths
from reference.drafters.recycling import TwoTierTable, harvest_order
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, Tree
from spectheory.core.errors import InputError
from spectheory.goose import harmonic_widths

SMOOTHING = 0.3
"""Weight of the last cycle in the moving average of the share of the spine's tokens that are accepted."""
RATIO_STEPS, RATIOS = (0.2, 0.4), (0.15, 0.3, 0.5)
"""The spine's share of the budget is the first, second or third ratio, where that average is at or above the steps."""
_harmonic_widths = cache(harmonic_widths)
"""Cached: the widths depend on two small numbers only, and computing them takes longer than the rest of a tree."""


@dataclass(frozen=True)
class Goose(Drafter):
    """Drafts spine trees from the text itself and from earlier logits; the defaults are those of Appendix C.3.

    A match is an earlier occurrence of the end of the text. If it is trusted, the cycle drafts its continuation as a
    chain (bypass), else the spine tree of Algorithm 1. The greedy walk with source priority (Algorithm 3) needs no
    code: the spine child is the first of its siblings and a branch with the same token is left out.

    Attributes:
        budget: maximum number of drafted nodes.
        lengths: lengths of the n-grams at the end of the text that are looked up.
        max_spine: maximum number of tokens of the spine.
        top_k: maximum number of branches at a node, and of successors stored for a context.
        branch_depth: maximum depth of a branch below the spine.
        min_score: minimum probability of a branch.
        bypass_length: a match of at least this many tokens is trusted; a match with consensus always is. None: no
            match is trusted.

    Half of the branches are at the root, the others along the spine as 1 : 1/2 : 1/3 : ... `spectheory.goose.allocate`
    has the integer optimum of Eq. 1.

    The copy of the source that we have lacks its symbols and the listings of its algorithms. What is done here:
    `lengths` and the ratios are those of a public implementation. The length of a match is the number of tokens that it
    copies from the text, so most matches are trusted (see `spectheory.goose.spine_tree`), also the match of the
    source's worked example. The spine is "extended aggressively": a copy may run into itself, as in `PromptLookup`.
    Steps 2 to 4 are one breadth-first queue that begins with the spine's nodes and their widths, at most `top_k` each.
    The children of a node, its most probable successors, share its width in proportion to their probabilities, rounded
    up, best first, each at least 1 ("the harmonic schedule, modulated by the score relative to its siblings").

    Source: Goose, Section 4, Algorithms 1 to 3, Appendix C.
    """

    budget: int = 60
    lengths: tuple[int, ...] = (5, 4, 3)
    max_spine: int = 20
    top_k: int = 10
    branch_depth: int = 6
    min_score: float = 0.01
    bypass_length: int | None = 8

    def __post_init__(self) -> None:
        check_lengths(self.lengths)
        if min(self.budget, self.top_k) < 1 or min(self.max_spine, self.branch_depth) < 0:
            raise InputError(
                "budget and top_k must be at least 1, max_spine and branch_depth at least 0, got "
                f"{self.budget}, {self.top_k}, {self.max_spine} and {self.branch_depth}"
            )

    def start(self, pair: Pair, sampling: Sampling) -> GooseDrafting:
        return GooseDrafting(self)


class GooseDrafting(Drafting):
    """Drafts one text by Goose.

    Attributes:
        draft: the last draft; its nodes 1 to `spine` are the spine.
        kept: moving average of the share of the spine's tokens that are accepted, Goose's confidence in its matches.
    """

    def __init__(self, settings: Goose) -> None:
        self.settings = settings
        self.index = TextIndex(settings.lengths)
        self.table = TwoTierTable(settings.top_k, settings.min_score)
        self.kept = 0.5
        self.draft: Draft | None = None
        self.spine = 0

    def read(self, prompt: list[int], logits: Tensor) -> None:
        self.index.extend(prompt)
        self.table.harvest([(prompt[0],), *pairwise(prompt)], logits)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """Logits are stored first, because their contexts need the text without `emitted`."""
        if self.draft is not None and logits is not None:
            rows = harvest_order(len(logits), path)
            self.table.harvest([self._context(self.draft, node) for node in rows], logits[rows])
            if self.spine:
                self.kept += SMOOTHING * (sum(node <= self.spine for node in path) / self.spine - self.kept)
        self.index.extend(emitted)

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        settings, root = self.settings, self.index.text[-1]
        match = self.index.match(min(room, settings.max_spine, settings.budget))
        trusted = match.consensus or match.length >= (settings.bypass_length or 0)
        spine = match.tokens
        if settings.bypass_length is not None and trusted and spine:
            self.draft = chain(root, spine)
        else:
            ratio = RATIOS[bisect(RATIO_STEPS, self.kept)]
            spine = spine[: int(ratio * settings.budget)]
            self.draft = self._branched(root, spine, room)
        self.spine = len(spine)
        return self.draft

    def _branched(self, root: int, spine: list[int], room: int) -> Draft:
        """The spine tree of Algorithm 1; a queue of (node, width, depth below the spine, depth) grows the branches."""
        settings, tokens, parent = self.settings, [root, *spine], list(range(-1, len(spine)))
        branches = settings.budget - len(spine)
        at_root = branches // 2 if spine else branches
        widths = [at_root, *_harmonic_widths(len(spine), branches - at_root)]
        waiting = deque((node, min(width, settings.top_k), 0, node) for node, width in enumerate(widths) if width)
        while waiting:
            node, width, below, depth = waiting.popleft()
            if below == settings.branch_depth or depth == room:
                continue
            before = tokens[parent[node]] if node else self.index.text[-2]
            copied = tokens[node + 1] if node < len(spine) else None
            row = [found for found in self.table.successors(before, tokens[node]) if found[0] != copied][:width]
            for (token, _), share in zip(row, _shares(width, [score for _, score in row]), strict=True):
                if len(tokens) > settings.budget:
                    break
                waiting.append((len(tokens), share, below + 1, depth + 1))
                tokens.append(token)
                parent.append(node)
        return undrawn(Tree(parent), tokens)

    def _context(self, draft: Draft, node: int) -> tuple[int, int]:
        before = draft.tokens[draft.tree.parent[node]] if node else self.index.text[-2]
        return before, draft.tokens[node]


def _shares(width: int, scores: Sequence[float]) -> Iterator[int]:
    left = sum(scores)
    for score in scores:
        share = min(width, ceil(width * score / (max(left, score) or 1) - 1e-9))  # left may be 0 by rounding
        yield max(1, share)
        width, left = width - share, left - score


KIND = DrafterKind.of(
    Goose(),
    "Goose",
    Goose(budget=6, lengths=(2, 1), max_spine=2, top_k=2, branch_depth=2, bypass_length=None),
    Goose(budget=6, lengths=(2, 1), max_spine=3, top_k=3, branch_depth=2),
)
