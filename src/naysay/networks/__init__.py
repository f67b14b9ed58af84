"""Networks that map a batch of raw inputs to logits.

Each is constructed as ``Network(input_shape, n_classes, **options)``, so the class itself, or a
`functools.partial` of it, can be passed to ``ComplementaryClassifier(network=…)``.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from naysay.networks.forest import Forest
from naysay.networks.kernel import Kernel
from naysay.networks.lenet import LeNet5
from naysay.networks.mixture import Mixture
from naysay.networks.mlp import MLP
from naysay.networks.resnet import ResNet18, ResNet34

__all__ = [
    "MLP",
    "NETWORKS",
    "Forest",
    "Kernel",
    "LeNet5",
    "Mixture",
    "ResNet18",
    "ResNet34",
    "Standardising",
]

#: Networks that can be restored from a model file, by name and from their ``arguments``.
NETWORKS: dict[str, type[nn.Module]] = {
    "MLP": MLP,
    "LeNet5": LeNet5,
    "ResNet18": ResNet18,
    "ResNet34": ResNet34,
    "Kernel": Kernel,
    "Forest": Forest,
    "Mixture": Mixture,
}


@runtime_checkable
class Standardising(Protocol):
    """A network that standardises its inputs with statistics of the training examples."""

    def standardise(self, inputs: Tensor) -> None:
        """Compute mean and scale from inputs, shape (N, …), bytes or floats, on any device."""
        ...
