"""What ``import naysay`` promises."""

import importlib
import subprocess
import sys

import pytest

import naysay
from naysay._base.versions import MOVED


def test_public_names_are_sorted_and_all_load():
    assert naysay.__all__ == sorted(naysay.__all__)
    for name in naysay.__all__:
        assert getattr(naysay, name) is not None
    assert set(naysay.__all__) <= set(dir(naysay))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Classifier'"):
        naysay.Classifier  # noqa: B018  (the access itself is under test)


@pytest.mark.unmeasured
def test_import_does_not_load_what_it_does_not_need():
    heavy = ("torch", "sklearn", "scipy")
    code = f"import sys, naysay; print([m for m in {heavy} if m in sys.modules])"
    # training needs torch's compiler, which takes a second to load, but predictions do not
    code += "; import naysay.classifier; print('torch._dynamo' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["[]", "False"]


@pytest.mark.parametrize("old, new", MOVED.items())
def test_modules_that_have_moved_are_found_by_their_old_names(old, new):
    sys.modules.pop(old, None)  # warned of once in a process
    with pytest.warns(DeprecationWarning, match=rf"{old} has moved to {new}"):
        found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__spec__.name == new
    parent, _, name = old.rpartition(".")
    assert getattr(importlib.import_module(parent), name) is found
