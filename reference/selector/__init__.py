"""The neural selector of delayed trees: trees, labels by Eq. (3), network, training, drafter, comparison."""

from reference.selector.comparison import compare_selectors
from reference.selector.drafter import Selected
from reference.selector.labels import Labels, selector_labels
from reference.selector.selector import Selector, train_selector
from reference.selector.trees import Action, ActionSpace

__all__ = [
    "Action",
    "ActionSpace",
    "Labels",
    "Selected",
    "Selector",
    "compare_selectors",
    "selector_labels",
    "train_selector",
]
