"""Losses as modules: each a shell around its function."""

import copy
import inspect
import io

import numpy as np
import pytest
import torch

from loss_cases import make_logits, make_transition, possible_labels
from loss_references import (
    generalised_cross_entropy,
)
from naysay import InvalidTransitionMatrix, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)

Q = make_transition("with zeros", 10)
LABELS = possible_labels(Q, 6)
LOGITS = make_logits(6, 10, dtype=torch.float32)

SHELLS = pytest.mark.parametrize(
    "make, function",
    [
        (
            lambda **options: losses.ForwardCrossEntropy(Q, **options),
            lambda f, y, *weight, **options: F.forward_cross_entropy(f, y, Q, *weight, **options),
        ),
        (
            lambda **options: losses.ForwardSquaredError(Q, **options),
            lambda f, y, *weight, **options: F.forward_squared_error(f, y, Q, *weight, **options),
        ),
        (
            lambda **options: losses.ForwardLoss(Q, base=generalised_cross_entropy, **options),
            lambda f, y, *weight, **options: F.forward_loss(
                f, y, Q, *weight, base=generalised_cross_entropy, **options
            ),
        ),
        (losses.PairwiseComparison, F.pairwise_comparison),
    ],
    ids=["forward_cross_entropy", "forward_squared_error", "forward_loss", "pairwise_comparison"],
)


@SHELLS
def test_a_module_equals_its_function(make, function):
    assert torch.equal(make()(LOGITS, LABELS), function(LOGITS, LABELS))


@SHELLS
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_module_hands_on_every_option(make, function, reduction):
    weight = torch.linspace(1, 2, 10)
    options = {"ignore_index": int(LABELS[0]), "reduction": reduction}
    found = make(weight=weight, **options)(LOGITS, LABELS)
    assert torch.equal(found, function(LOGITS, LABELS, weight, **options))


@SHELLS
def test_weights_are_a_buffer_that_moves_with_the_module(make, function):
    module = make(weight=torch.ones(10))
    assert dict(module.named_buffers()).keys() == {"weight"}
    assert list(module.parameters()) == []
    assert module.double().weight.dtype == torch.float64
    assert module.to("meta").weight.is_meta


@SHELLS
def test_state_holds_the_weight_and_nothing_else(make, function):
    assert make().state_dict() == {}
    module = make(weight=torch.ones(10))
    assert module.state_dict().keys() == {"weight"}
    module.load_state_dict({"weight": torch.full((10,), 3.0)})
    assert torch.equal(module.weight, torch.full((10,), 3.0))


@SHELLS
def test_a_module_survives_copying(make, function):
    module = make(weight=torch.ones(10), reduction="sum")
    twin = copy.deepcopy(module)
    assert torch.equal(twin(LOGITS, LABELS), module(LOGITS, LABELS))


def test_a_module_survives_torch_save():
    module = losses.ForwardCrossEntropy(Q, reduction="sum")
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    twin = torch.load(file, weights_only=False)
    assert twin.Q == Q
    assert torch.equal(twin(LOGITS, LABELS), module(LOGITS, LABELS))


@SHELLS
def test_options_must_be_named(make, function):
    parameters = inspect.signature(type(make()).__init__).parameters
    positional = [
        name
        for name, parameter in parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert positional in (["self", "Q"], ["self"])


def test_a_module_says_what_it_is():
    shown = repr(losses.ForwardCrossEntropy(TransitionMatrix.uniform(3), ignore_index=-1))
    assert shown == (
        "ForwardCrossEntropy(TransitionMatrix(uniform, 3 classes: '0', '1', '2'), "
        "ignore_index=-1, reduction='mean')"
    )
    assert repr(losses.PairwiseComparison()) == (
        "PairwiseComparison(ignore_index=-100, reduction='mean')"
    )


def test_an_array_is_checked_once_when_the_module_is_made():
    module = losses.ForwardCrossEntropy(np.asarray(Q))
    assert module.Q == Q
    with pytest.raises(InvalidTransitionMatrix, match="looks transposed"):
        losses.ForwardCrossEntropy(np.asarray(make_transition("singular", 3)).T)


def test_every_loss_function_has_its_module():
    functions = [name for name in F.__all__ if name not in ("BaseLoss", "BinaryLoss")]
    stems = ["".join(word.title() for word in name.split("_")) for name in functions]
    # one is read in another way than the function's own module, one is added to any loss, and one
    # is the base class of all
    others = ["NearestRowForwardCrossEntropy", "PriorMatching", "TrainingLoss"]
    assert sorted(losses.__all__) == sorted([*stems, *others])


@SHELLS
def test_a_module_trains_a_network(make, function):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(64, 5, generator=generator)
    y = possible_labels(Q, 64)
    weights = torch.zeros(5, 10, requires_grad=True)
    optimiser = torch.optim.SGD([weights], lr=0.1)
    module = make()
    before = module(X @ weights, y).item()
    for _ in range(20):
        optimiser.zero_grad()
        module(X @ weights, y).backward()
        optimiser.step()
    assert module(X @ weights, y).item() < before
