"""Lists of classes that are stored once each are the sequence that they were made from."""

import numpy as np
import pytest

from naysay._base.choices import Choices

LISTS = [("cat", "owl"), None, ("cat", "owl"), ("dog", "cat", "owl"), None]


def test_a_sequence_of_lists_is_what_it_was_made_from():
    offered = Choices.of([None if each is None else list(each) for each in LISTS])
    assert offered.lists == (("cat", "owl"), ("dog", "cat", "owl"))
    assert offered.tolist() == list(offered) == np.asarray(offered).tolist() == LISTS
    assert (len(offered), offered.shape, offered[3], offered[-1]) == (5, (5,), LISTS[3], None)
    assert Choices.of(offered) is offered


@pytest.mark.parametrize(
    "answers",
    [np.array([3, 0]), np.array([True, False, False, True, True]), np.zeros(0, int), slice(1, 4)],
)
def test_answers_are_selected_as_numpy_does(answers):
    expected = np.asarray(Choices.of(LISTS))[answers].tolist()
    assert Choices.of(LISTS)[answers].tolist() == expected
    if not isinstance(answers, slice) and answers.dtype != bool:
        assert Choices.of(LISTS).take(answers).tolist() == expected
