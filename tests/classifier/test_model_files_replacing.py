"""What saving a model replaces, what it leaves untouched, and what a failure leaves behind."""

import pytest

from naysay import InvalidInput, TransitionMatrix
from naysay.classifier import model_files
from naysay.classifier.model_files import load_model
from saved_models import NAMED, files_below, save


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

    monkeypatch.setattr(model_files.Path, "write_text", fail)
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
