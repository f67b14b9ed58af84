"""Every reader against the real files, and against accuracies that others report on them."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from naysay import InvalidData, datasets
from naysay.datasets.official.registry import REGISTRY

REAL = ("mnist", "usps", "waveform1", "waveform2", "satimage", "pendigits", "drive", "letter")


@pytest.fixture(scope="module")
def loaded(official_data):
    return {name: datasets.load(name, data_dir=official_data, download=False) for name in REAL}


@pytest.mark.parametrize(
    "name, X_shape, low, high, n_test",
    [
        ("mnist", (60_000, 1, 28, 28), 0, 255, 10_000),
        ("usps", (7_291, 1, 16, 16), -1, 1, 2_007),
        ("waveform1", (5_000, 21), -4.2, 9.06, None),
        ("waveform2", (5_000, 40), -3.97, 8.82, None),
        ("satimage", (4_435, 36), 27, 157, 2_000),
        ("pendigits", (7_494, 16), 0, 100, 3_498),
        ("drive", (2_200, 48), -15.796, 295.66, None),
        ("letter", (20_000, 16), 0, 15, None),
    ],
)
def test_shapes_ranges_and_classes(loaded, name, X_shape, low, high, n_test):
    dataset = loaded[name]
    assert dataset.train.X.shape == X_shape
    assert (dataset.train.X.min(), dataset.train.X.max()) == (low, high)
    assert (dataset.test and len(dataset.test)) == n_test
    n_classes = REGISTRY[name].n_classes
    assert np.unique(dataset.train.y).tolist() == list(range(n_classes))
    assert len(set(dataset.classes)) == len(dataset.class_numbers) == n_classes
    assert dataset.train.y.dtype == np.int64


def test_examples_of_each_class_of_mnist(loaded):
    mnist = loaded["mnist"]
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(mnist.train.y).tolist() == published
    published = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(mnist.test.y).tolist() == published


@pytest.mark.parametrize(
    "name, features, label",
    [  # as the repository prints them
        ("waveform1", [-1.23, -1.56, -1.75], 2),
        ("waveform2", [-0.23, -1.21, 1.20], 2),
        ("satimage", [92, 115, 120], 2),
        ("pendigits", [47, 100, 27], 8),
        ("letter", [2, 8, 3], 19),
    ],
)
def test_the_first_example(loaded, name, features, label):
    train = loaded[name].train
    assert train.X[0, :3].tolist() == features
    assert train.y[0] == label


@pytest.mark.parametrize("name", ["waveform1", "satimage", "pendigits", "letter", "drive"])
def test_first_and_last_rows_are_those_of_the_file(loaded, name):
    dataset = loaded[name]
    lines = dataset.provenance.files[0].path.read_text().split("\n")
    for line, row, label in (
        (lines[0], dataset.train.X[0], dataset.train.y[0]),
        (lines[-2], dataset.train.X[-1], dataset.train.y[-1]),
    ):
        cells = line.replace(",", " ").split()
        written = cells.pop(0 if name == "letter" else -1)
        assert [float(cell) for cell in cells] == row.tolist()
        assert written in (dataset.classes[label], str(dataset.class_numbers[label]), str(label))


def test_provenance_names_files_checks_and_what_is_only_a_part(loaded):
    checks = {name: {file.checked for file in loaded[name].provenance.files} for name in REAL}
    assert checks["mnist"] == {"published md5"}
    assert all(checks[name] == {"values"} for name in REAL[1:])
    assert "Only 2,200 of the 58,509 rows" in loaded["drive"].provenance.notes[0]
    assert "train on the first 16,000 rows" in loaded["letter"].provenance.notes[0]
    assert "Licence:  CC BY-SA 3.0" in str(loaded["mnist"].provenance)


def one_nearest_neighbour(train, test):
    flat = [split.X.reshape(len(split), -1) for split in (train, test)]
    return 100 * KNeighborsClassifier(1).fit(flat[0], train.y).score(flat[1], test.y)


@pytest.mark.parametrize(
    "name, reported", [("usps", 94.4), ("satimage", 89.5), ("pendigits", 97.7)]
)
def test_one_nearest_neighbour_has_its_reported_accuracy(loaded, name, reported):
    accuracy = one_nearest_neighbour(loaded[name].train, loaded[name].test)
    assert accuracy == pytest.approx(reported, abs=0.06)


def test_the_customary_split_of_letter_has_its_reported_accuracy(loaded):
    train = loaded["letter"].train
    first, rest = train.take(slice(16_000)), train.take(slice(16_000, None))
    assert one_nearest_neighbour(first, rest) == pytest.approx(95.7, abs=0.06)


@pytest.mark.parametrize("name", ["waveform1", "waveform2"])
def test_linear_discriminants_reach_the_reported_accuracy_on_waveform(loaded, name):
    train = loaded[name].train
    scores = cross_val_score(LinearDiscriminantAnalysis("lsqr"), train.X, train.y, cv=10)
    assert 100 * scores.mean() == pytest.approx(86.1, abs=0.2)


def test_the_nearest_mean_image_has_its_known_accuracy_on_mnist(loaded):
    train, test = loaded["mnist"].train, loaded["mnist"].test
    means = np.stack([train.X[train.y == digit].mean(axis=0).ravel() for digit in range(10)])
    # |x - m|² without the |x|² that all classes share
    distances = (means**2).sum(axis=1) - 2 * (test.X.reshape(10_000, -1) @ means.T)
    accuracy = (distances.argmin(axis=1) == test.y).mean()
    assert 100 * accuracy == pytest.approx(82.03, abs=0.01)


@pytest.mark.parametrize("name", ["waveform.data", "sat.tst", "pendigits.tra"])
def test_one_altered_digit_of_a_real_file_is_found(official_data, tmp_path, name):
    dataset = {"waveform.data": "waveform1", "sat.tst": "satimage", "pendigits.tra": "pendigits"}
    (tmp_path / "uci").mkdir()
    for path in (official_data / "uci").iterdir():
        (tmp_path / "uci" / path.name).write_bytes(path.read_bytes())
    content = bytearray((tmp_path / "uci" / name).read_bytes())
    line = content.index(b"\n", 1000)
    at = next(i for i in range(line, len(content)) if chr(content[i]) in "2345")
    content[at] ^= 1
    (tmp_path / "uci" / name).write_bytes(content)
    with pytest.raises(InvalidData, match=f"{name} must contain the published values"):
        datasets.load(dataset[name], data_dir=tmp_path, download=False)


def test_fashion_mnist_where_debian_or_the_user_has_it(users_data):
    folder = users_data or "/nowhere"
    if not datasets.is_on_disk("fashion-mnist", data_dir=folder):
        pytest.skip("neither NAYSAY_DATA nor Debian's dataset-fashion-mnist has the files")
    fashion = datasets.load("fashion-mnist", data_dir=folder, download=False)
    assert fashion.test is not None
    assert np.bincount(fashion.train.y).tolist() == [6_000] * 10
    assert np.bincount(fashion.test.y).tolist() == [1_000] * 10
    assert fashion.classes[fashion.train.y[0]] == "Ankle boot"
