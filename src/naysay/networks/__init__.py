"""Networks as plain modules that map a batch of raw inputs to logits.

Each is called as ``Network(input_shape, n_classes, *, options)``, so that the class itself, or a
`functools.partial` of it, is what ``ComplementaryClassifier(network=…)`` takes.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from naysay.networks.lenet import LeNet5
from naysay.networks.mlp import MLP
from naysay.networks.resnet import ResNet18, ResNet34

__all__ = ["MLP", "NETWORKS", "LeNet5", "ResNet18", "ResNet34", "Standardising"]

#: Networks that a model file builds again, by name, from their ``arguments``.
NETWORKS: dict[str, type[nn.Module]] = {
    "MLP": MLP,
    "LeNet5": LeNet5,
    "ResNet18": ResNet18,
    "ResNet34": ResNet34,
}


@runtime_checkable
class Standardising(Protocol):
    """A network that takes mean and scale of its inputs from the training examples."""

    def standardise(self, inputs: Tensor) -> None:
        """Take mean and scale from inputs, shape (N, …), bytes or floats, on any device."""
        ...
