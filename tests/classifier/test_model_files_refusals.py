"""Model files that are damaged, foreign or do not fit together are refused."""

import copy
import os
import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from naysay import InvalidModelFile, NaysayError, TransitionMatrix
from naysay.classifier.model_files import load_model
from naysay.networks import MLP, Forest
from saved_models import change_facts, change_tensors, save


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda facts: facts["transitions"][0].pop("annotator"), "do not fit together"),
        (lambda facts: facts["transitions"][0].update(uniform=False), "do not fit together"),
        (lambda facts: facts.update(transitions=7), "do not fit together"),
        (
            lambda facts: facts["transitions"][0].update(names=["a", "b"]),
            r"do not fit together: .* different sizes, \[2, 3\]",
        ),
    ],
)
def test_a_broken_matrix_of_an_annotator_is_refused(tmp_path, change, message):
    save(tmp_path / "model", transitions={"ann": TransitionMatrix.uniform(3)})
    change_facts(tmp_path / "model", change)
    with pytest.raises(InvalidModelFile, match=message):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"format": "naysay model"', b"\xff\xfe\x00", b"[" * 100_000, b"9" * 10_000],
    ids=["empty", "brace", "cut", "not text", "deep", "long number"],
)
def test_a_description_that_cannot_be_read_is_refused(tmp_path, content):
    save(tmp_path / "model")
    (tmp_path / "model" / "model.json").write_bytes(content)
    with pytest.raises(InvalidModelFile, match=r"(readable model\.json|describe a naysay model)"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("facts", ["[]", "null", "3", '{"format": "layers-model"}', "{}"])
def test_the_description_of_something_else_is_refused(tmp_path, facts):
    save(tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text(facts)
    with pytest.raises(InvalidModelFile, match=r"model\.json must describe a naysay model"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("version", [0, 3, "1", None])
def test_another_version_of_the_format_is_refused_with_its_writer(tmp_path, version):
    save(tmp_path / "model")
    change_facts(tmp_path / "model", lambda facts: facts.update(version=version))
    message = rf"version 2 or older\. It is of version {version!r}, written by 'naysay 0\.1\.0'"
    with pytest.raises(InvalidModelFile, match=message):
        load_model(tmp_path / "model")


def test_a_flipped_bit_in_the_weights_is_noticed(tmp_path):
    save(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidModelFile, match="content is not what was written"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "arguments",
    [{"widths": [10**9]}, {"widths": [300_000] * 4}, {"input_shape": [10**12]}],
    ids=str,
)
def test_a_file_that_claims_huge_sizes_takes_no_memory(tmp_path, arguments):
    save(tmp_path / "model")
    change_facts(tmp_path / "model", lambda facts: facts["network"]["arguments"].update(arguments))
    with pytest.raises(InvalidModelFile, match="do not fit together"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_in_place_of_a_file_is_refused(tmp_path, name):
    save(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    os.mkfifo(tmp_path / "model" / name)
    with pytest.raises(NaysayError, match="must be an ordinary file"):
        load_model(tmp_path / "model")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidModelFile, match=r"must be a model folder with a readable model\.js"):
        load_model(tmp_path / "none")


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_weights_that_are_cut_short_are_refused(tmp_path, keep):
    save(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(InvalidModelFile, match=r"whole model\.safetensors.*Save the model again"):
        load_model(tmp_path / "model")


def test_weights_that_are_missing_are_refused(tmp_path):
    save(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(InvalidModelFile, match=r"must contain a whole model\.safetensors"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.pop("classes"),
        lambda facts: facts.pop("transition"),
        lambda facts: facts.pop("network"),
        lambda facts: facts.update(network={"name": "Transformer", "arguments": {}}),
        lambda facts: facts.update(network={"name": "MLP", "arguments": {"depth": 3}}),
        lambda facts: facts["network"]["arguments"].update(widths=[5]),
        lambda facts: facts["network"]["arguments"].update(input_shape=[10**30]),
        lambda facts: facts["network"]["arguments"].update(input_shape=[float("inf")]),
        lambda facts: facts["network"]["arguments"].update(dropout=7),
        lambda facts: facts["transition"].update(names=["a", "a", "b"]),
        lambda facts: facts["transition"].update(names=["a", "b"]),
        lambda facts: facts["transition"].update(names=3),
        lambda facts: facts.update(classes=[[1, 2], [3]]),
        lambda facts: facts.update(input_shape=None),
        lambda facts: facts.update(history=3),
        lambda facts: facts.update(parameters=None),
    ],
)
def test_facts_that_do_not_fit_together_are_refused(tmp_path, change):
    save(tmp_path / "model")
    change_facts(tmp_path / "model", change)
    with pytest.raises(InvalidModelFile, match="Its parts do not fit together"):
        load_model(tmp_path / "model")


def test_classes_and_rows_must_be_as_many(tmp_path):
    save(tmp_path / "model")
    change_facts(tmp_path / "model", lambda facts: facts.update(classes=["a", "b"]))
    with pytest.raises(InvalidModelFile, match=r"different sizes, \[2, 3\]"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop("network.mean"),
        lambda tensors: tensors.pop("transition.data"),
        lambda tensors: tensors.update({"network.extra": torch.zeros(1)}),
        lambda tensors: tensors.update({"network.mean": torch.zeros(9)}),
        lambda tensors: tensors["transition.data"].mul_(2),
        lambda tensors: tensors["transition.data"].fill_(float("nan")),
        lambda tensors: tensors["transition.indices"].fill_(99),
        lambda tensors: tensors["transition.indices"].fill_(-1),
        lambda tensors: tensors["transition.indptr"].fill_(7),
        lambda tensors: tensors.update({"transition.indptr": torch.zeros(1, dtype=torch.int32)}),
        lambda tensors: tensors.update({"transition.data": torch.zeros(5, dtype=torch.bfloat16)}),
    ],
)
def test_tensors_that_do_not_fit_together_are_refused(tmp_path, change):
    save(tmp_path / "model")
    change_tensors(tmp_path / "model", change)
    with pytest.raises(InvalidModelFile, match="Its parts do not fit together"):
        load_model(tmp_path / "model")


@pytest.mark.unmeasured
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    path=st.sampled_from(
        [
            ("classes",),
            ("transition",),
            ("transition", "names"),
            ("transition", "uniform"),
            ("transition", "allow_diagonal"),
            ("network",),
            ("network", "name"),
            ("network", "arguments"),
            ("network", "arguments", "widths"),
            ("network", "arguments", "n_classes"),
            ("input_shape",),
            ("parameters",),
            ("history",),
        ]
    ),
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=4,
    ),
)
def test_property_any_change_of_the_facts_is_loaded_or_clearly_refused(tmp_path, path, value):
    folder = tmp_path / "model"
    save(folder)

    def change(facts):
        *parents, last = path
        for key in parents:
            facts = facts[key]
        facts[last] = copy.deepcopy(value)

    change_facts(folder, change)
    try:
        model = load_model(folder)
    except NaysayError:
        return
    assert len(model.classes) == model.transition.n_classes


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_network_of_very_many_layers_is_refused_at_once(tmp_path, is_nested):
    save(tmp_path / "model")
    many = {"widths": [1] * 100_000}
    change_facts(
        tmp_path / "model",
        lambda facts: facts["network"]["arguments"].update(
            {"members": [["MLP", many]]} if is_nested else many
        ),
    )
    start = time.process_time()
    with pytest.raises(InvalidModelFile, match="an argument of the network has 100000 entries"):
        load_model(tmp_path / "model")
    assert time.process_time() - start < 2


def forest():
    """A tree that compares the first input with 0."""
    network = Forest((6,), 3, n_trees=1, n_nodes=3, depth=1)
    network.left.copy_(torch.tensor([1, 1, 2]))
    network.right.copy_(torch.tensor([2, 1, 2]))
    return network.eval()


@pytest.mark.parametrize(
    "name, place, value",
    [("feature", 0, 6), ("left", 2, 2**50), ("right", 2, -1), ("root", 0, 3), ("feature", 1, -9)],
)
def test_a_tree_with_a_node_that_does_not_exist_is_refused(tmp_path, name, place, value):
    save(tmp_path / "model", network=forest())
    load_model(tmp_path / "model")

    def change(tensors):
        tensors[f"network.{name}"][place] = value

    change_tensors(tmp_path / "model", change)
    with pytest.raises(InvalidModelFile, match="parts do not fit together"):
        load_model(tmp_path / "model")


def test_a_tree_of_enormous_depth_is_refused_at_once(tmp_path):
    save(tmp_path / "model", network=forest())

    def change(facts):
        facts["network"]["arguments"]["depth"] = 10**12

    change_facts(tmp_path / "model", change)
    with pytest.raises(InvalidModelFile, match="depth must be at most n_nodes, 3"):
        load_model(tmp_path / "model")


def test_a_model_of_a_table_is_tried_out_without_the_compiler_of_torch(tmp_path, monkeypatch):
    """To run a network without weights, torch loads its compiler, which takes a second."""
    save(tmp_path / "model")
    devices = []

    def note(self, inputs):
        devices.append(inputs.device.type)
        return torch.zeros(1, 3)

    monkeypatch.setattr(MLP, "forward", note)
    load_model(tmp_path / "model")
    assert devices == ["cpu"]


def test_weights_are_mapped_and_not_read_whole(tmp_path, monkeypatch):
    save(tmp_path / "model")
    monkeypatch.setattr(type(tmp_path), "read_bytes", None)
    assert load_model(tmp_path / "model").classes.shape == (3,)
