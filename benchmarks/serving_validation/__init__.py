"""The judge of the serving simulator: queueing theory, another simulator, and published serving curves."""
