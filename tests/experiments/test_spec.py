"""A spec means the same run, and has the same hash, however and wherever it is written."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naysay import InvalidData, InvalidInput
from naysay.experiments.spec import RunSpec

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(-1e9, 1e9)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


def make_spec(**changes):
    fields = {
        "dataset": "mnist",
        "setting": "with0",
        "method": "forward",
        "knows": "true Q",
        "recipe": "paper",
        "options": {"lr": 0.01, "epochs": 5},
    }
    return RunSpec(**{**fields, **changes})


def test_hash_is_the_one_that_files_hold():
    # written down once: if this fails, every record on file has lost its run
    assert make_spec().hash == "a21b9aaf3e88d8ad"


def test_hash_is_the_same_in_another_process_with_other_hash_randomisation():
    program = (
        "from naysay.experiments.spec import RunSpec; import json, sys; "
        "print(RunSpec.from_json(json.loads(sys.argv[1])).hash)"
    )
    spec = make_spec(options={"b": [1, {"z": 1, "a": "é"}], "a": 1e-4})
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(spec.as_json())],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == spec.hash


@given(options=st.dictionaries(st.text(max_size=8), plain, max_size=4), data=st.data())
def test_order_of_fields_and_options_does_not_matter(options, data):
    spec = make_spec(options=options)
    shuffled = dict(data.draw(st.permutations(list(options.items()))))
    fields = dict(data.draw(st.permutations(list(make_spec(options=shuffled).as_json().items()))))
    again = RunSpec.from_json(json.loads(json.dumps(fields)))
    assert again == spec
    assert again.hash == spec.hash
    assert hash(again) == hash(spec)


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "usps"},
        {"setting": "uniform"},
        {"method": "pc"},
        {"knows": "no Q"},
        {"recipe": "best"},
        {"trial": 1},
        {"classes": "1 ~ 5"},
        {"n_train": 100},
        {"n_test": 100},
        {"anchors": 10},
        {"options": {"lr": 0.02, "epochs": 5}},
        {"options": {"lr": 0.01}},
    ],
    ids=str,
)
def test_every_change_changes_the_hash(change):
    assert make_spec(**change).hash != make_spec().hash
    assert make_spec(**change) != make_spec()


def test_one_and_one_point_zero_are_one_value_and_a_tuple_is_a_list():
    assert make_spec(options={"clip": 1.0, "s": (1, 2)}) == make_spec(
        options={"clip": 1, "s": [1, 2]}
    )
    assert make_spec(options={"a": True}) != make_spec(options={"a": False})


def test_trials_share_a_group_and_nothing_else_does():
    assert make_spec(trial=3).group == make_spec().group
    assert make_spec(trial=3, method="pc").group != make_spec().group


def test_options_cannot_be_changed_from_outside():
    options = {"lr": 0.1, "steps": [1, 2]}
    spec = make_spec(options=options)
    before = spec.hash
    options["lr"] = 0.2
    options["steps"].append(3)
    assert spec.hash == before
    with pytest.raises(TypeError):
        spec.options["lr"] = 0.3
    assert replace(spec, trial=1).options == spec.options


def test_a_field_left_out_is_not_written_so_that_later_fields_change_no_hash():
    assert "n_train" not in make_spec().as_json()


def test_bad_specs_are_refused():
    with pytest.raises(InvalidInput, match="knows must be one of"):
        make_spec(knows="everything")
    with pytest.raises(InvalidInput, match="trial must be an integer"):
        make_spec(trial=-1)
    with pytest.raises(InvalidInput, match="values that JSON can represent"):
        make_spec(options={"lr": float("nan")})
    with pytest.raises(InvalidInput, match="values that JSON can represent"):
        make_spec(options={"network": object()})
    with pytest.raises(InvalidData, match="not a spec of a run"):
        RunSpec.from_json({"dataset": "mnist", "colour": "blue"})
