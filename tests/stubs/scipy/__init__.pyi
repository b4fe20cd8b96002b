"""The names of scipy.optimize and scipy.stats that this project uses, for pyright alone.

Both have no types, so pyright infers them from the bodies of the library. tests/test_stubs.py compares the parameters
here with those of the installed library.
"""
