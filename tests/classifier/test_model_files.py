"""Model files: what is saved is loaded again."""

import json
import stat

import numpy as np
import pytest
import torch

from naysay import InvalidModelFile, TransitionMatrix
from naysay.classifier.model_files import load_model, save_model
from naysay.networks import MLP
from saved_models import NAMED, Tied, X, change_facts, files_below, make_model, save


@pytest.mark.parametrize(
    "transition",
    [
        NAMED,
        TransitionMatrix.uniform(3),
        TransitionMatrix.uniform(3, classes=["cat", "dog", "owl"]),
        TransitionMatrix.without_zeros(10),
        TransitionMatrix.with_zeros(1500, 3),
        TransitionMatrix.human("clcifar10"),
        TransitionMatrix(np.eye(4), allow_diagonal=True),
    ],
    ids=repr,
)
def test_a_model_saved_is_loaded_whole(tmp_path, transition):
    model = save(tmp_path / "model", transition=transition)
    twin = load_model(tmp_path / "model")
    assert twin.transition == transition
    assert twin.transition.classes == transition.classes
    assert twin.transition.is_uniform == transition.is_uniform
    assert twin.transition.allow_diagonal == transition.allow_diagonal
    np.testing.assert_array_equal(twin.classes, model.classes)
    assert twin.input_shape == model.input_shape
    assert twin.parameters == model.parameters
    assert twin.history == model.history
    assert twin.feature_names == model.feature_names
    assert not twin.network.training
    assert twin.network.arguments == model.network.arguments
    with torch.no_grad():
        assert torch.equal(twin.network(X), model.network(X))


@pytest.mark.parametrize(
    "classes", [np.array([3, 1, 2]), np.array(["a", "b", "c"]), np.array([0.5, 1.5, 2.5])]
)
def test_classes_of_any_plain_kind_come_back_as_they_were(tmp_path, classes):
    save(tmp_path / "model", classes=classes)
    found = load_model(tmp_path / "model").classes
    assert found.dtype.kind == classes.dtype.kind
    np.testing.assert_array_equal(found, classes)


def test_the_state_of_the_loss_is_saved_beside_the_network(tmp_path):
    state = {"row_logits": torch.rand(3, 3), "prior": torch.rand(3, dtype=torch.float64)}
    save(tmp_path / "model", loss_state=state)
    twin = load_model(tmp_path / "model")
    assert twin.loss_state.keys() == state.keys()
    assert all(torch.equal(twin.loss_state[name], state[name]) for name in state)
    save(tmp_path / "older")
    assert load_model(tmp_path / "older").loss_state == {}


def test_the_matrix_of_every_annotator_is_saved(tmp_path):
    habits = {
        "ann": NAMED,
        "bob 2": TransitionMatrix.uniform(3),
        "0": TransitionMatrix(np.full((3, 3), 1 / 3), allow_diagonal=True),
    }
    save(tmp_path / "model", transitions=habits)
    twin = load_model(tmp_path / "model")
    assert twin.transition == NAMED
    assert list(twin.transitions) == list(habits)
    assert all(twin.transitions[name] == Q for name, Q in habits.items())
    assert twin.transitions["bob 2"].is_uniform


def test_files_from_before_annotators_had_matrices_are_still_read(tmp_path):
    save(tmp_path / "model")

    def older(facts):
        assert facts.pop("transitions") == []

    change_facts(tmp_path / "model", older)
    assert load_model(tmp_path / "model").transitions == {}


def test_a_model_without_feature_names_has_none_again(tmp_path):
    save(tmp_path / "model", feature_names=None)
    assert load_model(tmp_path / "model").feature_names is None


def test_a_network_of_your_own_is_asked_for_and_loaded(tmp_path):
    model = save(tmp_path / "model", network=Tied().eval())
    with pytest.raises(InvalidModelFile, match=r"network of your own.*Pass it: load\(path, networ"):
        load_model(tmp_path / "model")
    torch.manual_seed(1)
    blank = Tied()
    by_module = load_model(tmp_path / "model", network=blank).network
    by_factory = load_model(
        tmp_path / "model", network=lambda shape, n_classes: Tied(*shape, n_classes)
    ).network
    with torch.no_grad():
        for network in (by_module, by_factory):
            assert torch.equal(network(X), model.network(X))
            assert network.steps == 7
        assert not torch.equal(blank(X), model.network(X))  # the one passed is not changed


def test_a_class_of_your_own_called_mlp_is_not_mistaken_for_ours(tmp_path):
    own = type("MLP", (Tied,), {})
    save(tmp_path / "model", network=own())
    assert json.loads((tmp_path / "model" / "model.json").read_text("utf-8"))["network"] is None


def test_another_network_than_the_one_saved_is_refused(tmp_path):
    save(tmp_path / "model", network=Tied())
    with pytest.raises(InvalidModelFile, match="Its parts do not fit together"):
        load_model(tmp_path / "model", network=Tied(7))


def test_parts_of_larger_tensors_and_transposed_ones_are_saved_by_value(tmp_path):
    network = MLP((6,), 3, widths=(6,))
    weight = network.layers[0].weight
    weight.data = torch.randn(60, 6, generator=torch.Generator().manual_seed(1))[:6].T
    save(tmp_path / "model", network=network.eval())
    assert (tmp_path / "model" / "model.safetensors").stat().st_size < 4000
    twin = load_model(tmp_path / "model").network
    assert torch.equal(twin.layers[0].weight, weight)


def test_the_folder_holds_two_files_and_no_pickle(tmp_path):
    save(tmp_path / "model")
    assert files_below(tmp_path) == ["model", "model/model.json", "model/model.safetensors"]
    facts = json.loads((tmp_path / "model" / "model.json").read_text("utf-8"))
    assert facts["format"] == "naysay model"
    assert facts["version"] == 2
    assert facts["written_by"] == "naysay 0.1.0"


def test_parents_are_made_and_others_may_read_what_they_may_read_elsewhere(tmp_path):
    save(tmp_path / "deep" / "down" / "model")
    mode = (tmp_path / "deep" / "down" / "model").stat().st_mode
    assert stat.S_IMODE(mode) == stat.S_IMODE((tmp_path / "deep").stat().st_mode)


def test_a_file_of_version_1_is_still_read(tmp_path):
    model = save(tmp_path / "model")

    def older(facts):
        facts["version"] = 1
        for name in ("sha256", "preprocessing", "provenance"):
            del facts[name]

    change_facts(tmp_path / "model", older)
    twin = load_model(tmp_path / "model")
    assert twin.preprocessing is twin.provenance is None
    with torch.no_grad():
        assert torch.equal(twin.network(X), model.network(X))


def test_preprocessing_provenance_and_report_are_kept_beside_the_weights(tmp_path):
    model = make_model(preprocessing={"kind": "table"}, provenance={"seed": 3})
    save_model(model, tmp_path / "model", version="0.1.0", report="<p>ünder")
    twin = load_model(tmp_path / "model")
    assert (twin.preprocessing, twin.provenance) == ({"kind": "table"}, {"seed": 3})
    assert (tmp_path / "model" / "report.html").read_text("utf-8") == "<p>ünder"
    save_model(model, tmp_path / "model", version="0.1.0")  # the page of the older model goes
    assert files_below(tmp_path) == ["model", "model/model.json", "model/model.safetensors"]
