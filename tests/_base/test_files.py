"""Files are written completely or not at all."""

import itertools
import sys
from pathlib import Path

import pytest

from naysay import InvalidInput
from naysay._base.files import check_target, replacing, replacing_folder


def test_ctrl_c_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def write_half():
        with replacing(target) as part:
            part.write_text("hal")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert target.read_text() == "old"


def test_a_link_stays_a_link_and_the_suffix_stays(tmp_path):
    (tmp_path / "real.pt2").write_text("old")
    (tmp_path / "link.pt2").symlink_to("real.pt2")
    with replacing(tmp_path / "link.pt2") as part:
        assert part.suffix == ".pt2"
        part.write_text("new")
    assert (tmp_path / "link.pt2").is_symlink()
    assert (tmp_path / "real.pt2").read_text() == "new"


def test_what_cannot_be_written_is_refused_before(tmp_path):
    with pytest.raises(InvalidInput, match=r"pass '.*/Q\.csv', for instance"):
        check_target(tmp_path, usual="Q.csv")
    with pytest.raises(InvalidInput, match="there is no folder"):
        check_target(tmp_path / "none" / "a.csv")
    with pytest.raises(InvalidInput, match="a device or a pipe"):
        check_target("/dev/null")


def interrupted_at(point, write):
    """Run with Ctrl-C at the given function call; return whether that call was reached."""
    n_calls = 0

    def count(frame, event, argument):
        nonlocal n_calls
        n_calls += event in ("call", "c_call")
        if n_calls == point:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        write()
        sys.setprofile(None)
    except KeyboardInterrupt:
        pass
    return n_calls >= point


def write_file(folder, text):
    with replacing(folder / "a.txt") as part:
        part.write_text(text)


def write_durably(folder, text):
    with replacing(folder / "a.txt", durable=True) as part:
        part.write_text(text)


def write_folder(folder, text):
    with replacing_folder(folder / "b", of=Path.is_dir, what="one") as new:
        (new / "first.txt").write_text(text)
        (new / "second.txt").write_text(text)


@pytest.mark.parametrize("write", [write_file, write_durably, write_folder])
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_moment_leaves_the_old_or_the_new_and_nothing_else(tmp_path, write, older):
    def texts(folder):
        return {str(path.relative_to(folder)): path.read_text() for path in all_files(folder)}

    def all_files(folder):
        return [path for path in folder.rglob("*") if path.is_file()]

    whole = tmp_path / "whole"
    whole.mkdir()
    write(whole, "old")
    old = texts(whole) if older else {}
    write(whole, "new")
    new = texts(whole)
    for point in itertools.count(1):
        folder = tmp_path / str(point)
        folder.mkdir()
        if older:
            write(folder, "old")
        was_reached = interrupted_at(point, lambda folder=folder: write(folder, "new"))
        assert texts(folder) in (old, new), point
        assert len(list(folder.iterdir())) <= 1, point
        if not was_reached:
            break
    assert point > 30
    assert texts(folder) == new
