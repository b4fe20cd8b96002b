"""Computed times of forwards of Llama-3.1-8B and its EAGLE-3 head on an H100, by the number of tokens."""

import spectheory as st
from spectheory.report.figures import latency_figure


def draw() -> str:
    h100 = st.Deployment(gpu="h100_sxm", target="llama-3.1-8b", draft="eagle3-llama-3.1-8b", context=1024)
    return latency_figure(h100.latency(batch=1))
