"""What a tree is worth under an acceptance model."""

from spectheory.yields.path_products import block_efficiency, block_efficiency_interval, reach

__all__ = ["block_efficiency", "block_efficiency_interval", "reach"]
