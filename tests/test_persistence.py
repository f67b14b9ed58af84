"""Model files: written whole or not at all, read with care."""

import copy
import hashlib
import json
import stat

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from naysay import InvalidInput, InvalidModelFile, NaysayError, TransitionMatrix, persistence
from naysay.networks import MLP
from naysay.persistence import SavedModel, load_model, save_model

X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
NAMED = TransitionMatrix([[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]], ["cat", 'd"og', "öwl,\n"])


class Tied(nn.Module):
    """A network of the user's own, two of whose layers share a weight."""

    def __init__(self, n_inputs=6, n_classes=3):
        super().__init__()
        self.first = nn.Linear(n_inputs, n_inputs)
        self.second = nn.Linear(n_inputs, n_inputs)
        self.second.weight = self.first.weight
        self.last = nn.Linear(n_inputs, n_classes)
        self.register_buffer("steps", torch.tensor(7))

    def forward(self, inputs):
        return self.last(self.second(self.first(inputs).relu()))


def make_model(**changes):
    torch.manual_seed(0)
    transition = changes.get("transition", NAMED)
    network = MLP((6,), transition.n_classes, widths=(4,))
    nn.init.normal_(network.layers[-1].weight)
    network.standardise(X)
    facts = {
        "network": network.eval(),
        "classes": np.array([f"class {i}" for i in range(transition.n_classes)]),
        "transition": transition,
        "input_shape": (6,),
        "parameters": {"lr": 0.001, "classes": None, "method": "forward"},
        "history": [{"epoch": 1, "loss": 0.5, "seconds": 0.1}],
        "feature_names": ["a", "b", "c", "d", "e", "f"],
    }
    return SavedModel(**{**facts, **changes})


def save(folder, **changes):
    model = make_model(**changes)
    save_model(model, folder, version="0.1.0")
    return model


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# --- round trip ---------------------------------------------------------------------------------


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
    file = tmp_path / "model" / "model.json"
    facts = json.loads(file.read_text("utf-8"))
    assert facts.pop("transitions") == []
    file.write_text(json.dumps(facts), "utf-8")
    assert load_model(tmp_path / "model").transitions == {}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda facts: facts["transitions"][0].pop("annotator"), "do not fit together"),
        (lambda facts: facts["transitions"][0].update(uniform=False), "do not fit together"),
        (lambda facts: facts.update(transitions=7), "do not fit together"),
        (
            lambda facts: facts["transitions"][0].update(names=["a", "b"]),
            "That of annotator 'ann' has 2, not 3",
        ),
    ],
)
def test_a_broken_matrix_of_an_annotator_is_refused(tmp_path, change, message):
    save(tmp_path / "model", transitions={"ann": TransitionMatrix.uniform(3)})
    file = tmp_path / "model" / "model.json"
    facts = json.loads(file.read_text("utf-8"))
    change(facts)
    file.write_text(json.dumps(facts), "utf-8")
    with pytest.raises(InvalidModelFile, match=message):
        load_model(tmp_path / "model")


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


# --- what is replaced, and what is not ----------------------------------------------------------


def test_an_older_model_is_replaced(tmp_path):
    save(tmp_path / "model", transition=TransitionMatrix.without_zeros(10))
    save(tmp_path / "model")
    assert load_model(tmp_path / "model").transition == NAMED
    assert files_below(tmp_path) == ["model", "model/model.json", "model/model.safetensors"]


def foreign_file(target):
    target.write_text("a letter")


def foreign_folder(target):
    target.mkdir()
    (target / "letter.txt").write_text("dear")


def model_of_another_tool(target):
    target.mkdir()
    (target / "model.json").write_text('{"format": "layers-model"}')


def damaged_description(target):
    target.mkdir()
    (target / "model.json").write_text("{")


def model_with_notes_beside(target):
    save(target)
    (target / "notes.txt").write_text("mine")


@pytest.mark.parametrize(
    "make",
    [
        foreign_file,
        foreign_folder,
        model_of_another_tool,
        damaged_description,
        model_with_notes_beside,
    ],
)
def test_what_is_not_a_model_of_ours_is_refused_and_left_untouched(tmp_path, make):
    target = tmp_path / "model"
    make(target)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInput, match="exists and is neither; nothing was written"):
        save(target)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "model").mkdir()
    save(tmp_path / "model")
    assert load_model(tmp_path / "model").transition == NAMED


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_midway_leaves_nothing_half_written(
    tmp_path, monkeypatch, older, failure
):
    if older:
        save(tmp_path / "model")
    before = files_below(tmp_path)

    def fail(path, *_):  # the weights are written, the description is not
        path.write_bytes(b"half")
        raise failure

    monkeypatch.setattr(persistence.Path, "write_text", fail)
    with pytest.raises(type(failure)):
        save(tmp_path / "model", transition=TransitionMatrix.uniform(3))
    assert files_below(tmp_path) == before
    if older:
        assert load_model(tmp_path / "model").transition == NAMED


def test_facts_that_are_no_json_leave_nothing_behind(tmp_path):
    with pytest.raises(TypeError):
        save(tmp_path / "model", parameters={"lr": object()})
    assert files_below(tmp_path) == []


def test_an_older_model_survives_when_the_last_step_fails(tmp_path, monkeypatch):
    save(tmp_path / "model")
    rename = type(tmp_path).rename

    def fail_for_new(self, target):
        if self.name == "new":
            raise PermissionError("no")
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", fail_for_new)
    with pytest.raises(PermissionError):
        save(tmp_path / "model", transition=TransitionMatrix.uniform(3))
    monkeypatch.undo()
    assert load_model(tmp_path / "model").transition == NAMED
    assert files_below(tmp_path) == ["model", "model/model.json", "model/model.safetensors"]


# --- damaged and foreign files ------------------------------------------------------------------


def change_facts(folder, change):
    file = folder / "model.json"
    facts = json.loads(file.read_text("utf-8"))
    change(facts)
    file.write_text(json.dumps(facts), "utf-8")


def change_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: value.clone() for name, value in tensors.items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    change_facts(folder, lambda facts: facts.update(sha256=digest))


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
    with pytest.raises(InvalidModelFile, match=r"must hold a whole model\.safetensors"):
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
    with pytest.raises(InvalidModelFile, match=r"per row of Q\. Got 2 classes and 3 rows"):
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


@settings(
    max_examples=100,
    deadline=None,
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
