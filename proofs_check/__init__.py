"""A verdict with machine-checked evidence for each claim of the papers."""

from proofs_check import opt_tree
from proofs_check.verdict import CLAIMS, Finding, Verdict

__all__ = ["CLAIMS", "Finding", "Verdict", "opt_tree"]
