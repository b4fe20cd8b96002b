"""Delayed trees: the checks of its claims, whose texts are in claims.toml.

tau is the number of accepted tokens here, as in the paper; elsewhere in spectheory tau counts one token more.
"""
