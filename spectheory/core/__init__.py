"""What everything else is made of: trees, drafts, worlds, distributions, records."""
