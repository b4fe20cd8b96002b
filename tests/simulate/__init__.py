"""Tests of `simulate`."""
