"""The best tree of 16 nodes for example rates."""

import spectheory as st
from spectheory.report.figures import tree_figure

RATES = st.Acceptance.by_rank([0.65, 0.12, 0.06, 0.03])


def draw() -> str:
    tree = st.best_tree(RATES, budget=16)
    return tree_figure(tree, st.reach(tree, RATES))
