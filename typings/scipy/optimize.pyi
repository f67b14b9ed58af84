from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

class OptimizeResult:
    fun: float
    x: Any

def linear_sum_assignment(
    cost_matrix: ArrayLike, maximize: bool = False
) -> tuple[NDArray[np.intp], NDArray[np.intp]]: ...
def linprog(
    c: ArrayLike,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    bounds: Any = (0, None),
    method: str = "highs",
) -> OptimizeResult: ...
def minimize_scalar(
    fun: Callable[[float], float],
    bracket: Any = None,
    bounds: ArrayLike | None = None,
    *,
    method: str | None = None,
    options: Any = None,
) -> OptimizeResult: ...
def nnls(A: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], float]: ...
