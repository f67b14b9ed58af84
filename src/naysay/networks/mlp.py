"""Fully connected networks."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from naysay._base.checks import check_count
from naysay.networks.parts import last_layer, mean_and_scale

# oneDNN's product, X Wᵀ; torch itself multiplies with MKL in float32.
_onednn_linear: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_has_onednn = torch.backends.mkldnn.is_available() and _onednn_linear is not None

# Products of numbers from which this pays: at 2e7 it changes nothing, at 1e8 it saves a tenth.
_LARGE_PRODUCT = 5e7


class Linear(nn.Linear):
    """The same layer, whose output has the same shape but may lie feature by feature in memory.

    While it trains, products of 500 × 784 weights and 256 examples then take a tenth less time,
    and so do their gradients. What follows keeps the layout, so that small layers after large
    ones have it too, and a loss over few classes finds each class in one piece.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's own word
        """Return the outputs, shape (N, out_features)."""
        if self.training and _has_onednn and not torch.compiler.is_compiling() and input.ndim == 2:
            size = len(input) * self.in_features * self.out_features
            if (
                size >= _LARGE_PRODUCT or input.stride(0) < input.stride(1)
            ) and self._is_plain_training(input):
                return _by_feature(input, self.weight, self.bias)
        return linear(input, self.weight, self.bias)

    def _is_plain_training(self, inputs: Tensor) -> bool:
        """Whether it is plain training in float32 on a CPU, without transform or autocast."""
        return (
            type(inputs) is Tensor
            and inputs.is_cpu
            and inputs.dtype is self.weight.dtype is torch.float32
            and torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
            and not torch._C._are_functorch_transforms_active()
        )


class _ByFeature(torch.autograd.Function):
    """X Wᵀ + b as the transpose of W Xᵀ + b, in memory too."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return _multiply(weight, inputs.t()).add_(bias[:, None]).t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        inputs, weight = ctx.saved_tensors
        gradient = gradients[0].t().contiguous()
        of_inputs = (weight.t() @ gradient).t() if ctx.needs_input_grad[0] else None
        return of_inputs, _multiply(gradient, inputs), gradient.sum(1)


def _multiply(left: Tensor, right: Tensor) -> Tensor:
    if torch.is_grad_enabled():  # second derivatives: autograd must see the product
        return left @ right
    return _onednn_linear(left, right.t(), None, "none", [], "")


# Without the layer of Python in `Function.apply`, which serves transforms: there are none here.
_by_feature: Callable[..., Tensor] = cast("Any", super(torch.autograd.Function, _ByFeature)).apply


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
