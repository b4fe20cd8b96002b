"""Lossy rules that engines ship: what they emit, how far that is from the target, and what they gain."""

from spectheory.lossy.acceptance_threshold import AcceptanceThreshold
from spectheory.lossy.fly import FLy
from spectheory.lossy.mismatch import Mismatch, TopK, TopP
from spectheory.lossy.relaxed_acceptance import RelaxedAcceptance
from spectheory.lossy.rule import LossyRule, LossyStep, lossy_step
from spectheory.lossy.text import TextError, text_bound, text_error
from spectheory.lossy.typical import Typical

__all__ = [
    "AcceptanceThreshold",
    "FLy",
    "LossyRule",
    "LossyStep",
    "Mismatch",
    "RelaxedAcceptance",
    "TextError",
    "TopK",
    "TopP",
    "Typical",
    "lossy_step",
    "text_bound",
    "text_error",
]
