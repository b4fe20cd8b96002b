"""Theory, simulation and planning of tree-based speculative decoding.

`__all__` has the names of most programs. Every room is an attribute too, such as `spectheory.replay`.
"""

from spectheory import certify as certify
from spectheory import core as core
from spectheory import engines as engines
from spectheory import goose as goose
from spectheory import gto as gto
from spectheory import hardware as hardware
from spectheory import otlp as otlp
from spectheory import planning as planning
from spectheory import replay as replay
from spectheory import report as report
from spectheory import results as results
from spectheory import search as search
from spectheory import verify as verify
from spectheory import yields as yields
from spectheory.certify import Certificate, Verdict, as_step, certify_step, certify_verifier
from spectheory.core.acceptance import Acceptance
from spectheory.core.chance import branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record, load
from spectheory.core.tree import Tree
from spectheory.core.world import Levels, Paths, World
from spectheory.engines import export, read_report
from spectheory.hardware.calibrated_costs import CalibratedCosts, calibrate
from spectheory.hardware.latency import Latency
from spectheory.hardware.model_config import ModelConfig
from spectheory.otlp import Solver, optimal_acceptance
from spectheory.planning.deployment import Deployment
from spectheory.planning.planner import evaluate, plan, schedule
from spectheory.planning.schedule_record import Schedule
from spectheory.replay import GreedyText, Replays, TargetText
from spectheory.results.plan_comparison import compare
from spectheory.results.tally import Tally
from spectheory.search import best_tree, best_trees, yield_table
from spectheory.verify import Verifier
from spectheory.yields import block_efficiency, expected_block_efficiency, reach

__version__ = "0.1.0"

__all__ = [
    "Acceptance",
    "CalibratedCosts",
    "Certificate",
    "Deployment",
    "Draft",
    "DrawRule",
    "GreedyText",
    "InputError",
    "Latency",
    "Levels",
    "ModelConfig",
    "Paths",
    "Provenance",
    "Record",
    "Replays",
    "Schedule",
    "Solver",
    "Tally",
    "TargetText",
    "Tree",
    "Verdict",
    "Verifier",
    "World",
    "__version__",
    "as_step",
    "best_tree",
    "best_trees",
    "block_efficiency",
    "branches",
    "calibrate",
    "certify_step",
    "certify_verifier",
    "compare",
    "engines",
    "evaluate",
    "expected_block_efficiency",
    "export",
    "goose",
    "load",
    "optimal_acceptance",
    "otlp",
    "plan",
    "reach",
    "read_report",
    "schedule",
    "search",
    "verify",
    "yield_table",
]


def __dir__() -> list[str]:
    return __all__
