"""Backward correction and the risks of whole batches: the contract, unbiasedness, corrections."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from torch.nn import functional as torch_functional

import loss_references as reference
from loss_cases import (
    PlainMatrix,
    make_logits,
    make_transition,
    possible_labels,
    saturated_logits,
    with_gradient,
)
from loss_compilation import assert_compiles, compiles
from loss_contract import LossContract
from naysay import InvalidInput, InvalidLabels, InvalidTransitionMatrix, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)


@cache
def invertible(kind, n_classes):
    """Return the matrix of that kind, mixed with the identity where it is near singular."""
    Q = make_transition(kind, n_classes)
    values = np.asarray(Q)
    if np.linalg.cond(values) < 1e3:
        return Q
    return TransitionMatrix(0.4 * values + 0.6 * np.eye(n_classes), allow_diagonal=True)


@cache
def plain_invertible(kind, n_classes):
    return PlainMatrix(invertible(kind, n_classes))


class TestBackwardCrossEntropy(LossContract):
    function = staticmethod(F.backward_cross_entropy)
    module = losses.BackwardCrossEntropy
    reference = staticmethod(reference.backward)
    cases = (
        *((kind, n) for n in (2, 3, 10) for kind in ("uniform", "with zeros", "with diagonal")),
        ("with diagonal", 300),
    )
    few_cases = (("uniform", 2), ("uniform", 10), ("without zeros", 10), ("with diagonal", 3))
    # a sum of K terms of both signs keeps the digits of its largest terms
    single = (1e-5, 2e-2)
    single_saturated = (1e-5, 20)

    def transition(self, kind, n_classes):
        return invertible(kind, n_classes)

    def plain(self, kind, n_classes):
        return plain_invertible(kind, n_classes)

    def assert_equals_reference(self, kind, n_classes, logits, rtol, atol):
        if n_classes <= 10:
            atol /= 1000
        super().assert_equals_reference(kind, n_classes, logits, rtol, max(atol, 1e-8))

    def test_uniform_labels_take_the_closed_form(self):
        # a diagonal of 1e-15 makes the same matrix one that is not known to be uniform
        logits, labels = make_logits(6, 5), torch.tensor([0, 1, 2, 3, 4, 0])
        uniform = TransitionMatrix.uniform(5)
        values = np.asarray(uniform) * (1 - 1e-15) + 1e-15 * np.eye(5)
        general = TransitionMatrix(values, allow_diagonal=True)
        assert not general.is_uniform
        each = torch_functional.log_softmax(logits, 1)
        closed = -each.sum(1) + 4 * each.gather(1, labels[:, None])[:, 0]
        for Q in (uniform, general):
            torch.testing.assert_close(self.loss(logits, labels, Q, reduction="none"), closed)


@pytest.mark.parametrize("seed", range(5))
def test_backward_weighted_by_the_probability_of_each_label_is_the_cross_entropy(seed):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 8))
    values = rng.dirichlet(np.ones(n_classes), size=n_classes)
    Q = TransitionMatrix(values, allow_diagonal=True)
    logits, y = make_logits(6, n_classes, seed), torch.from_numpy(rng.integers(n_classes, size=6))
    every = torch.stack(
        [
            F.backward_cross_entropy(logits, torch.full((6,), label), Q, reduction="none")
            for label in range(n_classes)
        ],
        dim=1,
    )
    expected = torch_functional.cross_entropy(logits, y, reduction="none")
    torch.testing.assert_close((every * torch.from_numpy(values)[y]).sum(1), expected)


@pytest.mark.parametrize("kind", ["uniform", "without zeros", "with zeros", "with diagonal"])
def test_backward_is_unbiased_over_labels_drawn(kind):
    Q = invertible(kind, 5)
    n = 200_000
    y = torch.arange(n) % 5
    logits = make_logits(5, 5)[y]
    drawn = torch.from_numpy(Q.sample(y.numpy(), seed=7))
    each = F.backward_cross_entropy(logits, drawn, Q, reduction="none")
    truth = torch_functional.cross_entropy(logits, y)
    assert abs(each.mean() - truth) < 4 * each.std() / n**0.5


def random_invertible(seed, n_classes=5):
    """Return a random matrix with a zero diagonal whose inverse is not large."""
    rng = np.random.default_rng(seed)
    while True:
        values = rng.dirichlet(np.full(n_classes - 1, 0.5), size=n_classes)
        values = np.array([np.insert(row, i, 0) for i, row in enumerate(values)])
        if np.linalg.cond(values) < 30:
            return TransitionMatrix(values)


@pytest.mark.parametrize("seed", range(4))
def test_backward_and_the_sum_over_ordinary_classes_are_unbiased_for_random_matrices(seed):
    Q = random_invertible(seed)
    prior = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(5, 3.0)))
    n = 100_000
    y = torch.multinomial(prior, n, replacement=True, generator=torch.Generator().manual_seed(seed))
    logits = make_logits(5, 5, seed)[y]
    drawn = torch.from_numpy(Q.sample(y.numpy(), seed=seed))
    each = F.backward_cross_entropy(logits, drawn, Q, reduction="none")
    ordinary = torch_functional.cross_entropy(logits, y, reduction="none")
    assert abs(each.mean() - ordinary.mean()) < 4 * each.std() / n**0.5
    # nn and ga are sums over ordinary classes, whose risks are positive with so many labels
    for risk in (F.non_negative_risk, F.gradient_ascent_risk):
        for given in (None, prior):
            assert risk(logits, drawn, Q, given).item() == pytest.approx(
                ordinary.mean().item(), abs=4 * float(each.std()) / n**0.5
            )


@pytest.mark.parametrize(
    "function", [F.backward_cross_entropy, F.non_negative_risk, F.gradient_ascent_risk]
)
@pytest.mark.parametrize("n_classes", [3, 10])
def test_a_singular_matrix_is_refused(function, n_classes):
    Q = make_transition("singular", n_classes)
    with pytest.raises(InvalidTransitionMatrix, match=r"must be invertible.*singular.*'forward'"):
        function(torch.zeros(1, n_classes), torch.tensor([0]), Q)


# --- risks of whole batches ---------------------------------------------------------------------

PRIOR = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.float64)
RISKS = pytest.mark.parametrize(
    "risk, module",
    [
        (F.non_negative_risk, losses.NonNegativeRisk),
        (partial(F.non_negative_risk, prior=PRIOR), partial(losses.NonNegativeRisk, prior=PRIOR)),
        (F.gradient_ascent_risk, losses.GradientAscentRisk),
        (
            partial(F.gradient_ascent_risk, prior=PRIOR),
            partial(losses.GradientAscentRisk, prior=PRIOR),
        ),
        (
            lambda f, y, Q, **options: F.one_versus_rest_risk(f, y, PRIOR, **options),
            lambda Q, **options: losses.OneVersusRestRisk(PRIOR, **options),
        ),
    ],
    ids=["nn", "nn with prior", "ga", "ga with prior", "scarce"],
)
KINDS = pytest.mark.parametrize("kind", ["uniform", "without zeros", "with diagonal"])


def batch_with_an_absent_label(kind, n=12, seed=0):
    """Return logits, labels among which class 1 does not occur, and Q."""
    Q = invertible(kind, 5)
    labels = possible_labels(Q, 4 * n, seed)
    return make_logits(n, 5, seed), labels[labels != 1][:n], Q


def slopes_by_differences(objective, rows, step=1e-6):
    slopes = np.zeros((len(rows), len(rows[0])))
    for i in range(len(rows)):
        for k in range(len(rows[0])):
            sides = []
            for sign in (1, -1):
                moved = [list(row) for row in rows]
                moved[i][k] += sign * step
                sides.append(objective(moved))
            slopes[i, k] = (sides[0] - sides[1]) / (2 * step)
    return slopes


@pytest.mark.unmeasured
@KINDS
@pytest.mark.parametrize("prior", [None, PRIOR])
def test_non_negative_risk_is_corrected_per_ordinary_class(kind, prior):
    for seed in range(3):
        logits, labels, Q = batch_with_an_absent_label(kind, seed=seed)
        rows, given = logits.tolist(), labels.tolist()
        shares = None if prior is None else prior.tolist()

        def objective(rows, given=given, shares=shares):
            risks = reference.class_risks(rows, given, plain_invertible(kind, 5), shares)
            return sum(max(risk, 0) for risk in risks)

        value, gradient = with_gradient(F.non_negative_risk, logits, labels, Q, prior)
        assert value.item() == pytest.approx(objective(rows))
        slopes = slopes_by_differences(objective, rows)
        np.testing.assert_allclose(gradient, slopes, atol=1e-7)


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_gradient_ascent_climbs_where_an_ordinary_class_is_negative_and_descends_elsewhere(prior):
    branches = set()
    shares = None if prior is None else prior.tolist()
    for kind, labels in (
        ("with diagonal", batch_with_an_absent_label("with diagonal", n=8)[1]),
        ("uniform", torch.arange(20) % 5),
    ):
        Q = invertible(kind, 5)
        logits = make_logits(len(labels), 5) * (0.1 if kind == "uniform" else 1)
        rows = logits.tolist()

        def risks(rows, kind=kind, given=labels.tolist()):  # noqa: B008
            return reference.class_risks(rows, given, plain_invertible(kind, 5), shares)

        climbs = min(risks(rows)) < 0
        branches.add(climbs)

        def objective(rows, climbs=climbs, risks=risks):
            return -sum(min(r, 0) for r in risks(rows)) if climbs else sum(risks(rows))

        value, gradient = with_gradient(F.gradient_ascent_risk, logits, labels, Q, prior)
        assert value.item() == pytest.approx(sum(max(r, 0) for r in risks(rows)))
        slopes = slopes_by_differences(objective, rows)
        np.testing.assert_allclose(gradient, slopes, atol=1e-7)
    assert branches == {True, False}


def test_gradient_ascent_brings_a_negative_class_back():
    logits, labels, Q = batch_with_an_absent_label("uniform", n=40)
    table = (5 * logits).requires_grad_()
    before = torch.tensor(reference.class_risks(table.tolist(), labels.tolist(), PlainMatrix(Q)))
    assert before.min() < 0
    F.gradient_ascent_risk(table, labels, Q).backward()
    moved = (table - 0.01 * table.grad).tolist()
    after = torch.tensor(reference.class_risks(moved, labels.tolist(), PlainMatrix(Q)))
    assert after.clamp_max(0).sum() > before.clamp_max(0).sum()


def test_one_versus_rest_risk_equals_the_formula():
    for seed in range(3):
        logits, labels, _ = batch_with_an_absent_label("without zeros", seed=seed)

        def objective(rows, labels=labels):
            return reference.one_versus_rest(rows, labels.tolist(), None, PRIOR.tolist())

        value, gradient = with_gradient(F.one_versus_rest_risk, logits, labels, PRIOR)
        assert value.item() == pytest.approx(objective(logits.tolist()))
        slopes = slopes_by_differences(objective, logits.tolist())
        np.testing.assert_allclose(gradient, slopes, atol=1e-7)


@RISKS
@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_risks_are_finite_at_large_logits(risk, module, kind, dtype):
    Q = invertible(kind, 5)
    for seed in range(5):
        logits = saturated_logits(20, 5, seed).to(dtype)
        value, gradient = with_gradient(risk, logits, possible_labels(Q, 20, seed), Q)
        assert value.isfinite()
        assert gradient.isfinite().all()
        assert value.dtype == dtype


@RISKS
@KINDS
def test_risks_of_one_example_and_of_none_are_finite(risk, module, kind):
    Q = invertible(kind, 5)
    value, gradient = with_gradient(risk, make_logits(1, 5), torch.tensor([2]), Q)
    assert value.isfinite()
    assert gradient.isfinite().all()
    assert risk(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64), Q) == 0
    value, gradient = with_gradient(risk, make_logits(3, 5), torch.full((3,), -100), Q)
    assert value == 0
    assert not gradient.any()


@RISKS
@KINDS
def test_risks_do_not_depend_on_the_order_of_examples_or_their_shape(risk, module, kind):
    logits, labels, Q = batch_with_an_absent_label(kind)
    value, gradient = with_gradient(risk, logits, labels, Q)
    other, slopes = with_gradient(risk, logits.flip(0), labels.flip(0), Q)
    torch.testing.assert_close(value, other)
    torch.testing.assert_close(gradient.flip(0), slopes)
    folded = logits.reshape(3, 4, 5).transpose(1, 2)
    torch.testing.assert_close(risk(folded, labels.reshape(3, 4), Q), value)


@KINDS
@pytest.mark.parametrize("name", ["nn", "ga", "scarce"])
def test_risks_do_not_depend_on_the_order_of_the_classes(kind, name):
    logits, labels, Q = batch_with_an_absent_label(kind)
    order = np.random.default_rng(3).permutation(5)
    permuted = TransitionMatrix(np.asarray(Q)[np.ix_(order, order)], allow_diagonal=True)
    new_labels = torch.from_numpy(np.argsort(order))[labels]

    def risk(logits, labels, Q, prior):
        if name == "scarce":
            return F.one_versus_rest_risk(logits, labels, prior)
        function = {"nn": F.non_negative_risk, "ga": F.gradient_ascent_risk}[name]
        return function(logits, labels, Q, prior)

    value, gradient = with_gradient(risk, logits, labels, Q, PRIOR)
    other, slopes = with_gradient(risk, logits[:, order], new_labels, permuted, PRIOR[order])
    torch.testing.assert_close(value, other)
    torch.testing.assert_close(gradient[:, order], slopes)


@RISKS
def test_ignored_examples_count_nothing_in_a_risk(risk, module):
    logits, labels, Q = batch_with_an_absent_label("without zeros")
    kept = torch.arange(12) % 3 != 0
    value, gradient = with_gradient(risk, logits, labels.where(kept, -1), Q, ignore_index=-1)
    expected, slopes = with_gradient(risk, logits[kept], labels[kept], Q)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient[kept], slopes)
    assert not gradient[~kept].any()


@RISKS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_in_a_risk(risk, module, dtype):
    logits, labels, Q = batch_with_an_absent_label("without zeros")
    logits = logits.to(dtype)
    value = risk(logits, labels, Q)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), risk(logits.double(), labels, Q), rtol=1e-4, atol=0)


@RISKS
def test_the_module_of_a_risk_equals_its_function(risk, module):
    logits, labels, Q = batch_with_an_absent_label("without zeros")
    labels[0] = -1
    assert torch.equal(
        module(Q, ignore_index=-1)(logits, labels), risk(logits, labels, Q, ignore_index=-1)
    )
    assert "ignore_index=-1" in repr(module(Q, ignore_index=-1))


@pytest.mark.parametrize("kind", ["uniform", "without zeros"])
@compiles
def test_risks_compile_without_a_graph_break(kind):
    logits, labels, Q = batch_with_an_absent_label(kind)

    def all_risks(logits, labels):
        return torch.stack([risk(logits, labels, Q) for risk, _ in RISKS.args[1]])

    assert_compiles(all_risks, logits, labels)


@RISKS
def test_labels_and_logits_are_checked_in_a_risk(risk, module):
    Q = TransitionMatrix.uniform(5)
    with pytest.raises(InvalidLabels, match="integers 0"):
        risk(torch.zeros(2, 5), torch.tensor([0, 5]), Q)
    with pytest.raises(InvalidInput, match="logits must be floating point"):
        risk(torch.zeros(5), torch.tensor([0]), Q)


def test_a_prior_of_another_shape_is_refused():
    with pytest.raises(InvalidInput, match=r"one probability per class, shape \(5,\)"):
        F.one_versus_rest_risk(torch.zeros(1, 5), torch.tensor([0]), torch.ones(4))
    with pytest.raises(InvalidInput, match="Got list, not a Tensor"):
        F.non_negative_risk(
            torch.zeros(1, 5), torch.tensor([0]), TransitionMatrix.uniform(5), [0.2] * 5
        )
