"""Machine-checked evidence for each claim of the papers."""

from proofs_check.claims import CLAIMS, SECOND, Claim, Finding, decide, gather

__all__ = ["CLAIMS", "SECOND", "Claim", "Finding", "decide"]

gather(f"{__name__}.{paper}" for paper in ("goose", "salf_talf", "opt_tree", "delayed_trees", "gto", "replay"))
