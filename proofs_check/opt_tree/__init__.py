"""OPT-Tree: the checks of its claims, whose texts are in claims.toml."""
