"""The predicted speedup of Llama-3.1-8B with its EAGLE-3 head on an H100, by batch size, for example counts."""

import spectheory as st
from spectheory.report.schedules import speedup_figure


def draw() -> str:
    counts = st.Acceptance.from_counts([[6500, 1200, 600, 300]], [10000])
    h100 = st.Deployment(gpu="h100_sxm", target="llama-3.1-8b", draft="eagle3-llama-3.1-8b", context=1024)
    return speedup_figure(h100.schedule(counts, [1, 2, 4, 8, 16, 32, 64, 128], max_budget=16))
