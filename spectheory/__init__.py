"""Theory, simulation and planning of tree-based speculative decoding."""

from spectheory import otlp, verify
from spectheory.acceptance import Acceptance
from spectheory.chance import branches
from spectheory.draft import Draft, DrawRule
from spectheory.latency import Latency
from spectheory.plan import Plan, plan
from spectheory.records import Provenance, RecordError
from spectheory.search import best_tree, best_trees, yield_table
from spectheory.tally import Tally
from spectheory.tree import Tree
from spectheory.world import Levels, Paths, World
from spectheory.yields import block_efficiency, block_efficiency_interval, reach

__version__ = "0.1.0"

__all__ = [
    "Acceptance",
    "Draft",
    "DrawRule",
    "Latency",
    "Levels",
    "Paths",
    "Plan",
    "Provenance",
    "RecordError",
    "Tally",
    "Tree",
    "World",
    "best_tree",
    "best_trees",
    "block_efficiency",
    "block_efficiency_interval",
    "branches",
    "otlp",
    "plan",
    "reach",
    "verify",
    "yield_table",
]
