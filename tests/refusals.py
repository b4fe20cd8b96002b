"""What tests of refused input share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spectheory.core.errors import InputError


def refuses(words: str, call: Callable[..., object], /, *args: Any, **keywords: Any) -> None:
    """Check that a call with these arguments raises InputError, with words that match this regular expression."""
    with pytest.raises(InputError, match=words):
        call(*args, **keywords)
