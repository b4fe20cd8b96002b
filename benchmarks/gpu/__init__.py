"""Measurements on a GPU, as a queue of steps that each write JSON: `python -m benchmarks.gpu --help`."""
