"""Block efficiency of a tree, the expected number of tokens per target call, for given acceptance rates."""

from spectheory.yields.path_products import block_efficiency, block_efficiency_interval, reach

__all__ = ["block_efficiency", "block_efficiency_interval", "reach"]
