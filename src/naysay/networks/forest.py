"""Decision trees as a network, so that model files need no pickle."""

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from naysay._base.checks import check_count, check_n_classes
from naysay._base.errors import InvalidInput

_FLOOR = 1e-3  # least probability


class Forest(nn.Module):
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
        super().__init__()
        shape = [check_count(size, "each size of input_shape") for size in input_shape]
        n_classes = check_n_classes(n_classes)
        self.depth, self.n_inputs = check_count(depth, "depth"), prod(shape)
        self.arguments: dict[str, Any] = {
            "input_shape": shape,
            "n_classes": n_classes,
            "n_trees": check_count(n_trees, "n_trees"),
            "n_nodes": check_count(n_nodes, "n_nodes"),
            "depth": depth,
        }
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
            nodes = np.arange(tree.node_count)
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
