"""The judge: drafts and heads compared on the same texts of a target, paired by prompt."""

from reference.forced_logits import ForcedBatch
from reference.judging.drafts import ForcedDraft, PairDraft
from reference.judging.evaluation import JudgeSettings, judge
from reference.judging.policies import DynamicTrees, JudgedPolicy, StaticTree
from reference.judging.texts import HeldOutTexts

__all__ = [
    "DynamicTrees",
    "ForcedBatch",
    "ForcedDraft",
    "HeldOutTexts",
    "JudgeSettings",
    "JudgedPolicy",
    "PairDraft",
    "StaticTree",
    "judge",
]
