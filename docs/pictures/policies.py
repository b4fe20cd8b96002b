"""Policies at 16 nodes on 50 random contexts: expected tokens per target call beside draft calls and draft tokens."""

import numpy as np

import spectheory as st
from spectheory.report.policy_comparison import policy_figure


def draw() -> str:
    distribution = np.random.default_rng(0).dirichlet([0.05] * 50, size=50)
    contexts = [st.search.MarkovDraft(distribution, start) for start in range(50)]
    return policy_figure(st.search.compare_policies(contexts, st.search.standard_policies(contexts, budget=16)))
