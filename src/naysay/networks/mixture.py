"""A weighted mean of the predictions of several networks."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from naysay._base.checks import check_n_classes
from naysay.networks.forest import Forest
from naysay.networks.kernel import Kernel
from naysay.networks.mlp import MLP

#: The networks that a mixture can be made of.
MEMBERS: dict[str, type[nn.Module]] = {"MLP": MLP, "Kernel": Kernel, "Forest": Forest}


class Mixture(nn.Module):
    """Weighted mean of the class probabilities of networks, each at a temperature of its own.

    What the weights lack to 1 is the weight of the uniform distribution.

    Parameters
    ----------
    input_shape : sequence of int
    n_classes : int
    members : sequence of (name, arguments)
        Networks of this package, as ``MLP``, ``Kernel`` or ``Forest``.

    Examples
    --------
    >>> Mixture((4,), 3, members=[("MLP", {"widths": [8]}), ("Kernel", {})])(torch.ones(1, 4)).shape
    torch.Size([1, 3])
    """

    weights: Tensor
    temperatures: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        n_classes: int,
        *,
        members: Sequence[tuple[str, Mapping[str, Any]]] = (("MLP", {}),),
    ) -> None:
        super().__init__()
        check_n_classes(n_classes)
        own = {"input_shape", "n_classes"}
        others = [
            (name, {key: value for key, value in arguments.items() if key not in own})
            for name, arguments in members
        ]
        self.arguments: dict[str, Any] = {
            "input_shape": list(input_shape),
            "n_classes": n_classes,
            "members": others,
        }
        self.members = nn.ModuleList(
            MEMBERS[name](input_shape, n_classes, **arguments) for name, arguments in others
        )
        self.register_buffer("weights", torch.full((len(others),), 1 / max(1, len(others))))
        self.register_buffer("temperatures", torch.ones(len(others)))

    @classmethod
    def of(
        cls,
        networks: Sequence[nn.Module],
        weights: Sequence[float],
        temperatures: Sequence[float],
        input_shape: Sequence[int],
        n_classes: int,
    ) -> Self:
        """Make the mixture of trained networks."""
        members: list[Any] = [(type(each).__name__, each.arguments) for each in networks]
        mixture = cls(input_shape, n_classes, members=members)
        mixture.members = nn.ModuleList(networks)
        mixture.weights.copy_(torch.as_tensor(weights))
        mixture.temperatures.copy_(torch.as_tensor(temperatures))
        return mixture.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute log P(Y | x), shape (N, n_classes)."""
        parts = [
            (member(inputs) / temperature).log_softmax(1).exp() * weight
            for member, weight, temperature in zip(
                self.members, self.weights, self.temperatures, strict=True
            )
        ]
        total = torch.stack(parts).sum(0)
        return (total + (1 - self.weights.sum()).clamp(min=1e-6) / total.shape[1]).log()
