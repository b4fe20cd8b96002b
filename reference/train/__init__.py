"""Training: the shipped target, draft heads on a target's own texts, and selectors; `python -m reference.train`."""
