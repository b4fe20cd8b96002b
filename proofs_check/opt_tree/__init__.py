"""OPT-Tree (arXiv 2406.17276), Section 3, against every draft of small grids.

A tree of n nodes is no deeper than n, so a full tree of depth n stands for the infinite one. Children are the draft's
most probable tokens; a verifier emits the target's own token, greedy or sampled, and follows it down the tree.
"""

from proofs_check.opt_tree import order, optimum, threshold, acceptance, tables, layer, again  # noqa: I001 - in the paper's order

__all__ = ["acceptance", "again", "layer", "optimum", "order", "tables", "threshold"]
