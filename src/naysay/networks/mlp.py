"""Fully connected networks."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from naysay._base.checks import check_count
from naysay.networks.parts import Network, last_layer, mean_and_scale
from naysay.networks.randomness import Dropout

# The product X Wᵀ by oneDNN; torch itself uses MKL in float32.
_onednn_linear: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_has_onednn = torch.backends.mkldnn.is_available() and _onednn_linear is not None

# Multiplications from which oneDNN pays off: it saves nothing at 2e7, and a tenth at 1e8.
_LARGE_PRODUCT = 5e7


class Linear(nn.Linear):
    """`torch.nn.Linear` whose output may be stored feature by feature in memory.

    During training this saves a tenth of the time for 500 × 784 weights and 256 examples, in the
    product and in its gradient. The layers that follow keep the layout, and a loss over few classes
    finds the values of each class next to each other.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Compute the outputs, shape (N, out_features)."""
        if self.training and _has_onednn and not torch.compiler.is_compiling() and input.ndim == 2:
            size = len(input) * self.in_features * self.out_features
            if (
                size >= _LARGE_PRODUCT or input.stride(0) < input.stride(1)
            ) and self._is_plain_training(input):
                return _by_feature(input, self.weight, self.bias)
        return linear(input, self.weight, self.bias)

    def _is_plain_training(self, inputs: Tensor) -> bool:
        """Check for ordinary training in float32 on a CPU, without `torch.func` or autocast."""
        return (
            type(inputs) is Tensor
            and inputs.is_cpu
            and inputs.dtype is self.weight.dtype is torch.float32
            and torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
            and not torch._C._are_functorch_transforms_active()  # pyright: ignore[reportPrivateUsage]
        )


class _ByFeature(torch.autograd.Function):
    """X Wᵀ + b, computed and stored as the transpose of W Xᵀ + b."""

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
    if torch.is_grad_enabled():  # for second derivatives autograd needs the product
        return left @ right
    return _onednn_linear(left, right.t(), None, "none", [], "")


# This skips the Python layer of `Function.apply`, which only serves `torch.func` transforms.
_by_feature: Callable[..., Tensor] = cast("Any", super(torch.autograd.Function, _ByFeature)).apply


class MLP(Network):
    """Fully connected network with standardised inputs.

    Parameters
    ----------
    input_shape : sequence of int
        Shape of one example, ``(n_features,)`` or ``(C, H, W)``. Inputs are flattened.
    n_classes : int
    widths : sequence of int, default=(256,)
        Units of each hidden layer. The paper's d-3-c is ``widths=(3,), dropout=0``.
    dropout : float, default=0.5
        Probability of dropping a hidden unit during training.

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
        widths = [check_count(width, "each of widths") for width in widths]
        super().__init__(input_shape, n_classes, widths=widths, dropout=dropout)
        self.register_buffer("mean", torch.zeros(self.n_inputs))
        self.register_buffer("scale", torch.ones(self.n_inputs))
        sizes = [self.n_inputs, *widths]
        # dropout draws its mask in memory order, so another layout would change the results
        kind = nn.Linear if dropout else Linear
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [kind(before, after), nn.ReLU(), Dropout(dropout)]
        self.layers = nn.Sequential(*layers, last_layer(sizes[-1], n_classes, kind))

    def standardise(self, inputs: Tensor) -> None:
        """Compute mean and scale of each input from examples; a constant gets the scale 1."""
        mean, scale = mean_and_scale(inputs.flatten(1), (0,))
        self.mean.copy_(mean)
        self.scale.copy_(scale)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the logits, shape (N, n_classes)."""
        standardised = (inputs.flatten(1) - self.mean).div_(self.scale)  # in place is faster
        return self.layers(standardised)

    def forward_many(self, state: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """Compute the logits of M networks of this shape at once, (M, N, n_classes).

        `state` holds the weights and buffers of all networks by name, each of shape (M, …), and
        inputs have shape (M, N, …). Hidden layers have the examples along the last axis, because
        products with a long last axis are faster.
        """
        mean, scale = state["mean"][:, None], state["scale"][:, None]
        hidden = (inputs.flatten(2) - mean).div_(scale).mT  # in place, with half the memory
        for name, layer in self.layers.named_children():
            if isinstance(layer, nn.Linear):
                weight, bias = (state[f"layers.{name}.{kind}"] for kind in ("weight", "bias"))
                hidden = torch.baddbmm(bias[:, :, None], weight, hidden)
            else:
                hidden = layer(hidden)
        return hidden.mT
