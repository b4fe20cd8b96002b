from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

def isotonic_regression(y: ArrayLike, *, weights: ArrayLike | None = None, increasing: bool = True) -> Any: ...
def least_squares(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Any = ...,
    bounds: Any = ...,
    method: str = ...,
    ftol: float | None = ...,
    xtol: float | None = ...,
    gtol: float | None = ...,
    x_scale: Any = ...,
    loss: Any = ...,
    f_scale: float = ...,
    diff_step: Any = ...,
    tr_solver: str | None = ...,
    tr_options: dict[str, Any] | None = ...,
    jac_sparsity: Any = ...,
    max_nfev: int | None = ...,
    verbose: int = ...,
    args: tuple[Any, ...] = ...,
    kwargs: dict[str, Any] | None = ...,
    callback: Callable[..., Any] | None = ...,
    workers: Any = ...,
) -> Any: ...
def linprog(
    c: ArrayLike,
    A_ub: Any = ...,
    b_ub: ArrayLike | None = ...,
    A_eq: Any = ...,
    b_eq: ArrayLike | None = ...,
    bounds: Any = ...,
    method: str = ...,
    callback: Callable[..., Any] | None = ...,
    options: dict[str, Any] | None = ...,
    x0: ArrayLike | None = ...,
    integrality: ArrayLike | None = ...,
) -> Any: ...
def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = ...,
    bounds: Any = ...,
    args: tuple[Any, ...] = ...,
    method: Any = ...,
    tol: float | None = ...,
    options: dict[str, Any] | None = ...,
) -> Any: ...
def nnls(A: ArrayLike, b: ArrayLike, *, maxiter: int | None = ..., atol: Any = ...) -> Any: ...
