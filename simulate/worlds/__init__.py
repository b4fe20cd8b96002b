"""Worlds: what decides how many drafted tokens a cycle keeps, drawn cycle by cycle, and computed exactly.

How to choose:

- `RateWorld`: a table of acceptance rates is all that is known, and all contexts are alike.
- `ReachWorld`: one tree, with the share of the cycles that accept each node, such as a plan from a trace predicts.
- `MarkovWorld`: verifiers and policies are to be compared, dynamic ones too; every token is drafted and verified.

Rates belong to one verifier and cannot tell it from others, so the first two refuse to be asked about another one.

>>> import numpy as np
>>> import spectheory as st
>>> from simulate.worlds import MarkovWorld
>>> world = MarkovWorld(p=np.array([[0.9, 0.1], [0.4, 0.6]]), q=np.array([[0.7, 0.3], [0.4, 0.6]]))
>>> chain, verifier, rule = st.Tree.chain(3), st.verify.Block(), st.DrawRule.IID
>>> f"{world.block_efficiency(chain, verifier, rule):.3f}"
'3.119'
>>> walks = world.walks(chain, verifier, rule, requests=100, cycles=20, rng=np.random.default_rng(0))
>>> f"{walks.tally(st.Provenance('example')).tau:.3f}"
'3.107'
"""

from simulate.worlds.markov import MarkovWorld
from simulate.worlds.rates import RateWorld, ReachWorld
from simulate.worlds.world import SimulatedWorld, Walks

__all__ = ["MarkovWorld", "RateWorld", "ReachWorld", "SimulatedWorld", "Walks"]
