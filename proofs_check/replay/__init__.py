"""Replay: the checks of our own claims, whose texts are in claims.toml."""
