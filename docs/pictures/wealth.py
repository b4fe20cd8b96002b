"""The wealth of the bet against a step that draws its correction from p, where the residual is right."""

import numpy as np

import spectheory as st
from spectheory.report.certificate import wealth_figure

P, Q = np.random.default_rng(0).dirichlet(np.ones(6), (2, 6))


def wrong_step(context, rng):
    last = (0, *context)[-1]
    drafted = rng.choice(6, p=Q[last])
    if rng.random() * Q[last][drafted] < P[last][drafted]:
        return [drafted, rng.choice(6, p=P[drafted])]
    return [rng.choice(6, p=P[last])]


def draw() -> str:
    certificate = st.certify_step(wrong_step, lambda context: P[(0, *context)[-1]], vocab_size=6, contexts=[()], seed=0)
    return wealth_figure(certificate.path, certificate.alpha, certificate.verdict.name)
