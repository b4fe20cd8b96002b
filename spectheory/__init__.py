"""Theory, simulation and planning of tree-based speculative decoding."""

from spectheory import goose, gto, otlp, verify
from spectheory.acceptance import Acceptance
from spectheory.certify import Certificate, StepCertificate, Verdict, as_step, certify, certify_step
from spectheory.chance import branches
from spectheory.draft import Draft, DrawRule
from spectheory.expected import Estimate, expected_block_efficiency
from spectheory.latency import Latency
from spectheory.otlp import optimal_acceptance
from spectheory.plan import Plan, plan
from spectheory.records import Provenance, RecordError
from spectheory.schedule import Schedule, schedule
from spectheory.search import (
    Drafted,
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
from spectheory.search.comparison import PolicyComparison, compare_policies
from spectheory.search.standard import standard_policies
from spectheory.search.static import StaticTree, best_static_tree
from spectheory.tally import Tally
from spectheory.tree import Tree
from spectheory.world import Levels, Paths, World
from spectheory.yields import block_efficiency, block_efficiency_interval, reach
from spectheory.yields.delayed import delayed_block_efficiency, delayed_seconds, delayed_throughput

__version__ = "0.1.0"

__all__ = [
    "Acceptance",
    "Certificate",
    "Draft",
    "Drafted",
    "DrawRule",
    "Eagle2",
    "Estimate",
    "Latency",
    "Levels",
    "MarkovDraft",
    "OptTree",
    "Paths",
    "Plan",
    "PolicyComparison",
    "Provenance",
    "RatesDraft",
    "RecordError",
    "Salf",
    "Schedule",
    "SpecExec",
    "StaticTree",
    "StepCertificate",
    "Tally",
    "Tree",
    "Verdict",
    "World",
    "as_step",
    "best_static_tree",
    "best_tree",
    "best_trees",
    "block_efficiency",
    "block_efficiency_interval",
    "branches",
    "certify",
    "certify_step",
    "compare_policies",
    "delayed_block_efficiency",
    "delayed_seconds",
    "delayed_throughput",
    "expected_block_efficiency",
    "goose",
    "gto",
    "optimal_acceptance",
    "otlp",
    "plan",
    "reach",
    "schedule",
    "standard_policies",
    "verify",
    "yield_table",
]
