"""Measurements on a GPU: forwards of real shapes, and decoding of a larger pair that is trained there.

Each command takes less than ten minutes, continues where an earlier one was interrupted, and writes one JSON file into
its folder: `python -m benchmarks.gpu --help`.
"""
