from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from naysay import DatasetUnavailable, InvalidInput, NaysayError, datasets
from naysay.datasets.official.registry import REGISTRY

NAMES = (
    "mnist fashion-mnist usps waveform1 waveform2 satimage pendigits drive letter "
    "cifar-10 cifar-100 tiny-imagenet"
)


def test_the_names_are_those_of_the_public_contract():
    assert " ".join(datasets.names()) == NAMES


def test_data_dir_comes_before_the_environment_before_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NAYSAY_DATA", str(tmp_path / "environment"))
    assert datasets.data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert datasets.data_folder() == tmp_path / "environment"
    monkeypatch.delenv("NAYSAY_DATA")
    assert datasets.data_folder() == platformdirs.user_cache_path("naysay", appauthor=False)


def test_the_home_folder_is_understood(monkeypatch):
    monkeypatch.setenv("NAYSAY_DATA", "~/somewhere")
    assert datasets.data_folder() == Path.home() / "somewhere"


def test_a_missing_data_set_says_which_file_where_and_how(tmp_path):
    with pytest.raises(DatasetUnavailable) as raised:
        datasets.load("mnist", data_dir=tmp_path, download=False)
    lines = str(raised.value).splitlines()
    assert lines == [
        "mnist needs mnist/train-images-idx3-ubyte.gz and 3 more of its files, not found in "
        f"{tmp_path}.",
        "On a connected machine run: naysay data fetch mnist",
        "Or set NAYSAY_DATA (or data_dir=, --data-dir) to a folder that holds it.",
    ]
    assert isinstance(raised.value, OSError)
    assert isinstance(raised.value, NaysayError)
    assert list(tmp_path.iterdir()) == []


def test_the_message_names_debians_place_of_fashion_mnist(tmp_path, monkeypatch):
    entry = REGISTRY["fashion-mnist"]
    place = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
    assert place in entry.files[0].also
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    with pytest.raises(DatasetUnavailable, match=rf"\(nor at {place}\)"):
        datasets.load("fashion-mnist", data_dir=tmp_path, download=False)


def test_files_are_found_at_absolute_places(tmp_path, monkeypatch):
    official = REGISTRY["waveform1"].files[0]
    elsewhere = tmp_path / "elsewhere.data"
    elsewhere.write_text("not read")
    moved = replace(official, also=(str(elsewhere),))
    monkeypatch.setitem(REGISTRY, "waveform1", replace(REGISTRY["waveform1"], files=(moved,)))
    assert datasets.is_on_disk("waveform1", data_dir=tmp_path / "empty")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(InvalidInput, match=r"Unknown data set 'minst'. Known: mnist, fashion"):
        datasets.load("minst")


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=lambda entry: entry.name)
def test_every_row_of_the_registry_is_consistent(entry):
    paths = {file.path for file in entry.files}
    assert {path for download in entry.downloads for path in download.gives} == paths
    assert len(entry.numbers) in (0, entry.n_classes)
    assert len(entry.classes) in (0, entry.n_classes)
    assert entry.source
    assert entry.licence
    assert entry.citation
    counts = [sum(file.per_class) for file in entry.files if file.per_class]
    if counts:
        assert counts == [size for size in (entry.n_train, entry.n_test) if size]
    for download in entry.downloads:
        assert all(url.startswith(("https://", "http://")) for url in download.urls)
        hashes = [file.md5 or file.git_sha1 or file.values_sha256 for file in entry.files]
        assert download.known_hash or all(hashes)  # nothing arrives unchecked
