"""The data that all other packages use: trees, drafts, worlds, distributions and records."""
