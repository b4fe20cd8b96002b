"""What is measured on a GPU: forwards of real shapes, and a larger pair of the project's own training.

Each command is one part of under ten minutes, goes on where an earlier one was interrupted, and leaves one JSON file in
its folder: `python -m benchmarks.gpu --help`.
"""
