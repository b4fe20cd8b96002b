"""Certificates: whether a verifier, or a whole decoding step, keeps the target's distribution."""

from spectheory.certify.certificate import Certificate, StepCertificate, Verdict
from spectheory.certify.exact import certify_verifier
from spectheory.certify.layouts import EagleInputs, SglangInputs, VllmInputs, eagle_play, sglang_play, vllm_play
from spectheory.certify.play import Play, as_step, markov_world, spread_ids
from spectheory.certify.rows import rows_of_indices
from spectheory.certify.step import certify_in_worlds, certify_step

__all__ = [
    "Certificate",
    "EagleInputs",
    "Play",
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
    "rows_of_indices",
    "sglang_play",
    "spread_ids",
    "vllm_play",
]
