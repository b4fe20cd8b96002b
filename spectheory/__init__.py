"""Theory, simulation and planning of tree-based speculative decoding."""

from spectheory import (
    certify,
    core,
    engines,
    goose,
    gto,
    hardware,
    otlp,
    planning,
    replay,
    report,
    results,
    search,
    verify,
    yields,
)
from spectheory.certify import Certificate, StepCertificate, Verdict, as_step, certify_step, certify_verifier
from spectheory.core.acceptance import Acceptance
from spectheory.core.chance import branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError, RecordError
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record, load
from spectheory.core.tree import Tree
from spectheory.core.world import DrawPolicy, Levels, Paths, World
from spectheory.engines import Engine, diagnose, export, read_report
from spectheory.hardware.calibrated_costs import CalibratedCosts, calibrate
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.latency import Latency
from spectheory.hardware.model_config import ModelConfig
from spectheory.otlp import Solver, optimal_acceptance
from spectheory.planning.deployment import Deployment
from spectheory.planning.planner import evaluate, plan, schedule
from spectheory.planning.schedule_record import Schedule
from spectheory.replay import ChainText, GreedyText, Replayed, Replays, TargetText
from spectheory.results.comparison import Comparison
from spectheory.results.plan_comparison import compare
from spectheory.results.serving import ServingComparison, ServingRun
from spectheory.results.tally import Tally
from spectheory.search import (
    Drafted,
    DraftModel,
    Eagle2,
    MarkovDraft,
    OptTree,
    RatesDraft,
    Salf,
    SpecExec,
    best_tree,
    best_trees,
    yield_table,
)
from spectheory.search.policy_comparison import Policy, PolicyComparison, compare_policies
from spectheory.search.standard_policy_set import standard_policies
from spectheory.search.static_trees import StaticTree, best_static_tree
from spectheory.verify import Verifier
from spectheory.yields import RequestClasses, block_efficiency, block_efficiency_interval, reach
from spectheory.yields.delayed import delayed_block_efficiency, delayed_seconds, delayed_throughput
from spectheory.yields.expected import Estimate, expected_block_efficiency

__version__ = "0.1.0"

__all__ = [
    "Acceptance",
    "CalibratedCosts",
    "Certificate",
    "ChainText",
    "Comparison",
    "Deployment",
    "Draft",
    "DraftModel",
    "Drafted",
    "DrawPolicy",
    "DrawRule",
    "Eagle2",
    "Engine",
    "Estimate",
    "Gpu",
    "GreedyText",
    "InputError",
    "Latency",
    "Levels",
    "MarkovDraft",
    "ModelConfig",
    "OptTree",
    "Paths",
    "Policy",
    "PolicyComparison",
    "Provenance",
    "RatesDraft",
    "Record",
    "RecordError",
    "Replayed",
    "Replays",
    "RequestClasses",
    "Salf",
    "Schedule",
    "ServingComparison",
    "ServingRun",
    "Solver",
    "SpecExec",
    "StaticTree",
    "StepCertificate",
    "Tally",
    "TargetText",
    "Tree",
    "Verdict",
    "Verifier",
    "World",
    "__version__",
    "as_step",
    "best_static_tree",
    "best_tree",
    "best_trees",
    "block_efficiency",
    "block_efficiency_interval",
    "branches",
    "calibrate",
    "certify",
    "certify_step",
    "certify_verifier",
    "compare",
    "compare_policies",
    "core",
    "delayed_block_efficiency",
    "delayed_seconds",
    "delayed_throughput",
    "diagnose",
    "engines",
    "evaluate",
    "expected_block_efficiency",
    "export",
    "goose",
    "gto",
    "hardware",
    "load",
    "optimal_acceptance",
    "otlp",
    "plan",
    "planning",
    "reach",
    "read_report",
    "replay",
    "report",
    "results",
    "schedule",
    "search",
    "standard_policies",
    "verify",
    "yield_table",
    "yields",
]


def __dir__() -> list[str]:
    return __all__
