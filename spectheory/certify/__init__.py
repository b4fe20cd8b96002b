"""Certificates: whether a verifier, or a whole decoding step, keeps the target's distribution."""

from spectheory.certify.as_step import as_step, markov_world
from spectheory.certify.certificate import Certificate
from spectheory.certify.exact import certify_verifier
from spectheory.certify.layouts import (
    EagleInputs,
    SglangInputs,
    VllmInputs,
    eagle_play,
    sglang_play,
    vllm_play,
)
from spectheory.certify.play import Play, spread_ids
from spectheory.certify.processing import Processing, processed
from spectheory.certify.rows import rows_of_indices, rows_of_probabilities
from spectheory.certify.step import certify_in_worlds, certify_step
from spectheory.certify.step_certificate import StepCertificate
from spectheory.certify.verdict import Verdict

__all__ = [
    "Certificate",
    "EagleInputs",
    "Play",
    "Processing",
    "SglangInputs",
    "StepCertificate",
    "Verdict",
    "VllmInputs",
    "as_step",
    "certify_in_worlds",
    "certify_step",
    "certify_verifier",
    "eagle_play",
    "markov_world",
    "processed",
    "rows_of_indices",
    "rows_of_probabilities",
    "sglang_play",
    "spread_ids",
    "vllm_play",
]
