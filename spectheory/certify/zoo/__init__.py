"""Named rules, wrong and right, that a certifier must tell apart.

`SPECIMENS` are for `certify_verifier`, `STEPS` for `certify_step`. Each wrong one was seen in an engine, in a paper, or
is what a careless reading gives; the right ones include those that look wrong.
"""

from spectheory.certify.zoo.chains import PATHS
from spectheory.certify.zoo.nodes import NODES
from spectheory.certify.zoo.specimen import Specimen, StepSpecimen
from spectheory.certify.zoo.steps import STEPS
from spectheory.certify.zoo.trees import TREES

SPECIMENS = (*NODES, *PATHS, *TREES)

__all__ = ["SPECIMENS", "STEPS", "Specimen", "StepSpecimen"]
