"""The neural selector of delayed trees: actions, labels by Eq. (3), training, comparison, and a drafter."""

from reference.selector.actions import Action, ActionSpace
from reference.selector.comparison import PolicyRow, PolicyRun, SelectorComparison
from reference.selector.drafter import Selected
from reference.selector.evaluation import evaluate_selector
from reference.selector.labels import Labels, LabelSettings, read_labels, write_labels
from reference.selector.selector import Selector, SelectorCard
from reference.selector.training import SelectorTraining, train_selector

__all__ = [
    "Action",
    "ActionSpace",
    "LabelSettings",
    "Labels",
    "PolicyRow",
    "PolicyRun",
    "Selected",
    "Selector",
    "SelectorCard",
    "SelectorComparison",
    "SelectorTraining",
    "evaluate_selector",
    "read_labels",
    "train_selector",
    "write_labels",
]
