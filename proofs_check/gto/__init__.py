"""Group Tree Optimization (GTO), claim by claim.

The symbols of its formulas are lost; they are rebuilt from the text and the bounds of Appendix A:
r = (1/eta) log(sum_i exp(eta L_i)), L_i the sum of the target's probabilities of the paths on the way to leaf i. The
draft's tokens are given; the target emits tokens of its own and the draft is followed as long as it agrees. Rewards are
compared through exponentials enclosed between rational numbers, never in floating point.
"""

from proofs_check.gto import reward, sampled, greedy, lemma1, surrogate, speed, tables  # isort: skip  # the order of the claims

__all__ = ["greedy", "lemma1", "reward", "sampled", "speed", "surrogate", "tables"]
