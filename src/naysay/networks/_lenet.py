"""LeNet-5."""

from collections.abc import Sequence

from torch import Tensor, nn

from naysay.networks._parts import ImageNetwork, initialise, last_layer


class LeNet5(ImageNetwork):
    """LeNet-5 with ReLU and max-pooling, the paper's network for MNIST.

    Images are padded by 2 on each side, which makes 28 × 28 pixels the 32 × 32 of LeCun et al.;
    larger images make the first linear layer wider.

    Parameters
    ----------
    input_shape : sequence of int
        ``(C, H, W)`` of one image, at least 12 × 12 pixels.
    n_classes : int

    References
    ----------
    LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition,
    Proceedings of the IEEE 1998.

    Examples
    --------
    >>> network = LeNet5((1, 28, 28), 10)
    >>> sum(weights.numel() for weights in network.parameters())
    61706
    """

    def __init__(self, input_shape: Sequence[int], n_classes: int) -> None:
        super().__init__(input_shape, n_classes, at_least=12)
        n_channels, *sides = self.input_shape
        height, width = ((side // 2 - 4) // 2 for side in sides)  # after both pools
        self.layers = nn.Sequential(
            nn.Conv2d(n_channels, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * height * width, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        ).apply(initialise)
        self.last = last_layer(84, n_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, shape (N, n_classes)."""
        return self.last(self.layers(self.standardised(inputs)))
