"""The errors for input that cannot be used."""

from __future__ import annotations


class InputError(ValueError):
    """An argument, a file or a folder cannot be used. The message names it, its value and the repair.

    Every function of this package that refuses its input raises this class. Any other exception is a bug in spectheory.
    """


class RecordError(InputError):
    """The data are not the expected record: they are damaged, or of another kind or schema version."""
