"""Verifiers: the law of where a draft is left and of the token that follows."""

from spectheory.verify.outcome import Outcome
from spectheory.verify.top_down import Greedy, TopDown, walk
from spectheory.verify.verifier import Verifier

__all__ = ["Greedy", "Outcome", "TopDown", "Verifier", "walk"]
