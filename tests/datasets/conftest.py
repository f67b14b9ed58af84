"""Tests of data sets never look into the data folder of whoever runs them."""

import pytest


@pytest.fixture(autouse=True)
def _no_data_of_the_user(no_data_of_the_user):
    pass
