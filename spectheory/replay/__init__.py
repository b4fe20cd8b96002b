"""Replay: the exact number of cycles of a lossless decoder on a text of the target, from the text alone."""
