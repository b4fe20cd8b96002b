"""A verdict with machine-checked evidence for each claim of the papers."""

from proofs_check import delayed_trees, goose, gto, opt_tree, salf_talf
from proofs_check.verdict import CLAIMS, SECOND, Claim, Verdict, decide

__all__ = [
    "CLAIMS",
    "SECOND",
    "Claim",
    "Verdict",
    "decide",
    "delayed_trees",
    "goose",
    "gto",
    "opt_tree",
    "salf_talf",
]
