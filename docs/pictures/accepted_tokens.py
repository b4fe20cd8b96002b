"""How many drafted tokens a cycle accepts: theory beside 20,000 simulated cycles of the same plan."""

import simulate
import spectheory as st
from spectheory.report.figures import accepted_figure


def draw() -> str:
    plan = st.plan(st.Acceptance.by_rank([0.65, 0.12, 0.06, 0.03]), st.Latency.constant(draft_seconds=0.1))
    return accepted_figure(st.compare(plan, simulate.run(plan), "simulation"))
