"""The rate of mistaken answers in a log, by known classes and repeated questions."""

import numpy as np
import pytest

from naysay import InvalidInput, InvalidLabels
from naysay.observations import Observations, from_log
from naysay.quality import mistakes_in_log


@pytest.mark.parametrize("repeated", [False, True])
def test_intervals_cover_the_rate(repeated):
    rng, hits = np.random.default_rng(0), 0
    for _ in range(100):
        true, named = rng.integers(4, size=(2, 150))
        example = np.arange(150)
        if repeated:
            example, named = np.tile(example, 2), np.tile(named, 2)
        said = (named == true[example]) ^ (rng.random(len(named)) < 0.05)
        log = from_log(named, said, example=example)
        found = mistakes_in_log(log, np.full(150, -1) if repeated else true)
        hits += found.interval[0] <= 0.05 <= found.interval[1]
    assert 89 <= hits <= 100


def test_without_known_classes_or_repeated_questions_there_is_no_rate():
    log = from_log([0, 1], [1, 0])
    assert mistakes_in_log(log, [-1, -1]) is None
    assert mistakes_in_log(Observations(example=[0], label=[1]), [0]) is None
    with pytest.raises(InvalidInput, match=r"shape \(2,\)"):
        mistakes_in_log(log, [0])


def test_names_are_refused_because_they_equal_no_index():
    log = from_log(["ant", "bee", "ant"], [1, 0, 1], example=[0, 0, 1])
    with pytest.raises(InvalidLabels, match=r"labels of observations must be classes by index"):
        mistakes_in_log(log, [0, 1])
    log = from_log([0, 1, 0], [1, 0, 1], example=[0, 0, 1])
    with pytest.raises(InvalidLabels, match=r"true_labels must be classes by index\. Got <U3"):
        mistakes_in_log(log, ["ant", "bee"])
