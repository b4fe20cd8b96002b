"""Training: the shipped target, and draft heads on a target's own texts; `python -m reference.train`."""
