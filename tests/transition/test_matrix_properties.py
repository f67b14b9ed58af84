"""What holds for any matrix, any labels and any file."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from naysay import (
    InvalidLabels,
    InvalidTransitionMatrix,
    NaysayError,
    TransitionMatrix,
)

pytestmark = pytest.mark.unmeasured
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)
ANY_ARRAY = hnp.arrays(
    dtype=st.one_of(
        st.just(np.dtype(np.float64)),
        hnp.floating_dtypes(),
        hnp.integer_dtypes(),
        hnp.complex_number_dtypes(),
        hnp.byte_string_dtypes(),
        hnp.unicode_string_dtypes(),
        hnp.datetime64_dtypes(),
    ),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_FLOAT | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=9,
)


@st.composite
def transition_matrices(draw, max_classes=6):
    """Any matrix that should be accepted, of all kinds."""
    n_classes = draw(st.integers(2, max_classes))
    allow_diagonal = draw(st.booleans())
    values = draw(
        hnp.arrays(
            np.float64,
            (n_classes, n_classes),
            elements=st.just(0.0) | st.floats(1e-30, 1.0),
        )
    )
    if not allow_diagonal:
        np.fill_diagonal(values, 0)
    empty = values.sum(axis=1) == 0
    values[empty, (np.flatnonzero(empty) + 1) % n_classes] = 1
    values /= values.sum(axis=1, keepdims=True)
    return TransitionMatrix(values, allow_diagonal=allow_diagonal)


@settings(max_examples=200)
@given(values=ANY_ARRAY | NESTED, allow_diagonal=st.booleans())
def test_property_any_values_make_a_matrix_or_a_clear_refusal(values, allow_diagonal):
    try:
        Q = TransitionMatrix(values, allow_diagonal=allow_diagonal)
    except NaysayError as refusal:
        message = str(refusal)
    else:
        message = None
    if message is not None:
        assert message.startswith("Q must")
        return
    array = np.asarray(Q)
    assert np.isfinite(array).all()
    assert (array >= 0).all()
    np.testing.assert_allclose(array.sum(axis=1), 1, atol=2e-6)


@settings(max_examples=150)
@given(Q=transition_matrices(), labels=ANY_ARRAY | NESTED)
def test_property_any_labels_are_sampled_or_clearly_refused(Q, labels):
    try:
        drawn = Q.sample(labels)
    except InvalidLabels:
        return
    assert drawn.shape == np.shape(labels)


@settings(max_examples=100)
@given(Q=transition_matrices(), seed=st.integers(0, 2**32), data=st.data())
def test_property_samples_are_possible_labels(Q, seed, data):
    labels = data.draw(
        hnp.arrays(np.int64, st.integers(0, 30), elements=st.integers(0, Q.n_classes - 1))
    )
    drawn = Q.sample(labels, seed=seed)
    assert (np.asarray(Q)[labels, drawn] > 0).all()


@settings(max_examples=100)
@given(Q=transition_matrices(), data=st.data())
def test_property_a_diagnosis_is_never_nan(Q, data):
    weights = data.draw(
        hnp.arrays(np.float64, Q.n_classes, elements=st.floats(0, 1)).filter(
            lambda w: (w > 1e-9).sum() > 1
        )
    )
    d = Q.diagnose(prior=weights / weights.sum())
    assert 1 <= d.rank <= Q.n_classes
    assert d.condition_number >= 1
    assert d.smallest_singular_value >= 0
    assert 0 <= d.share_of_true_label <= 1 + 1e-9
    assert "nan" not in str(d)


@settings(max_examples=60)
@given(Q=transition_matrices(max_classes=4), names=st.data())
def test_property_csv_gives_back_any_matrix_with_any_names(tmp_path_factory, Q, names):
    encodable = st.characters(codec="utf-8")
    classes = names.draw(
        st.lists(
            st.text(encodable, max_size=4),
            min_size=Q.n_classes,
            max_size=Q.n_classes,
            unique=True,
        )
    )
    named = TransitionMatrix(np.asarray(Q), classes, allow_diagonal=Q.allow_diagonal)
    file = tmp_path_factory.mktemp("csv") / "Q.csv"
    named.write(file)
    assert TransitionMatrix.read(file) == named


@settings(max_examples=100)
@given(text=st.text(st.sampled_from("01.,;\n\"'ab -e"), max_size=30) | st.binary(max_size=30))
def test_property_any_file_is_read_or_clearly_refused(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("csv") / "Q.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        Q = TransitionMatrix.read(file)
    except InvalidTransitionMatrix:
        return
    assert np.isfinite(np.asarray(Q)).all()
