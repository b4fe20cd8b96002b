"""Certificates: whether a verifier, or a whole decoding step, keeps the target's distribution."""

from spectheory.certify.as_step import as_step, markov_world
from spectheory.certify.certificate import Certificate
from spectheory.certify.exact import certify_verifier
from spectheory.certify.play import Play, spread_ids
from spectheory.certify.rows import rows_of_indices, rows_of_probabilities
from spectheory.certify.step import certify_in_worlds, certify_step
from spectheory.certify.step_certificate import StepCertificate
from spectheory.certify.verdict import Verdict

__all__ = [
    "Certificate",
    "Play",
    "StepCertificate",
    "Verdict",
    "as_step",
    "certify_in_worlds",
    "certify_step",
    "certify_verifier",
    "markov_world",
    "rows_of_indices",
    "rows_of_probabilities",
    "spread_ids",
]
