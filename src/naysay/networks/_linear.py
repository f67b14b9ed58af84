"""A linear layer whose large products on a CPU are laid out so that they are fast."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

# oneDNN's product, X Wᵀ; torch itself multiplies with MKL in float32.
_onednn: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_is_there = torch.backends.mkldnn.is_available() and _onednn is not None

# Products of numbers from which this pays: at 2e7 it changes nothing, at 1e8 it saves a tenth.
_LARGE = 5e7


class Linear(nn.Linear):
    """The same layer, whose output has the same shape but may lie feature by feature in memory.

    While it trains, products of 500 × 784 weights and 256 examples then take a tenth less time,
    and so do their gradients. What follows keeps the layout, so that small layers after large
    ones have it too, and a loss over few classes finds each class in one piece.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's own word
        """Return the outputs, shape (N, out_features)."""
        if self.training and _is_there and not torch.compiler.is_compiling() and input.ndim == 2:
            size = len(input) * self.in_features * self.out_features
            if (size >= _LARGE or input.stride(0) < input.stride(1)) and self._may(input):
                return _by_feature(input, self.weight, self.bias)
        return linear(input, self.weight, self.bias)

    def _may(self, inputs: Tensor) -> bool:
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
        return _product(weight, inputs.t()).add_(bias[:, None]).t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        inputs, weight = ctx.saved_tensors
        gradient = gradients[0].t().contiguous()
        of_inputs = (weight.t() @ gradient).t() if ctx.needs_input_grad[0] else None
        return of_inputs, _product(gradient, inputs), gradient.sum(1)


def _product(left: Tensor, right: Tensor) -> Tensor:
    if torch.is_grad_enabled():  # second derivatives: autograd must see the product
        return left @ right
    return _onednn(left, right.t(), None, "none", [], "")


# Without the layer of Python in `Function.apply`, which serves transforms: there are none here.
_by_feature: Callable[..., Tensor] = cast("Any", super(torch.autograd.Function, _ByFeature)).apply
