"""The accuracy estimated without true labels, on the true labels of MNIST."""

import numpy as np
import pytest

from naysay import TransitionMatrix, datasets, metrics


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "Q, n_draws",
    [
        (TransitionMatrix.uniform(10), 200),
        (TransitionMatrix.without_zeros(10), 1000),
        (TransitionMatrix.with_zeros(10), 300),
    ],
    ids=["uniform", "without0", "with0"],
)
def test_the_mean_over_many_draws_is_the_true_accuracy_to_a_fifth_of_a_point(
    official_data, Q, n_draws
):
    true = datasets.load("mnist", data_dir=official_data, download=False).test.y
    rng = np.random.default_rng(0)
    mistaken = np.array([6, 7, 3, 5, 9, 3, 0, 1, 3, 4])[true]  # as digits are mistaken
    predictions = np.where(rng.random(len(true)) < 0.9, true, mistaken)
    # the estimate is a mean over examples, so that of all draws at once is the mean over draws
    labels = Q.sample(np.tile(true, n_draws), seed=rng)
    found = metrics.accuracy_without_labels(np.tile(predictions, n_draws), labels, Q)
    assert found.value == pytest.approx((predictions == true).mean(), abs=0.002)
    single = [
        metrics.accuracy_without_labels(predictions, draw, Q).value
        for draw in labels.reshape(n_draws, -1)[:20]
    ]
    assert np.std(single) / np.sqrt(n_draws) < 0.002 / 2  # enough draws to tell
