"""What to verify: a tree, a chain or nothing, at one batch size or at each."""
