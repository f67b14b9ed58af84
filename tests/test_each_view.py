"""An augmentation for each view: which makes which, and trainings with them."""

import pytest

from naysay import InvalidInput
from naysay.augmentation import crop, flip, of_each_view


def test_one_augmentation_makes_all_views_and_the_last_of_several_the_rest():
    assert of_each_view(crop, 3) == (crop, crop, crop)
    assert of_each_view((crop, flip), 1) == (crop,)
    assert of_each_view([crop, flip], 2) == (crop, flip)
    assert of_each_view([crop, flip], 4) == (crop, flip, flip, flip)
    assert of_each_view([crop], 2) == (crop, crop)


@pytest.mark.parametrize(
    "augments, shown",
    [
        ([], "an empty one"),
        ((), "an empty one"),
        ("flip", "'flip'"),
        ([crop, "flip"], "'flip'"),
        (3, "3"),
    ],
)
def test_what_makes_no_view_is_refused(augments, shown):
    message = rf"augment must be a callable.*, or a list of them, one for each view\. Got .*{shown}"
    with pytest.raises(InvalidInput, match=message):
        of_each_view(augments, 2)
