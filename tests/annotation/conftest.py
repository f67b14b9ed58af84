"""Fixtures of the tests of annotation tasks."""

import pytest

from naysay._base import task_tables


@pytest.fixture(autouse=True)
def no_flush(monkeypatch):
    """Do not wait for the disk; that answers survive a kill does not need it."""
    monkeypatch.setattr(task_tables, "_SYNCHRONOUS", "OFF")
