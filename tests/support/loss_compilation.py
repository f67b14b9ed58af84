"""Losses under `torch.compile`, against the same losses without it."""

import pytest
import torch

from loss_cases import with_gradient


def compiles(test):
    """Mark a test that compiles: torch warns of its own code, and is slow if it is measured."""
    ignored = pytest.mark.filterwarnings("ignore::DeprecationWarning")
    return pytest.mark.unmeasured(ignored(test))


def assert_compiles(loss, logits, observed, *, backend="aot_eager"):
    """Check that a loss compiles to one graph of the same value and gradient; return it."""
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend=backend)  # a graph break is an error
    found = with_gradient(compiled, logits, observed)
    torch.testing.assert_close(found, with_gradient(loss, logits, observed))
    return compiled
