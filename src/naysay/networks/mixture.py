"""The models of the default learner as networks, so that model files need no pickle."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from naysay._base.checks import check_count
from naysay._base.errors import InvalidInput
from naysay.networks.mlp import MLP
from naysay.networks.parts import Network

_FLOOR = 1e-3  # least probability, which a regression can fall below


class Forest(Network):
    """Mean of decision trees whose leaves hold class probabilities.

    Parameters
    ----------
    input_shape : sequence of int
        Shape of one example. Inputs are flattened.
    n_classes : int
    n_trees, n_nodes, depth : int
        Number of trees, of nodes of all trees together, and of comparisons to reach any leaf.

    Examples
    --------
    >>> Forest((4,), 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    root: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        n_classes: int,
        *,
        n_trees: int = 1,
        n_nodes: int = 1,
        depth: int = 1,
    ) -> None:
        sizes = {"n_trees": n_trees, "n_nodes": n_nodes, "depth": depth}
        sizes = {name: check_count(size, name) for name, size in sizes.items()}
        super().__init__(input_shape, n_classes, **sizes)
        self.depth = depth
        if depth > n_nodes:
            raise InvalidInput(f"depth must be at most n_nodes, {n_nodes}. Got {depth}.")
        for name in ("feature", "left", "right"):  # the children of a leaf are the leaf
            self.register_buffer(name, torch.zeros(n_nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.zeros(n_nodes))
        self.register_buffer("root", torch.zeros(n_trees, dtype=torch.int64))
        self.values = nn.Parameter(torch.full((n_nodes, n_classes), 1 / n_classes))

    @classmethod
    def from_trees(cls, trees: Sequence[Any], input_shape: Sequence[int], n_classes: int) -> Self:
        """Copy trees of scikit-learn, ``tree_`` of regressors of class probabilities."""
        counts = [tree.node_count for tree in trees]
        starts = np.cumsum([0, *counts[:-1]])
        forest = cls(
            input_shape,
            n_classes,
            n_trees=len(trees),
            n_nodes=sum(counts),
            depth=max(1, *(tree.max_depth for tree in trees)),
        )
        parts: dict[str, list[Any]] = {
            name: [] for name in ("feature", "left", "right", "threshold")
        }
        for tree, start in zip(trees, starts.tolist(), strict=True):
            nodes = np.arange(int(tree.node_count))
            is_leaf = tree.children_left < 0
            parts["feature"].append(np.where(is_leaf, 0, tree.feature))
            parts["left"].append(start + np.where(is_leaf, nodes, tree.children_left))
            parts["right"].append(start + np.where(is_leaf, nodes, tree.children_right))
            below = tree.threshold.astype(np.float32)
            # inputs are float32: the largest of them that is not above the threshold decides
            above = below.astype(np.float64) > tree.threshold
            parts["threshold"].append(np.where(above, np.nextafter(below, -np.inf), below))
        with torch.no_grad():
            for name, arrays in parts.items():
                buffer = getattr(forest, name)
                buffer.copy_(torch.as_tensor(np.concatenate(arrays)))
            forest.root.copy_(torch.as_tensor(starts))
            values = np.concatenate([tree.value[:, :, 0] for tree in trees])
            forest.values.copy_(torch.as_tensor(values))
        return forest.eval()

    def check(self) -> None:
        """Check that all nodes name features and nodes that exist, as in a file they may not."""
        n_nodes, n_inputs = len(self.threshold), self.n_inputs
        for name, end in (("feature", n_inputs), ("left", n_nodes), ("right", n_nodes)):
            found = getattr(self, name)
            if ((found < 0) | (found >= end)).any():
                raise InvalidInput(f"{name} must be from 0 to {end - 1} for each node.")
        if ((self.root < 0) | (self.root >= n_nodes)).any():
            raise InvalidInput(f"root must be from 0 to {n_nodes - 1} for each tree.")

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the logits, shape (N, n_classes)."""
        flat = inputs.flatten(1)
        node = self.root.expand(flat.shape[0], -1)  # `len` would fix the size of batches in exports
        for _ in range(self.depth):
            goes_left = flat.gather(1, self.feature[node]) <= self.threshold[node]
            node = torch.where(goes_left, self.left[node], self.right[node])
        total = self.values[node[:, 0]]
        for tree in range(1, len(self.root)):  # one by one, with little memory
            total = total + self.values[node[:, tree]]
        return (total / len(self.root)).clamp(min=_FLOOR).log()


class Kernel(Network):
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
        super().__init__(input_shape, n_classes, n_centres=check_count(n_centres, "n_centres"))
        self.register_buffer("mean", torch.zeros(self.n_inputs))
        self.register_buffer("scale", torch.ones(self.n_inputs))
        self.register_buffer("centres", torch.zeros(n_centres, self.n_inputs))  # standardised
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

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the logits, shape (N, n_classes)."""
        standardised = (inputs.flatten(1) - self.mean) / self.scale
        squares = standardised.square().sum(1, keepdim=True) + self.centres.square().sum(1)
        distances = squares - 2 * standardised @ self.centres.T
        kernels = (-self.gamma * distances.clamp(min=0)).exp()  # (N, n_centres)
        return (kernels @ self.weight + self.bias).clamp(min=_FLOOR).log()


#: The networks that a mixture can be made of.
MEMBERS: dict[str, type[nn.Module]] = {"MLP": MLP, "Kernel": Kernel, "Forest": Forest}


class Mixture(Network):
    """Weighted mean of the class probabilities of networks, each with its temperature.

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
        own = {"input_shape", "n_classes"}
        others = [
            (name, {key: value for key, value in arguments.items() if key not in own})
            for name, arguments in members
        ]
        super().__init__(input_shape, n_classes, members=others)
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
