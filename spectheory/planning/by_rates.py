"""Predictions of a tree without a trace: by request classes where they were fitted, otherwise by one table of rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import Acceptance
from spectheory.core.tree import Tree
from spectheory.yields import RequestClasses, block_efficiency, block_efficiency_interval, reach


@dataclass(frozen=True)
class ByRates:
    """What the rates predict.

    Attributes:
        acceptance: the acceptance rates.
        classes: the classes of contexts that were fitted to their counts; None multiplies the rates of one table.
    """

    acceptance: Acceptance
    classes: RequestClasses | None = None

    def tau(self, tree: Tree) -> float:
        """Predicted tokens per target call."""
        if self.classes is not None:
            return self.classes.block_efficiency(tree)
        return block_efficiency(tree, self.acceptance)

    def taus(self, tree: Tree, budgets: np.ndarray) -> np.ndarray:
        """Predicted tokens per target call of the first nodes of `tree`, for each number of drafted nodes."""
        if self.classes is None:
            return reach(tree, self.acceptance).cumsum()[budgets]
        by_class = self.classes.reach_by_class(tree).cumsum(-1)[:, budgets]
        return 1 / (self.classes.shares @ (1 / by_class))

    def interval(self, tree: Tree) -> tuple[float, float] | None:
        """95% interval of `tau`; None for rates without counts."""
        if self.classes is not None:
            return self.classes.block_efficiency_interval(tree)
        return None if self.acceptance.trials is None else block_efficiency_interval(tree, self.acceptance)

    def reach(self, tree: Tree) -> Float[np.ndarray, " nodes"]:
        """Predicted probability that each node is accepted."""
        return reach(tree, self.acceptance) if self.classes is None else self.classes.reach(tree)
