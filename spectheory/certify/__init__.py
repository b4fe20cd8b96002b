"""Certificates: does a verifier, or a whole decoding step, keep the target's distribution?"""

from spectheory.certify.verdict import Verdict

__all__ = ["Verdict"]
