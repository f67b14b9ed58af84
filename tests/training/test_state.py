"""Checkpoint files: whole or absent, and refused when they are not what they must be."""

import json
import os
import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from faults import run_with_fault
from naysay import InvalidInput, InvalidModelFile
from naysay.training.state import read_checkpoint, write_checkpoint

TENSORS = {
    "weights": torch.arange(6.0).reshape(2, 3),
    "counter": torch.tensor(7),
    "small": torch.tensor([1.5], dtype=torch.bfloat16),
    "none": torch.empty(0, 4),
}
FACTS = {"history": [{"loss": 0.1 + 0.2, "epoch": 1}], "best": float("inf"), "name": "é"}


def assert_same(found, tensors, facts):
    assert found is not None
    assert found[1] == facts
    assert found[0].keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[0][name].dtype == tensor.dtype
        assert torch.equal(found[0][name], tensor)


def test_what_is_written_is_read_again_numbers_to_the_last_bit(tmp_path):
    path = tmp_path / "a" / "b" / "run.safetensors"
    assert read_checkpoint(path) is None
    write_checkpoint(path, TENSORS, FACTS)
    assert_same(read_checkpoint(path), TENSORS, FACTS)


@settings(max_examples=30)
@given(st.lists(st.floats(allow_nan=False), max_size=5))
def test_any_number_survives(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("numbers") / "run.safetensors"
    write_checkpoint(path, {}, {"numbers": numbers})
    found = read_checkpoint(path)
    assert found is not None
    assert found[1]["numbers"] == numbers


def test_tensors_that_share_memory_or_lie_in_another_order_are_written(tmp_path):
    """As weights do in the order that convolutions want, and weights that layers share."""
    images = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    tensors = {"a": images, "b": images, "c": images.transpose(1, 2)}
    write_checkpoint(tmp_path / "run", tensors, {})
    assert_same(read_checkpoint(tmp_path / "run"), tensors, {})


def test_a_write_that_fails_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "run.safetensors"
    write_checkpoint(path, TENSORS, FACTS)
    with pytest.raises(TypeError, match="JSON"):
        write_checkpoint(path, {}, {"fact": object()})
    sparse = torch.eye(2).to_sparse()
    with pytest.raises((ValueError, RuntimeError, NotImplementedError)):
        write_checkpoint(path, {"sparse": sparse}, {})
    assert os.listdir(tmp_path) == ["run.safetensors"]
    assert_same(read_checkpoint(path), TENSORS, FACTS)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="Got the folder"):
        write_checkpoint(tmp_path / "folder", TENSORS, FACTS)
    assert sorted(os.listdir(tmp_path)) == ["folder", "run.safetensors"]


def test_what_killed_writes_have_left_is_removed_that_of_others_is_not(tmp_path):
    def write_and_die(name):
        run_with_fault(4, lambda: write_checkpoint(tmp_path / name, TENSORS, FACTS), kill=True)

    write_and_die("run.safetensors")
    others = os.listdir(tmp_path)
    write_and_die("run[1].safetensors")
    assert len(os.listdir(tmp_path)) == 2
    write_checkpoint(tmp_path / "run[1].safetensors", TENSORS, FACTS)
    assert sorted(os.listdir(tmp_path)) == [*others, "run[1].safetensors"]


def refused(path):
    with pytest.raises(InvalidModelFile, match="must be a checkpoint") as caught:
        read_checkpoint(path)
    assert "\n" not in str(caught.value)
    assert "Remove it" in str(caught.value)
    return True


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "run.safetensors"
    write_checkpoint(path, TENSORS, FACTS)
    return path.read_bytes()


def test_a_file_cut_anywhere_is_refused(good, tmp_path):
    path = tmp_path / "run"
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        assert refused(path)


def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(good, tmp_path):
    """Padding of the header may hold anything."""
    path = tmp_path / "run"
    rng = np.random.default_rng(0)
    n_refused = 0
    for at in rng.choice(len(good), 150, replace=False).tolist():
        damaged = bytearray(good)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            assert_same(read_checkpoint(path), TENSORS, FACTS)
        except InvalidModelFile:
            n_refused += 1
    assert n_refused > 140


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_checkpoint_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "run"
    path.write_bytes(content)
    assert refused(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    assert refused(tmp_path / "folder")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert refused(tmp_path / "pipe")
    save_file(TENSORS, tmp_path / "model.safetensors")
    assert refused(tmp_path / "model.safetensors")
    torch.save(TENSORS, tmp_path / "pickle.pt")
    assert refused(tmp_path / "pickle.pt")
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}})
    (tmp_path / "huge").write_bytes(struct.pack("<Q", len(header)) + header.encode())
    assert refused(tmp_path / "huge")
    (tmp_path / "huger").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    assert refused(tmp_path / "huger")


@pytest.mark.parametrize("facts", ["", "{", "[" * 100_000, None])
def test_facts_that_are_no_json_are_refused(facts, tmp_path, good):
    metadata = {"format": "naysay checkpoint 1"}
    if facts is not None:
        metadata |= {"facts": facts, "checksum": str(zlib.crc32(facts.encode()))}
    save_file({}, tmp_path / "run", metadata)
    assert refused(tmp_path / "run")
