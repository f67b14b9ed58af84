"""Fully connected networks."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from naysay._base.checks import check_count
from naysay.networks._linear import Linear
from naysay.networks._parts import last_layer, mean_and_scale


class MLP(nn.Module):
    """Fully connected network that standardises its inputs.

    Parameters
    ----------
    input_shape : sequence of int
        Shape of one example, ``(n_features,)`` or ``(C, H, W)``; it is flattened.
    n_classes : int
    widths : sequence of int, default=(256,)
        Units of each hidden layer. The paper's d-3-c is ``widths=(3,), dropout=0``.
    dropout : float, default=0.5
        Share of hidden units dropped while training.

    Examples
    --------
    >>> MLP((1, 28, 28), 10, widths=(500,))(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        n_classes: int,
        *,
        widths: Sequence[int] = (256,),
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        shape = [check_count(size, "each size of input_shape") for size in input_shape]
        widths = [check_count(width, "each of widths") for width in widths]
        self.arguments: dict[str, Any] = {  # what a model file needs to build it again
            "input_shape": shape,
            "n_classes": n_classes,
            "widths": widths,
            "dropout": dropout,
        }
        n_inputs = prod(shape)
        self.register_buffer("mean", torch.zeros(n_inputs))
        self.register_buffer("scale", torch.ones(n_inputs))
        sizes = [n_inputs, *widths]
        # what is dropped is drawn in the order of memory: another layout, other results
        kind = nn.Linear if dropout else Linear
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [kind(before, after), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, last_layer(sizes[-1], n_classes, kind))

    def standardise(self, inputs: Tensor) -> None:
        """Take mean and scale of each input from training examples; a constant stays as it is."""
        mean, scale = mean_and_scale(inputs.flatten(1), (0,))
        self.mean.copy_(mean)
        self.scale.copy_(scale)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, shape (N, n_classes)."""
        return self.layers((inputs.flatten(1) - self.mean).div_(self.scale))  # in place: faster

    def forward_many(self, state: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """Return the logits of M networks of this shape at once, (M, N, n_classes).

        `state` holds the weights and buffers of all by name, each (M, …), and inputs are (M, N, …).
        Examples are the last axis on the way: products with a long last axis are faster.
        """
        mean, scale = state["mean"][:, None], state["scale"][:, None]
        hidden = (inputs.flatten(2) - mean).div_(scale).mT  # in place: half the memory
        for name, layer in self.layers.named_children():
            if isinstance(layer, nn.Linear):
                weight, bias = (state[f"layers.{name}.{kind}"] for kind in ("weight", "bias"))
                hidden = torch.baddbmm(bias[:, :, None], weight, hidden)
            else:
                hidden = layer(hidden)
        return hidden.mT
