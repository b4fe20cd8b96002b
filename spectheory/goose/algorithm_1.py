"""The tree that Algorithm 1 of Goose builds."""

from __future__ import annotations

from collections import deque

import numpy as np

from spectheory.core.checks import check_counts, check_probabilities
from spectheory.core.tree import Tree
from spectheory.goose.two_source import Siblings, SpineTree, sibling_rule
from spectheory.goose.widths import harmonic_widths


def spine_tree(
    p_spine: float,
    p_branch: float,
    budget: int,
    match_length: int,
    *,
    spine_ratio: float = 0.5,
    root_ratio: float = 0.5,
    max_spine: int = 20,
    top_k: int = 10,
    min_score: float = 0.01,
    branch_depth: int = 6,
    bypass_length: int | None = 8,
    siblings: Siblings = "sequential",
) -> SpineTree:
    """The tree that Algorithm 1 builds, and its block efficiency by the rates of `SpineTree`. See also `optimal_tree`.

    1. The spine: at most spine_ratio * budget tokens of the match.
    2. Branches at the root: the share root_ratio of the remaining budget.
    3. Branches at the spine nodes: the rest, divided by the harmonic rule.
    4. Whatever budget is left extends the branches, breadth first, one token each, down to branch_depth.

    Args:
        p_spine: the rate of a token of the match.
        p_branch: the rate of a branch, as for `SpineTree`.
        budget: maximum number of drafted nodes; the source uses 60.
        match_length: the number of tokens of the match, 0 for no match.
        spine_ratio: maximum number of spine tokens, as a share of the budget. The source adapts it to a moving average
            of the spine's acceptance, between 0.15 and 0.5.
        root_ratio: share of the remaining budget for branches at the root; the source calls it spine-branch ratio.
        max_spine: maximum number of tokens of the spine.
        top_k: maximum number of branches at a node.
        min_score: branches with a lower score are left out. The score of branch j is its rate off the spine:
            p_branch (1 - p_branch)^j for sequential siblings, p_branch for exclusive siblings.
        branch_depth: maximum number of tokens on a path of branches.
        bypass_length: minimum length of a match that is drafted as a chain without branches; None for no such length.
        siblings: "sequential" or "exclusive", model (2) or (3) of `spectheory.goose`.

    Raises:
        InputError: an argument is out of range.

    Where the source is wrong or ambiguous, and what is done here:

    - Steps 2 and 3 together may use the whole budget. Then step 4 has something to spend only if top_k or min_score
      leaves branches out. Budget that step 4 cannot spend is not used.
    - The score of a branch is not defined. Here it is the rate of the branch off the spine.
    - The last spine node gets branches too, although no spine token is beside them. Eq. 1 has no branches there.
    - The source has "bypass from 8 tokens" and "spines up to 20". Together they mean that a spine of more than 7 tokens
      has no branches.
    - Without a match there is no spine token to try, so p_spine counts as 0.

    A bypass drops every branch. For p_spine = 0.5, p_branch = 0.3 and a budget of 60, the block efficiency is 2.00 for
    a match of 8 tokens, 3.11 for a match of 7 tokens, and 2.99 for `optimal_tree` with branches alone. Proposition
    4(ii) fails there.

    Source: Goose, Algorithm 1, Sections 4.1 and 4.3, and its table of hyperparameters.
    """
    check_probabilities(
        p_spine=p_spine, p_branch=p_branch, spine_ratio=spine_ratio, root_ratio=root_ratio, min_score=min_score
    )
    check_counts(max_spine=max_spine, budget=budget, match_length=match_length, top_k=top_k, branch_depth=branch_depth)
    if bypass_length is not None:
        check_counts(bypass_length=bypass_length)
    again, most = sibling_rule(float(p_branch), siblings)
    bypassed = bypass_length is not None and match_length >= max(1, bypass_length)
    spine = min(match_length, max_spine, budget if bypassed else int(spine_ratio * budget))
    parent = list(range(-1, spine))
    if not bypassed:
        widest = int((p_branch * again ** np.arange(min(top_k, most)) >= min_score).sum()) if branch_depth else 0
        at_root = int(root_ratio * (budget - spine))
        widths = [at_root, *harmonic_widths(spine, budget - spine - at_root)]
        _branch(parent, [min(width, widest) for width in widths], branch_depth, budget)
    is_spine = [node <= spine for node in range(len(parent))]
    return SpineTree.valued(Tree(parent), is_spine, p_spine if match_length else 0.0, p_branch, siblings=siblings)


def _branch(parent: list[int], widths: list[int], branch_depth: int, budget: int) -> None:
    """Add `widths[node]` branches to each spine node, then extend the branches breadth first while budget is left."""
    leaves: deque[tuple[int, int]] = deque()
    for node, width in enumerate(widths):
        leaves.extend((child, 1) for child in range(len(parent), len(parent) + width))
        parent += [node] * width
    while leaves and len(parent) <= budget:
        leaf, depth = leaves.popleft()
        if depth < branch_depth:
            leaves.append((len(parent), depth + 1))
            parent.append(leaf)
