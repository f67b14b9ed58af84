"""A cache of the tensors that losses derive from a transition matrix."""

import ctypes
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch

from naysay.transition import TransitionMatrix

T = TypeVar("T")
Make = Callable[[TransitionMatrix, torch.dtype, torch.device], T]

# The key is the identity of the matrix, because hashing a matrix reads all of its entries. The
# tensors of a matrix are deleted together with the matrix.
_made: dict[int, dict[Any, Any]] = {}


def once_per_matrix(make: Make[T]) -> Make[T]:
    """Decorate ``make(Q, dtype, device)`` so that it runs once per matrix, precision and device."""

    @wraps(make)
    def get(Q: TransitionMatrix, dtype: torch.dtype, device: torch.device) -> T:
        if torch.compiler.is_compiling():
            return _get_at(id(Q), make, dtype, device)
        return _get(Q, make, dtype, device)

    return get


def _get(Q: TransitionMatrix, make: Make[T], dtype: torch.dtype, device: torch.device) -> T:
    if id(Q) not in _made:
        _made[id(Q)] = {}
        weakref.finalize(Q, _made.pop, id(Q))
    made = _made[id(Q)]
    key = (make, dtype, device)
    if key not in made:
        with torch.inference_mode(False):  # inference tensors cannot be trained with
            made[key] = make(Q, dtype, device)
    return made[key]


# Compiled code treats the result as a constant, which is right because Q is immutable. The compiler
# of torch 2.6 cannot pass an object to such a function, but it can pass ``id(Q)``, and it compiles
# again when it meets a matrix with another identity. Q is alive here: the caller holds it.
@torch.compiler.assume_constant_result
def _get_at(address: int, make: Make[T], dtype: torch.dtype, device: torch.device) -> T:
    Q = cast("TransitionMatrix", ctypes.cast(address, ctypes.py_object).value)
    return _get(Q, make, dtype, device)
