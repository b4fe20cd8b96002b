"""SALF & TALF (optimised loss function and drafting for tree-based speculative decoding), claim by claim.

Algorithm 2 is run word by word in rational arithmetic. N counts the root, which G holds once; line 5 takes B nodes;
among equal probabilities the smaller depth and then the smaller path goes first. Drafts are Markov chains on ranks, so
that they have no last layer. What drafting is worth is the sum of p-hat, the expected number of accepted tokens where
the target is as the draft.
"""

from proofs_check.salf_talf import monotone, threshold, optimal, pruning, tables, ideal_draft  # isort: skip  # the order of the claims

__all__ = ["ideal_draft", "monotone", "optimal", "pruning", "tables", "threshold"]
