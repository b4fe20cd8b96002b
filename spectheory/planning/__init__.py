"""Planning: the fastest tree, the fastest chain or no speculation, for one batch size or for many."""
