"""Drafts trained by the papers' losses at equal cost, and compared on held-out texts of their target."""
