"""Lossy and lossless verifiers with names, which a certifier must tell apart.

`SPECIMENS` are for `certify_verifier`, `STEPS` for `certify_step`. Each lossy verifier was seen in an engine or in a
paper, or results from a careless reading of a paper. Some lossless verifiers look lossy.
"""

from spectheory.certify.zoo.chains import PATHS
from spectheory.certify.zoo.nodes import NODES
from spectheory.certify.zoo.published import PUBLISHED
from spectheory.certify.zoo.specimen import Specimen, StepSpecimen
from spectheory.certify.zoo.steps import STEPS
from spectheory.certify.zoo.trees import TREES

SPECIMENS = (*NODES, *PATHS, *TREES, *PUBLISHED)

__all__ = ["SPECIMENS", "STEPS", "Specimen", "StepSpecimen"]
