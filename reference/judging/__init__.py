"""The judge: drafts and heads compared on the same texts of a target, paired by prompt."""

from reference.forced_logits import ForcedBatch
from reference.judging.drafts import ForcedDraft, ModelDraft
from reference.judging.evaluation import JudgeSettings, judge
from reference.judging.head_drafts import HeadDraft
from reference.judging.policies import DynamicTrees, JudgedPolicy, StaticTree
from reference.judging.texts import HeldOutTexts

__all__ = [
    "DynamicTrees",
    "ForcedBatch",
    "ForcedDraft",
    "HeadDraft",
    "HeldOutTexts",
    "JudgeSettings",
    "JudgedPolicy",
    "ModelDraft",
    "StaticTree",
    "judge",
]
