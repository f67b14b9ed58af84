"""Tensors that are made of a transition matrix, once for each precision and device."""

import ctypes
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch

from naysay.transition import TransitionMatrix

T = TypeVar("T")
Make = Callable[[TransitionMatrix, torch.dtype, torch.device], T]

# By the identity of the matrix, because hashing one reads all of its entries. What is made of a
# matrix is dropped with it.
_made: dict[int, dict[Any, Any]] = {}


def once_per_matrix(make: Make[T]) -> Make[T]:
    """Decorate ``make(Q, dtype, device)`` so that it is called once for the same arguments."""

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
        with torch.inference_mode(False):  # else they could never take part in training
            made[key] = make(Q, dtype, device)
    return made[key]


# Compiled code treats the tensors as constants, which they are, because Q cannot change. The
# compiler of torch 2.6 can pass no object to such a function, but it follows `id`, and compiles
# again for a matrix of another identity.
@torch.compiler.assume_constant_result
def _get_at(address: int, make: Make[T], dtype: torch.dtype, device: torch.device) -> T:
    Q = cast("TransitionMatrix", ctypes.cast(address, ctypes.py_object).value)
    return _get(Q, make, dtype, device)
