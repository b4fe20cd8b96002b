"""Acceptance rates by depth and rank with their 95% intervals, from example counts."""

import spectheory as st
from spectheory.report.figures import acceptance_figure


def draw() -> str:
    hits = [[6500, 1200, 600, 300], [4100, 700, 310, 160], [2500, 380, 160, 90]]
    return acceptance_figure(st.Acceptance.from_counts(hits, [10000, 6500, 4100]))
