"""`Unknown`: a random number without a value, and the arithmetic that it takes part in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from spectheory.core.coins.coin import BranchError, Coin, exact, is_float

GUARD = Fraction(1, 10**7)
"""A number up to this that is added to a random number before a logarithm, or bounds one, counts as rounding."""


class Unknown(ABC):
    """A random number without a value. It can be compared, and used in the arithmetic that its class has."""

    __hash__ = None  # type: ignore[assignment]

    @abstractmethod
    def source(self) -> Coin:
        """The uniform number that this is a function of."""

    def exactly(self, number: Any) -> Fraction:
        """A finite number as a fraction; that it may be rounded is noted."""
        if is_float(number):
            self.source().branch.is_rounded = True
        return exact(number)

    @abstractmethod
    def is_below(self, other: Any, or_equal: bool) -> bool:
        """Whether this is < or <= a number, which may be without a value too."""

    @abstractmethod
    def times(self, factor: Fraction) -> Any:
        """The product with a number other than 0."""

    @abstractmethod
    def plus(self, other: Any) -> Any:
        """The sum with a finite number, which may be without a value."""

    @abstractmethod
    def log(self) -> Unknown:
        """The natural logarithm."""

    @abstractmethod
    def is_same(self, other: Unknown) -> bool:
        """Whether the other is certain to have the same value."""

    @abstractmethod
    def bounded(self, bound: Any, below: bool) -> Any:
        """The larger of this and `bound` if `below`, else the smaller."""

    def sign(self) -> int:
        """-1, 0 or 1, which comparisons with 0 settle."""
        if self.is_below(0, or_equal=False):
            return -1
        return 0 if self.is_below(0, or_equal=True) else 1

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        names = OPERATORS.get(ufunc.__name__)
        if names is None or method != "__call__" or not hasattr(self, names[0]):
            raise BranchError(
                f"np.{ufunc.__name__} of a uniform number cannot be enumerated: compare it with a threshold"
            )
        if len(inputs) == 1:
            return getattr(self, names[0])()
        first, second = inputs
        return getattr(self, names[0])(second) if first is self else getattr(self, names[1])(first)

    @classmethod
    def __torch_function__(cls, func: Any, *_: Any, **__: Any) -> Any:
        raise BranchError(
            f"torch.{getattr(func, '__name__', func)} of a random number of NumPy or of Python cannot be enumerated"
        )

    def _over(self, other: Any, act: Callable[[Any], Any], kind: Any = object) -> Any:
        """`act(other)`; for an array, entry by entry. A tensor takes over with its own operation."""
        if isinstance(other, np.ndarray) and other.ndim:
            found = np.empty(other.shape, dtype=object)
            for i in np.ndindex(other.shape):
                found[i] = act(other[i])
            return found.astype(kind)
        if hasattr(other, "__torch_function__") and not isinstance(other, Unknown):
            if other.ndim:
                return NotImplemented
            other = other.item()
        return act(other)

    def __lt__(self, other: Any) -> Any:
        return self._over(other, lambda x: self.is_below(x, or_equal=False), bool)

    def __le__(self, other: Any) -> Any:
        return self._over(other, lambda x: self.is_below(x, or_equal=True), bool)

    def __gt__(self, other: Any) -> Any:
        return self._over(other, lambda x: not is_nan(x) and not self.is_below(x, or_equal=True), bool)

    def __ge__(self, other: Any) -> Any:
        return self._over(other, lambda x: not is_nan(x) and not self.is_below(x, or_equal=False), bool)

    def __eq__(self, other: Any) -> Any:
        return self._over(other, self._equals, bool)

    def __ne__(self, other: Any) -> Any:
        return self._over(other, lambda x: not self._equals(x), bool)

    @abstractmethod
    def _equals(self, other: Any) -> bool:
        """Whether this is equal to a number."""

    def __bool__(self) -> bool:
        return not self._equals(0)

    def __mul__(self, other: Any) -> Any:
        return self._over(other, self._times)

    def __add__(self, other: Any) -> Any:
        return self._over(other, self._plus)

    def __sub__(self, other: Any) -> Any:
        return self._over(other, lambda x: self._plus(-x))

    def __rsub__(self, other: Any) -> Any:
        return (-self).__add__(other)

    def __truediv__(self, other: Any) -> Any:
        return self._over(other, self._over_number)

    def __rtruediv__(self, other: Any) -> Any:
        return self._over(other, lambda x: x * self._reciprocal())

    def __neg__(self) -> Any:
        return self.times(Fraction(-1))

    def _times(self, other: Any) -> Any:
        if isinstance(other, Unknown):
            raise BranchError("a product of two uniform numbers cannot be enumerated: compare them one by one")
        if not is_finite(other):
            return self.sign() * float(other)
        return self.times(self.exactly(other)) if other != 0 else 0

    def _over_number(self, other: Any) -> Any:
        if isinstance(other, Unknown):
            raise BranchError("a quotient of two random numbers cannot be enumerated: compare them one by one")
        return self._times(1 / self.exactly(other) if is_finite(other) else 1 / other)

    def _plus(self, other: Any) -> Any:
        return self.plus(other) if isinstance(other, Unknown) or is_finite(other) else float(other)

    def _reciprocal(self) -> Any:
        return self._no_number()

    __rmul__ = __mul__
    __radd__ = __add__

    def _no_number(self, *_: Any) -> Any:
        raise BranchError("a uniform number is used as a number: only comparisons with thresholds can be enumerated")

    __float__ = __int__ = __round__ = __index__ = __floor__ = _no_number


OPERATORS: dict[str, tuple[str, ...]] = {
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "add": ("__add__", "__add__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__mul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "negative": ("__neg__",),
    "log": ("log",),
    "exp": ("exp",),
}
"""The method of `Unknown` for each NumPy function, with the random number as first and as second argument."""


def is_nan(number: Any) -> bool:
    return not isinstance(number, Unknown) and number != number


def is_finite(number: Any) -> bool:
    return isinstance(number, Fraction) or bool(np.isfinite(float(number)))
