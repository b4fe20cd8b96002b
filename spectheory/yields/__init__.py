"""Block efficiency of a tree, the expected number of tokens per target call, for given acceptance rates."""

from spectheory.yields.path_products import block_efficiency, block_efficiency_interval, reach
from spectheory.yields.rate_families import falling_rates
from spectheory.yields.request_classes import NoClassesError, RequestClasses

__all__ = [
    "NoClassesError",
    "RequestClasses",
    "block_efficiency",
    "block_efficiency_interval",
    "falling_rates",
    "reach",
]
