"""Block efficiency of a tree, the expected number of tokens per target call, for given acceptance rates."""

from spectheory.yields.delayed import delayed_block_efficiency, delayed_seconds
from spectheory.yields.expected import Estimate, expected_block_efficiency
from spectheory.yields.path_products import block_efficiency, block_efficiency_interval, falling_rates, reach
from spectheory.yields.request_classes import NoClassesError, RequestClasses

__all__ = [
    "Estimate",
    "NoClassesError",
    "RequestClasses",
    "block_efficiency",
    "block_efficiency_interval",
    "delayed_block_efficiency",
    "delayed_seconds",
    "expected_block_efficiency",
    "falling_rates",
    "reach",
]
