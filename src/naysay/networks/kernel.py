"""A sum of Gaussian kernels around examples."""

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import torch
from torch import Tensor, nn

from naysay._base.checks import check_count, check_n_classes

_FLOOR = 1e-3  # least probability, which a regression can fall below


class Kernel(nn.Module):
    """Kernel regression of class probabilities on standardised inputs.

    The probabilities are sums of Gaussian kernels around `n_centres` examples, and the logits are
    their logarithms. The weights have a closed form; `naysay.classifier` computes them.

    Parameters
    ----------
    input_shape : sequence of int
        Shape of one example. Inputs are flattened.
    n_classes : int
    n_centres : int, default=1000

    Examples
    --------
    >>> Kernel((4,), 3, n_centres=10)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    mean: Tensor
    scale: Tensor
    centres: Tensor
    gamma: Tensor

    def __init__(
        self, input_shape: Sequence[int], n_classes: int, *, n_centres: int = 1000
    ) -> None:
        super().__init__()
        shape = [check_count(size, "each size of input_shape") for size in input_shape]
        n_inputs, n_classes = prod(shape), check_n_classes(n_classes)
        self.arguments: dict[str, Any] = {
            "input_shape": shape,
            "n_classes": n_classes,
            "n_centres": check_count(n_centres, "n_centres"),
        }
        self.register_buffer("mean", torch.zeros(n_inputs))
        self.register_buffer("scale", torch.ones(n_inputs))
        self.register_buffer("centres", torch.zeros(n_centres, n_inputs))  # standardised
        self.register_buffer("gamma", torch.ones(()))
        self.weight = nn.Parameter(torch.zeros(n_centres, n_classes))
        self.bias = nn.Parameter(torch.full((n_classes,), 1 / n_classes))

    @classmethod
    def of(cls, n_classes: int, **values: Any) -> Self:
        """Make a network with these values of all its parameters and buffers."""
        n_centres, n_inputs = values["centres"].shape
        network = cls((n_inputs,), n_classes, n_centres=n_centres)
        network.load_state_dict({name: torch.as_tensor(each) for name, each in values.items()})
        return network.eval()

    def features(self, inputs: Tensor) -> Tensor:
        """Compute the kernels between inputs and centres, shape (N, n_centres)."""
        standardised = (inputs.flatten(1) - self.mean) / self.scale
        squares = standardised.square().sum(1, keepdim=True) + self.centres.square().sum(1)
        distances = squares - 2 * standardised @ self.centres.T
        return (-self.gamma * distances.clamp(min=0)).exp()

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the logits, shape (N, n_classes)."""
        return (self.features(inputs) @ self.weight + self.bias).clamp(min=_FLOOR).log()
