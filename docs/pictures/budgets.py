"""Tokens per target call and speedup by budget, for example rates; drafting takes a tenth of a target forward."""

import spectheory as st
from spectheory.report.schedules import budget_figure


def draw() -> str:
    rates = st.Acceptance.by_rank([0.65, 0.12, 0.06, 0.03])
    return budget_figure(st.plan(rates, st.Latency.constant(draft_seconds=0.1), max_budget=32))
