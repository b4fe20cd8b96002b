"""Training of the shipped pair: a target on the standard library's source, and a draft distilled from it."""
