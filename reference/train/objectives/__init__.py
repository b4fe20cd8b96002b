"""The training losses on batches of the target's own texts: one file for each family of losses."""

from reference.train.objectives.chain import ChainObjective, DraftModelObjective
from reference.train.objectives.dispatch import objective_of
from reference.train.objectives.groups import DraftTrees, GroupObjective
from reference.train.objectives.lessons import Batching, HeadObjective, Lesson, Objective
from reference.train.objectives.target_trees import TreeObjective

__all__ = [
    "Batching",
    "ChainObjective",
    "DraftModelObjective",
    "DraftTrees",
    "GroupObjective",
    "HeadObjective",
    "Lesson",
    "Objective",
    "TreeObjective",
    "objective_of",
]
