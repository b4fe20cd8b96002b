"""Checks of arguments. Each error names the argument, the value and the repair."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from numbers import Real
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from spectheory.core.errors import InputError

LARGEST_TREE = 50_000_000
"""Maximum number of nodes of a tree."""
SHORTEST, LONGEST = 1e-30, 1e30
"""Times must be 0 or between these seconds, so that quotients and sums of them are finite and above 0."""
LARGEST_SEED = 2**63 - 1
"""A larger seed does not fit the random generators of torch."""
Function = TypeVar("Function", bound=Callable[..., Any])
NUMBERS = {int: (int, np.integer), float: (int, float, np.integer, np.floating)}
hints_of = cache(get_type_hints)
NO_SPECULATION = ": for no speculation use Tree.chain(0)"


def check_whole(name: str, value: Any, least: int, repair: str = "", *, most: int | None = None) -> None:
    """Refuse a value that is not a whole number from `least` to `most`; `repair` is added to the message."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number, got {value!r:.80}")
    shown = f"{value:,}" if abs(value) < 1e30 else f"one of {int(value).bit_length():,} bits"
    if most is not None and not least <= value <= most:
        raise InputError(f"{name} must be between {least} and {most:,}, got {shown}{repair}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {shown}{repair}")


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> None:
    """Refuse a value that is not a finite number from `least` to `most`."""
    if not _fits(value, float) or not least <= value <= most:
        bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise InputError(f"{name} must be a number {bounds}, got {value!r:.60}")


def check_array(name: str, value: Any, dtype: type | None = None) -> np.ndarray:
    """`value` as an array, if it is one or can be made into one, such as lists of numbers of equal length."""
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name} must be an array, or lists of numbers of equal length: {error}") from error


def check_seconds(name: str, value: Any, *, least: float = SHORTEST) -> np.ndarray:
    """`value`, a time or an array of times in seconds, as float64.

    Raises:
        InputError: an entry is not a number between `SHORTEST` and `LONGEST`; 0 is accepted if `least` is 0.
    """
    seconds = check_array(name, value)
    if seconds.dtype.kind not in "iuf":
        raise InputError(f"{name} must be numbers of seconds, got {value!r:.60}")
    seconds = seconds.astype(np.float64)
    wrong = ~((seconds >= SHORTEST) & (seconds <= LONGEST) | ((seconds == 0) & (least == 0)))
    if wrong.any():
        bound = "at least 0" if least == 0 else "above 0"
        raise InputError(
            f"{name} must be finite and {bound}, got {seconds[wrong].flat[0]}: give seconds from {SHORTEST:g} to "
            f"{LONGEST:g}"
        )
    return seconds


def check_counts(least: int = 0, **counts: Any) -> None:
    """Refuse a value that is not a whole number from `least` to the maximum number of drafted nodes of a Tree."""
    for name, count in counts.items():
        check_whole(name, count, least, most=LARGEST_TREE - 1)


def check_budget(budget: Any, name: str = "budget") -> None:
    """Refuse a value that is not a budget: a number of drafted nodes from 1 to the maximum of a Tree."""
    check_whole(name, budget, 1, NO_SPECULATION, most=LARGEST_TREE - 1)


def check_not_negative(name: str, value: Any, repair: str) -> None:
    """Refuse a value that is not a number of at least 0. NaN is refused, infinity is accepted."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= 0:
        raise InputError(f"{name} must be a number of at least 0, got {value!r:.80}{repair}")


def check_probabilities(**probabilities: Any) -> None:
    """Refuse a value that is not a probability: a float or a Fraction between 0 and 1."""
    for name, value in probabilities.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= 1:  # pyrefly: ignore[unsupported-operation]
            raise InputError(f"{name} must be a probability between 0 and 1, got {value!r:.80}")


def is_digits(value: object) -> bool:
    """Whether a value, written as text, is a whole number in up to 18 digits of ASCII, so that `int` reads it."""
    return re.fullmatch("[0-9]{1,18}", str(value)) is not None


def checked(function: Function) -> Function:
    """`function`, which first refuses a wrong seed and arguments that do not fit its annotations (InputError)."""
    names = tuple(signature(function).parameters)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | options
        check_types(function, given)
        if given.get("seed") is not None:
            check_whole("seed", given["seed"], 0, most=LARGEST_SEED)
        return function(*args, **options)

    return cast(Function, call)


def check_types(annotated: Any, given: Mapping[str, Any]) -> None:
    """Refuse values that do not fit the annotations of a function or a dataclass."""
    hints = hints_of(annotated)
    for name, value in given.items():
        if not _fits(value, hint := hints.get(name, Any)):
            wanted = str(annotated.__annotations__.get(name, hint)).replace(" | ", " or ")
            wanted = re.sub(r"\bint\b", "a whole number", re.sub(r"\bfloat\b", "a finite number", wanted))
            raise InputError(f"{name} must be {wanted}, got {' '.join(repr(value).split()):.80}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value fits an annotation. Arrays and types that cannot be told are not judged here."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if kind in NUMBERS:
        return isinstance(value, NUMBERS[kind]) and not isinstance(value, bool) and bool(abs(value) < math.inf)
    if kind is Literal:
        return isinstance(value, str) and value in inner
    if kind in (Sequence, Iterable, tuple):
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return (kind is not Sequence or len(value) > 0) and all(_fits(one, inner[0]) for one in value)
        return kind is Iterable and isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    if not isinstance(kind, type) or kind is Any:
        return True
    if kind.__module__ in ("jaxtyping", "numpy"):
        return bool(getattr(value, "shape", ())) or isinstance(value, list | tuple)
    return isinstance(value, kind) or (kind is bool and isinstance(value, np.bool_))
