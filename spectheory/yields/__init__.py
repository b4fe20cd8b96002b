"""Block efficiency: the expected tokens per target call of a tree, for given acceptance rates."""

from spectheory.yields.path_products import block_efficiency, block_efficiency_interval, reach

__all__ = ["block_efficiency", "block_efficiency_interval", "reach"]
