"""Networks that map a batch of raw inputs to logits.

Each is constructed as ``Network(input_shape, n_classes, **options)``, so the class itself, or a
`functools.partial` of it, can be passed to ``ComplementaryClassifier(network=…)``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from naysay._base.errors import InvalidInput
from naysay.networks.lenet import LeNet5
from naysay.networks.mixture import Forest, Kernel, Mixture
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
    "find_network",
]

#: Networks that can be restored from a model file, by name and from their ``arguments``.
NETWORKS: dict[str, type[nn.Module]] = {
    each.__name__: each for each in (MLP, LeNet5, ResNet18, ResNet34, Kernel, Forest, Mixture)
}


def find_network(name: str) -> Callable[..., Any]:
    """Find a network to train by its name in upper or lower case.

    The name is "linear" or that of a class of this package. `Kernel`, `Forest` and `Mixture` have
    no names here, because they are not trained by gradients: ``learner="kernel"`` fits the first.

    Examples
    --------
    >>> find_network("mlp").__name__
    'MLP'
    """
    trained = (MLP, LeNet5, ResNet18, ResNet34)
    by_name: dict[str, Any] = {each.__name__.lower(): each for each in trained}
    by_name["linear"] = partial(MLP, widths=(), dropout=0.0)
    if name.lower() not in by_name:
        listed = ", ".join(sorted(by_name))
        raise InvalidInput(f"network must be one of {listed}, or a network. Got {name!r}.")
    return by_name[name.lower()]


@runtime_checkable
class Standardising(Protocol):
    """A network that standardises its inputs with statistics of the training examples."""

    def standardise(self, inputs: Tensor) -> None:
        """Compute mean and scale from inputs, shape (N, …), bytes or floats, on any device."""
        ...
