"""The transition matrix from the structure of predictions alone, where it is identified."""

import numpy as np
import pytest

from naysay import InvalidInput, NotIdentifiable, TransitionMatrix
from naysay.estimation import from_structure
from simulated import draw, error


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix.uniform(6, classes=list("abcdef")),
        TransitionMatrix.without_zeros(5, (0.6, 0.4)),
    ],
    ids=["uniform", "without zeros"],
)
def test_structure_is_enough_where_each_row_has_one_zero(Q):
    probs, _, _ = draw(Q, 4000, sharpness=4)
    classes = np.array(Q.classes) if Q.has_names else None
    found = from_structure(probs @ np.asarray(Q), classes=classes)
    assert error(found, Q) < 0.05
    assert found.classes == Q.classes


def test_structure_is_refused_where_several_assignments_fit():
    Q = TransitionMatrix.with_zeros(6, 2, seed=0)
    probs, _, _ = draw(Q, 4000, sharpness=4)
    with pytest.raises(NotIdentifiable, match="must identify the classes"):
        from_structure(probs @ np.asarray(Q))


def test_only_the_classes_that_cannot_be_told_apart_are_named():
    values = np.array([[0, 0, 0.5, 0.5], [0, 0, 0.7, 0.3], [0.4, 0.3, 0, 0.3], [0.3, 0.5, 0.2, 0]])
    probs, _, _ = draw(TransitionMatrix(values), 4000, sharpness=5)
    with pytest.raises(NotIdentifiable, match="does not for 'ant', 'bee': their rows"):
        from_structure(probs @ values, classes=["ant", "bee", "cat", "dog"])


def test_structure_with_mistakes_keeps_the_diagonal():
    values = 0.95 * np.asarray(TransitionMatrix.uniform(4)) + 0.05 * np.eye(4)
    probs, _, _ = draw(TransitionMatrix(values, allow_diagonal=True), 4000, sharpness=5)
    found = from_structure(probs @ values, allow_diagonal=True)
    np.testing.assert_allclose(np.asarray(found).diagonal(), 0.05, atol=0.02)


@pytest.mark.parametrize(
    "comp_probs, wording",
    [([0.5, 0.5], r"Got shape \(2,\)"), ([[0.5, 0.5]], "at least one row per class, 2. Got 1")],
)
def test_structure_refuses_what_does_not_fit(comp_probs, wording):
    with pytest.raises(InvalidInput, match=wording):
        from_structure(comp_probs)


def test_single_precision_is_kept_and_gives_the_same_matrix():
    rng = np.random.default_rng(3)
    comp_probs = rng.dirichlet(np.full(6, 0.1), size=6000) @ np.asarray(TransitionMatrix.uniform(6))
    found = from_structure(comp_probs.astype(np.float32))
    np.testing.assert_allclose(found, from_structure(comp_probs), atol=1e-5)
    negative = comp_probs.astype(np.float32)
    negative[-1, 0] = -0.1
    with pytest.raises(InvalidInput, match="comp_probs"):
        from_structure(negative)
