"""refine: EM against plain loops, and by simulation that it helps and never harms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay import InvalidInput, InvalidLabels, InvalidTransitionMatrix, TransitionMatrix
from naysay.estimation import mixture, refine
from simulated import draw, error, softmax


def blur(Q, share, seed=0):
    """Mix Q with random rows, as an inaccurate estimate."""
    rng = np.random.default_rng(seed)
    values = (1 - share) * np.asarray(Q) + share * rng.dirichlet(np.ones(Q.n_classes), Q.n_classes)
    np.fill_diagonal(values, 0)
    return TransitionMatrix(values / values.sum(axis=1, keepdims=True))


# --- the algorithm ------------------------------------------------------------------------------


def em_in_loops(probs, labels, Q, epsilon, prior_counts):
    """One step of EM, as the formula is written."""
    n, n_classes = probs.shape
    share = [sum(label == j for label in labels) / n for j in range(n_classes)]
    counts = np.array(prior_counts, dtype=float)
    n_uninformative = total = 0.0
    for p, label in zip(probs, labels, strict=True):
        parts = [(1 - epsilon) * p[k] * Q[k, label] for k in range(n_classes)]
        whole = sum(parts) + epsilon * share[label]
        for k in range(n_classes):
            counts[k, label] += parts[k] / whole
        n_uninformative += epsilon * share[label] / whole
        total += np.log(whole)
    for k in range(n_classes):
        counts[k, k] = 0
    return counts / counts.sum(axis=1, keepdims=True), n_uninformative / n, total


def test_expected_counts_are_those_of_plain_loops():
    Q = TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1), seed=1)
    probs, labels, _ = draw(Q, 60)
    expected, share, total = em_in_loops(probs, labels, np.asarray(Q), 0.1, np.zeros((4, 4)))
    rows = mixture.Rows.group(probs, labels)
    counts, _, n_uninformative, found = mixture.expect(rows, np.asarray(Q), 0.1)
    np.testing.assert_allclose(
        mixture.normalise(counts, counts, allow_diagonal=False), expected, rtol=1e-12
    )
    assert n_uninformative / 60 == pytest.approx(share)
    assert found == pytest.approx(total)
    order = np.argsort(labels, kind="stable")
    one_by_one = [em_in_loops(probs[order], labels[order], np.asarray(Q), 0.1, np.zeros((4, 4)))[2]]
    background = np.bincount(labels) / 60
    log_likelihoods = mixture.mixture_log_likelihoods(rows, np.asarray(Q), 0.1, background)
    assert log_likelihoods.sum() == pytest.approx(one_by_one[0])


def test_the_fit_is_where_plain_em_ends():
    Q = TransitionMatrix.with_zeros(4, 2, seed=1)
    probs, labels, _ = draw(Q, 150, sharpness=1.5)
    prior = np.full((4, 4), 0.5)
    rows = mixture.Rows.group(probs, labels)
    start = np.asarray(TransitionMatrix.uniform(4))
    plain, epsilon = start, 0.05
    for _ in range(3000):
        counts, _, n_uninformative, _ = mixture.expect(rows, plain, epsilon)
        plain = mixture.normalise(counts + prior, plain, allow_diagonal=False)
        epsilon = max(1e-4, n_uninformative / 150)
    fit = mixture.fit_matrix(rows, start, prior_counts=prior, allow_diagonal=False)
    assert np.abs(fit.Q - plain).sum(axis=1).max() < 0.02


def weighted(probs, weights):
    found = probs * weights
    return found / found.sum(axis=1, keepdims=True)


def test_weights_of_classes_count_as_probabilities_that_are_multiplied():
    Q = TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1), seed=1)
    probs, labels, _ = draw(Q, 60)
    weights = np.array([0.2, 1.0, 3.0, 0.5])
    rows = mixture.Rows.group(probs, labels)
    found = mixture.expect(rows, np.asarray(Q), 0.1, weights)
    other = mixture.Rows.group(weighted(probs, weights), labels)
    multiplied = mixture.expect(other, np.asarray(Q), 0.1)
    np.testing.assert_allclose(found.counts, multiplied.counts, rtol=1e-12)
    assert found.n_uninformative == pytest.approx(multiplied.n_uninformative)
    assert found.log_likelihood == pytest.approx(multiplied.log_likelihood)
    share = np.bincount(labels, minlength=4) / 60
    named = 0
    for p, label in zip(weighted(probs, weights), labels, strict=True):
        informative = 0.9 * p @ np.asarray(Q)[:, label]
        named = named + p * informative / (informative + 0.1 * share[label])
    np.testing.assert_allclose(found.predicted, named, rtol=1e-12)


def test_fitted_weights_make_each_class_as_frequent_as_the_labels_say():
    Q = TransitionMatrix.with_zeros(5, 2, seed=1)
    probs, labels, _ = draw(Q, 4000, sharpness=2)
    lost = np.array([0.1, 1, 1, 1, 2.5])
    rows = mixture.Rows.group(weighted(probs, lost), labels)
    options = {"prior_counts": np.full((5, 5), 0.5), "allow_diagonal": False, "tolerance": 1e-6}
    fit = mixture.fit_matrix(rows, np.asarray(Q), fit_weights=True, **options)
    found = mixture.expect(rows, fit.Q, fit.epsilon, fit.weights)
    np.testing.assert_allclose(found.counts.sum(axis=1), found.predicted, atol=1)
    assert fit.log_likelihood > mixture.fit_matrix(rows, np.asarray(Q), **options).log_likelihood
    ratio = fit.weights * lost
    np.testing.assert_allclose(ratio / ratio.mean(), 1, atol=0.3)  # what was lost is given back


def test_a_temperature_is_that_of_the_logits():
    logits = np.random.default_rng(0).normal(size=(20, 5)) * 4
    np.testing.assert_allclose(mixture.Calibration(2.5)(softmax(logits)), softmax(logits / 2.5))
    tiny = np.array([[1 - 1e-300, 1e-300]])
    np.testing.assert_allclose(
        mixture.Calibration(100)(tiny)[0, 1], 10**-3 / (1 + 10**-3), rtol=1e-9
    )


# --- it helps -----------------------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "confidence", [0.5, 1.0, 2.5], ids=["underconfident", "calibrated", "overconfident"]
)
@pytest.mark.parametrize(
    "Q",
    [TransitionMatrix.without_zeros(5, (0.7, 0.3)), TransitionMatrix.with_zeros(5, 2)],
    ids=["without zeros", "with zeros"],
)
def test_an_estimate_that_is_off_comes_near(Q, confidence):
    probs, comp_labels, labels = draw(Q, 4000, sharpness=2.5, confidence=confidence)
    initial = blur(Q, 0.3)
    counts = np.zeros((5, 5))
    np.add.at(counts, (labels, comp_labels), 1)
    known = counts / counts.sum(axis=1, keepdims=True)  # from the true labels, if one had them
    found = refine(probs, comp_labels, initial)
    assert error(found, Q) < error(initial, Q) / 2
    assert error(found, Q) < error(known, Q) + 0.06


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.unmeasured
def test_probabilities_biased_against_a_class_do_not_bias_its_row(seed):
    Q = TransitionMatrix.without_zeros(5, (0.7, 0.3), seed=seed)
    probs, comp_labels, _ = draw(Q, 6000, sharpness=1.5, seed=seed)
    initial = blur(Q, 0.3, seed=seed)
    biased = weighted(probs, [0.05, 1, 1, 2, 1])
    assert biased.mean(axis=0)[0] < 0.07  # of a fifth
    found, with_all = (refine(each, comp_labels, initial) for each in (biased, probs))
    assert error(found, Q) < error(with_all, Q) + 0.03


def test_uniform_labels_give_exactly_the_uniform_matrix():
    Q = TransitionMatrix.uniform(5, classes=list("abcde"))
    for seed in range(3):
        probs, comp_labels, _ = draw(Q, 1500, sharpness=2.5, seed=seed)
        found = refine(probs, comp_labels, TransitionMatrix(np.asarray(blur(Q, 0.2)), Q.classes))
        assert found.is_uniform
        assert found.classes == Q.classes


def fitted_to(labels, comp_labels):
    """Fit the matrix under which these labels are most likely, given the true classes."""
    counts = np.zeros((5, 5))
    np.add.at(counts, (labels, comp_labels), 1)
    return TransitionMatrix(counts / counts.sum(axis=1, keepdims=True))


@pytest.mark.unmeasured
def test_a_nearly_uniform_matrix_fitted_to_the_labels_is_replaced_by_the_uniform_one():
    uniform = TransitionMatrix.uniform(5)
    kept = 0
    for seed in range(5):
        probs, comp_labels, labels = draw(uniform, 1500, sharpness=2.5, seed=seed)
        initial = fitted_to(labels, comp_labels)
        kept += refine(probs, comp_labels, initial) == initial
        assert refine(probs, comp_labels, initial, from_these_labels=True).is_uniform
    assert kept  # it would be, as it does explain the labels


@pytest.mark.unmeasured
def test_classes_that_networks_confuse_are_not_mistaken_for_a_bias_of_annotators():
    uniform = TransitionMatrix.uniform(10)
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=8_000)
    predicted = np.where(rng.random(8_000) < 0.35, (labels + 1) % 10, labels)
    probs = np.full((8_000, 10), 0.01)
    probs[np.arange(8_000), predicted] = 0.91  # overconfident
    comp_labels = uniform.sample(labels, seed=1000)
    assert refine(probs, comp_labels, uniform, from_these_labels=True).is_uniform
    # it would move otherwise: next classes are excluded too seldom
    assert error(refine(probs, comp_labels, uniform), uniform) > 0.1


@pytest.mark.unmeasured
def test_a_nearly_uniform_matrix_that_is_right_is_not_replaced():
    rows = np.array([0.34, 0.28, 0.22, 0.16])
    values = np.array([np.insert(np.roll(rows, k), k, 0) for k in range(5)])
    Q = TransitionMatrix(values)
    distance = np.abs(values - np.asarray(TransitionMatrix.uniform(5))).sum(axis=1).mean()
    assert distance < 0.3
    for seed in range(5):
        probs, comp_labels, labels = draw(Q, 1500, sharpness=2.5, seed=seed)
        initial = fitted_to(labels, comp_labels)
        found = refine(probs, comp_labels, initial, from_these_labels=True)
        assert error(found, Q) < distance / 2


@pytest.mark.unmeasured
def test_mistakes_are_found_and_stay_in_bounds():
    values = 0.9 * np.asarray(TransitionMatrix.with_zeros(4, 2)) + 0.1 * np.eye(4)
    Q = TransitionMatrix(values, allow_diagonal=True)
    probs, comp_labels, _ = draw(Q, 4000, sharpness=4)
    initial = TransitionMatrix(0.7 * values + 0.3 / 4, allow_diagonal=True)
    found = refine(probs, comp_labels, initial, allow_diagonal=True)
    np.testing.assert_allclose(np.asarray(found).diagonal(), 0.1, atol=0.03)
    contrary = refine(probs, probs.argmax(axis=1), initial, allow_diagonal=True)  # "not" missed
    assert np.asarray(contrary).diagonal().max() <= 0.5 + 1e-9


@pytest.mark.unmeasured
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_uniform_annotators_who_err_keep_one_rate_of_mistakes(rate):
    n_classes = 6
    uniform = np.asarray(TransitionMatrix.uniform(n_classes))
    Q = TransitionMatrix((1 - rate) * uniform + rate * np.eye(n_classes), allow_diagonal=True)
    for seed in range(3):
        probs, comp_labels, labels = draw(Q, 1500, seed=seed)
        initial = blur(TransitionMatrix.uniform(n_classes), 0.1, seed)
        initial = TransitionMatrix(0.9 * np.asarray(initial) + 0.1 * np.eye(6), allow_diagonal=True)
        found = np.asarray(
            refine(probs, comp_labels, initial, allow_diagonal=True, from_these_labels=True)
        )
        assert np.ptp(found.diagonal()) == pytest.approx(0)
        assert found[0, 0] == pytest.approx((comp_labels == labels).mean(), abs=0.015)
        assert np.ptp(found[~np.eye(n_classes, dtype=bool)]) == pytest.approx(0)


def test_what_a_scheme_never_offers_stays_zero_and_the_rest_is_estimated():
    scheme = TransitionMatrix.with_zeros(6, 3, seed=0)  # its shares are not those of the answers
    rng = np.random.default_rng(0)
    offered = np.asarray(scheme) > 0
    rows = np.where(offered, rng.dirichlet(np.ones(6), 6) + 0.05, 0)
    Q = TransitionMatrix(rows / rows.sum(axis=1, keepdims=True), list("abcdef"))
    probs, comp_labels, _ = draw(Q, 3000, sharpness=2)
    first = TransitionMatrix(np.asarray(blur(Q, 0.5)), list("abcdef"))
    restricted, free = (refine(probs, comp_labels, first, prior=prior) for prior in (scheme, None))
    assert (np.asarray(restricted)[~offered] == 0).all()
    assert (np.asarray(free)[~offered] > 0).any()
    assert error(restricted, Q) < error(free, Q)
    assert restricted.classes == Q.classes
    # too few labels to move: still nothing that the scheme rules out
    kept = refine(probs[:8], comp_labels[:8], first, prior=scheme)
    assert (np.asarray(kept)[~offered] == 0).all()


def test_rows_with_few_labels_are_pulled_to_the_prior():
    Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    labels = np.repeat([0, 1, 2], 500)  # class 3 never occurs
    initial = blur(Q, 0.5)
    prior = TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1), seed=3)
    found = refine(np.eye(4)[labels], Q.sample(labels), initial, prior=prior)
    np.testing.assert_allclose(np.asarray(found)[3], np.asarray(prior)[3], atol=1e-6)
    assert error(np.asarray(found)[:3], np.asarray(Q)[:3]) < 0.1


# --- it does not harm ---------------------------------------------------------------------------


@pytest.mark.parametrize("sharpness, confidence", [(4, 1), (2, 1), (1.2, 1), (2, 3), (2, 0.5)])
@pytest.mark.unmeasured
def test_a_good_estimate_does_not_get_worse(sharpness, confidence):
    before, after = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values = rng.dirichlet(np.full(5, rng.choice([0.3, 1, 5])), size=5) + 1e-3
        np.fill_diagonal(values, 0)
        Q = TransitionMatrix(values / values.sum(axis=1, keepdims=True))
        initial = blur(Q, (0.02, 0.1)[seed % 2], seed=seed)
        probs, comp_labels, _ = draw(Q, 400, sharpness=sharpness, confidence=confidence, seed=seed)
        before.append(error(initial, Q))
        after.append(error(refine(probs, comp_labels, initial, seed=seed), Q))
    assert np.mean(after) < np.mean(before) + 0.01


@pytest.mark.unmeasured
def test_probabilities_that_say_nothing_leave_the_estimate_nearly_as_it_is():
    for seed in range(5):
        Q = TransitionMatrix.with_zeros(5, 2, seed=seed)
        _, comp_labels, _ = draw(Q, 1000, seed=50 + seed)
        initial = blur(Q, 0.1, seed=seed)
        found = refine(np.full((1000, 5), 0.2), comp_labels, initial)
        assert error(found, initial) < 0.1  # how often each label occurs is known all the same
        assert error(found, Q) < error(initial, Q) + 0.05


@settings(max_examples=4)
@given(order=st.permutations(range(4)), seed=st.integers(0, 100))
@pytest.mark.unmeasured
def test_property_renaming_classes_renames_the_result(order, seed):
    order = np.array(order)
    Q = TransitionMatrix.with_zeros(4, 2, seed=seed)
    probs, comp_labels, _ = draw(Q, 200, seed=seed)
    initial = np.asarray(blur(Q, 0.3, seed=seed))
    found = np.asarray(refine(probs, comp_labels, initial))
    renamed = refine(probs[:, order], np.argsort(order)[comp_labels], initial[np.ix_(order, order)])
    np.testing.assert_allclose(np.asarray(renamed), found[np.ix_(order, order)], atol=1e-6)


def test_single_precision_and_a_fortran_array_give_the_same():
    Q = TransitionMatrix.with_zeros(5, 2)
    probs, comp_labels, _ = draw(Q, 1000)
    found = refine(probs, comp_labels, blur(Q, 0.3))
    single = np.asfortranarray(probs.astype(np.float32))
    np.testing.assert_allclose(refine(single, comp_labels, blur(Q, 0.3)), found, atol=1e-3)


def test_names_and_what_was_given_stay():
    Q = TransitionMatrix([[0, 0.9, 0.1], [0.4, 0, 0.6], [1, 0, 0]], ["cat", "dog", "owl"])
    probs, comp_labels, _ = draw(Q, 500)
    copy = probs.copy()
    found = refine(probs, np.array(Q.classes)[comp_labels], Q)
    assert found.classes == Q.classes
    np.testing.assert_array_equal(probs, copy)
    assert refine(probs[:2], comp_labels[:2], Q) == Q  # two labels say nothing


@pytest.mark.parametrize(
    "probs, labels, initial, kind, wording",
    [
        (np.eye(3), [0, 1], np.eye(3)[[1, 2, 0]], InvalidLabels, r"one label per row of probs"),
        (np.zeros((0, 3)), [], np.eye(3)[[1, 2, 0]], InvalidLabels, "and at least one"),
        (np.eye(2), [0, 1], np.eye(3)[[1, 2, 0]], InvalidInput, r"shape \(n, 3\)"),
        (np.eye(2) * 3, [0, 1], np.eye(2)[[1, 0]], InvalidInput, "rows that sum to 1"),
        (np.eye(2, dtype=np.float32) * 3, [0, 1], np.eye(2)[[1, 0]], InvalidInput, "sum to 1"),
        (np.eye(2), [0, 2], np.eye(2)[[1, 0]], InvalidLabels, r"integers 0\.\.1"),
        (np.eye(2), [0, 1], np.eye(2), InvalidTransitionMatrix, "zero diagonal"),
    ],
)
def test_input_that_does_not_fit_is_refused(probs, labels, initial, kind, wording):
    with pytest.raises(kind, match=wording):
        refine(probs, labels, initial)


@pytest.mark.unmeasured
def test_the_right_matrix_is_kept_where_labels_are_few():
    # held-out label frequencies as b would leak labels and favour the uniform matrix
    lost = []
    for seed in range(2):  # then the uniform matrix would win in each
        Q = TransitionMatrix.without_zeros(20, seed=seed)
        probs, comp_labels, _ = draw(Q, 100, sharpness=2.5, seed=100 + seed)
        lost.append(error(refine(probs, comp_labels, Q), Q))
    assert np.mean(lost) < 0.05
    assert error(TransitionMatrix.uniform(20), Q) > 0.4


def test_a_row_that_is_no_probability_is_named_by_its_number_in_a_long_array_too():
    probs = np.full((60_000, 3), 1 / 3, dtype=np.float32)
    probs[55_000] = 0.5
    with pytest.raises(InvalidInput, match=r"row 55000 sums to 1\.5"):
        refine(probs, np.zeros(60_000, dtype=int), TransitionMatrix.uniform(3))
    with pytest.raises(InvalidInput, match="probs must be an array of numbers"):
        refine([[0.5, 0.5], [1.0]], [0, 1], TransitionMatrix.uniform(2))
