"""The judge of the time model: published measurements beside their predictions."""
