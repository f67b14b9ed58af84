"""Optimisers of many networks at once: one matrix of weights, a row per network."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from naysay.training.step import MakeOptimiser, adam, adamw, sgd


class Update(Protocol):
    """An optimiser of rows of weights, each with a learning rate and a weight decay of its own."""

    def numbers(
        self, rates: NDArray[np.float64], decays: NDArray[np.float64], first_step: int
    ) -> list[NDArray[np.float64]]:
        """Return what steps need, each (n_steps, n_rows), for rates of the same shape."""
        ...

    def __call__(self, rows: Tensor, gradient: Tensor, numbers: Sequence[Tensor]) -> None:
        """Change rows and gradient in place; numbers are those of this step, each (n_rows, 1)."""
        ...


class AdamUpdate:
    """Adam as in torch; weight decay is part of the gradient, or decoupled from it (AdamW)."""

    betas = (0.9, 0.999)
    epsilon = 1e-8

    def __init__(self, rows: Tensor, *, decoupled: bool) -> None:
        self.decoupled = decoupled
        self.mean = torch.zeros_like(rows)
        self.square = torch.zeros_like(rows)

    def numbers(
        self, rates: NDArray[np.float64], decays: NDArray[np.float64], first_step: int
    ) -> list[NDArray[np.float64]]:
        """Return step, epsilon and decay; corrections of the bias are in the first two."""
        step = first_step + 1 + np.arange(len(rates))[:, None]
        first, second = (1 - beta**step for beta in self.betas)
        every = np.ones_like(rates)
        decay = 1 - rates * decays if self.decoupled else decays * every
        return [-rates * np.sqrt(second) / first, self.epsilon * np.sqrt(second) * every, decay]

    def __call__(self, rows: Tensor, gradient: Tensor, numbers: Sequence[Tensor]) -> None:
        step, epsilon, decay = numbers
        if self.decoupled:
            rows.mul_(decay)
        else:
            gradient = gradient.addcmul_(rows, decay)
        self.mean.lerp_(gradient, 1 - self.betas[0])
        self.square.mul_(self.betas[1]).addcmul_(gradient, gradient, value=1 - self.betas[1])
        rows.addcdiv_(self.mean * step, self.square.sqrt().add_(epsilon))


class SGDUpdate:
    """Stochastic gradient descent with Nesterov momentum of 0.9 as in torch."""

    momentum = 0.9

    def __init__(self, rows: Tensor) -> None:
        self.velocity = torch.zeros_like(rows)

    def numbers(
        self, rates: NDArray[np.float64], decays: NDArray[np.float64], first_step: int
    ) -> list[NDArray[np.float64]]:
        """Return step and decay."""
        return [-rates, decays * np.ones_like(rates)]

    def __call__(self, rows: Tensor, gradient: Tensor, numbers: Sequence[Tensor]) -> None:
        step, decay = numbers
        gradient = gradient.addcmul_(rows, decay)
        self.velocity.mul_(self.momentum).add_(gradient)
        rows.addcmul_(gradient.add_(self.velocity, alpha=self.momentum), step)


#: How many rows are updated as each optimiser updates one network.
UPDATES: dict[MakeOptimiser, Callable[[Tensor], Update]] = {
    adamw: lambda rows: AdamUpdate(rows, decoupled=True),
    adam: lambda rows: AdamUpdate(rows, decoupled=False),
    sgd: SGDUpdate,
}
