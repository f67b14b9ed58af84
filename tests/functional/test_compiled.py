"""Losses under `torch.compile`: one graph, equal values, and the same refusals."""

import shutil

import pytest
import torch

from loss_cases import make_logits, make_transition, possible_labels, with_gradient
from loss_compilation import assert_compiles, compiles
from naysay import TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)


def assert_compiles_with(kind, n_classes, loss, **options):
    Q = make_transition(kind, n_classes)
    logits, labels = make_logits(4, n_classes), possible_labels(Q, 4)
    labels[1] = -100
    return assert_compiles(lambda f, y: loss(f, y, Q), logits, labels, **options)


@compiles
@pytest.mark.parametrize(
    "kind, n_classes", [("uniform", 10), ("without zeros", 10), ("with zeros", 1200)]
)
@pytest.mark.parametrize("loss", [F.forward_cross_entropy, F.forward_squared_error])
def test_compiled_losses_equal_eager_ones_without_a_graph_break(loss, kind, n_classes):
    compiled = assert_compiles_with(kind, n_classes, loss)
    for bad in (-1, n_classes):
        labels = torch.tensor([0, 0, bad, 0])
        with pytest.raises(
            RuntimeError, match=rf"comp_labels must be integers 0\.\.{n_classes - 1}"
        ):
            compiled(make_logits(4, n_classes), labels)


@compiles
@pytest.mark.parametrize("loss", [F.forward_cross_entropy, F.forward_squared_error])
def test_a_compiled_loss_refuses_a_label_that_cannot_occur(loss):
    compiled = assert_compiles_with("uneven", 1200, loss)
    with pytest.raises(RuntimeError, match="never be class 1, whose column of Q is all zero"):
        compiled(make_logits(4, 1200), torch.tensor([0, 1, 0, 0]))


@compiles
def test_a_compiled_loss_tells_one_matrix_from_another():
    torch._dynamo.reset()
    compiled = torch.compile(F.forward_cross_entropy, fullgraph=True, backend="aot_eager")
    logits, labels = make_logits(4, 10), torch.tensor([0, 1, 2, 3])

    def check(Q):
        value, gradient = with_gradient(compiled, logits, labels, Q)
        expected, slopes = with_gradient(F.forward_cross_entropy, logits, labels, Q)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient, slopes)

    twins = [TransitionMatrix.with_zeros(10, 9, seed=seed) for seed in range(2)]
    for Q in (TransitionMatrix.uniform(10), *twins, make_transition("with diagonal", 10), twins[0]):
        check(Q)
    for seed in range(2):  # each is deleted before the next, which may get its address
        check(TransitionMatrix.with_zeros(10, 9, seed=3 + seed))


@compiles
@pytest.mark.parametrize("module", [losses.ForwardCrossEntropy, losses.ForwardSquaredError])
def test_a_network_and_its_loss_compile_together(module):
    network, loss = torch.nn.Linear(5, 10), module(make_transition("without zeros", 10))
    X, labels = make_logits(4, 5, dtype=torch.float32), torch.tensor([0, 1, 2, 3])
    assert_compiles(lambda X, labels: loss(network(X), labels), X, labels)


@compiles
def test_pairwise_comparison_compiles_too():
    logits, labels = make_logits(4, 10), torch.tensor([0, 1, -100, 9])
    compiled = assert_compiles(F.pairwise_comparison, logits, labels)
    with pytest.raises(RuntimeError, match=r"comp_labels must be integers 0\.\.9"):
        compiled(logits, torch.tensor([0, 1, 2, 10]))


@compiles
@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="inductor needs a C++ compiler"
)
@pytest.mark.filterwarnings("ignore:Skipping serialization:UserWarning")  # torch 2.6's own
def test_the_default_compiler_gives_the_same_loss(monkeypatch):
    # A pool of compilers would import torch in each of its processes, and to find the vector
    # instructions of the processor, torch compiles as much as the loss takes.
    for name, value in (
        ("compile_threads", 1),
        ("cpp.vec_isa_ok", False),
        ("cpp_cache_precompile_headers", False),
    ):
        monkeypatch.setattr(f"torch._inductor.config.{name}", value)
    assert_compiles_with("without zeros", 10, F.forward_cross_entropy, backend="inductor")


def test_the_check_made_on_devices_agrees_with_the_one_on_the_cpu(monkeypatch):
    Q = make_transition("uneven", 1200)
    logits, labels = make_logits(4, 1200), possible_labels(Q, 4)
    labels[1] = -100
    expected, slopes = with_gradient(F.forward_cross_entropy, logits, labels, Q)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    value, gradient = with_gradient(F.forward_cross_entropy, logits, labels, Q)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, slopes)
    with pytest.raises(RuntimeError, match="never be class 1, whose column of Q is all zero"):
        F.forward_cross_entropy(logits, labels.where(labels == -100, 1), Q)
    with pytest.raises(RuntimeError, match=r"comp_labels must be integers 0\.\.9 or ignore_index"):
        F.pairwise_comparison(make_logits(1, 10), torch.tensor([10]))
    assert F.forward_cross_entropy(logits[:0], labels[:0], Q) == 0
