"""Training: the shipped pair, draft heads on a target's own texts, and selectors; `python -m reference.train`."""
