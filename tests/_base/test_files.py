"""Files are written completely or not at all."""

import contextlib
import errno
import itertools
import os
import sys
from pathlib import Path

import pytest

from naysay import InvalidInput
from naysay._base.files import (
    check_folder,
    check_target,
    printable,
    replacing,
    replacing_folder,
)


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


def refuse_files(path, match, **options):
    with pytest.raises(InvalidInput, match=match):
        check_target(path, **options)
    with pytest.raises(InvalidInput, match=match), replacing(path, **options):
        raise AssertionError


def is_folder(path):
    return path.is_dir()


def test_what_cannot_be_written_is_refused_before(tmp_path):
    refuse_files(tmp_path, r"pass '.*/Q\.csv', for instance", usual="Q.csv")
    refuse_files(tmp_path / "none" / "a.csv", "there is no folder")
    refuse_files("/dev/null", "a device or a pipe")
    (tmp_path / "file").write_text("in the way")
    refuse_files(tmp_path / "file" / "a.csv", "there is no folder")
    refuse_files(tmp_path / ("a" * 300), "File name too long")
    (tmp_path / "dangling").symlink_to("none/a.csv")
    refuse_files(tmp_path / "dangling", "there is no folder")
    (tmp_path / "loop").symlink_to("loop")
    refuse_files(tmp_path / "loop", "link to itself")


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_folder_that_takes_no_files_is_refused_before(tmp_path):
    with pytest.raises(InvalidInput, match=r"/proc/a\.csv must be a path that can be written to"):
        check_target("/proc/a.csv")
    for path in ("/proc/model", "/proc/new/model", tmp_path / ("a" * 300)):
        with pytest.raises(InvalidInput, match="must be a path that can be written to"):
            check_folder(path, of=is_folder, what="any")
    with pytest.raises(InvalidInput, match="File name too long"):
        check_folder(tmp_path / "new" / ("a" * 300) / "model", of=is_folder, what="any")
    assert not any(tmp_path.iterdir())


def test_a_full_disk_and_a_read_only_file_are_found_before(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InvalidInput, match=r"No space left on device\. Choose another path"):
        check_target(tmp_path / "a.csv")
    with pytest.raises(InvalidInput, match="No space left on device"):
        check_folder(tmp_path / "model", of=is_folder, what="any")
    assert not any(tmp_path.iterdir())
    (tmp_path / "a.csv").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refuse_files(tmp_path / "a.csv", "It is read-only")


def test_the_current_folder_and_those_around_it_are_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for path in (".", tmp_path / "here", ".."):
        with pytest.raises(InvalidInput, match="It is the current folder"):
            check_folder(path, of=is_folder, what="any")


@pytest.mark.parametrize(
    "name",
    ["a" * 255, "b" * 250 + ".csv", b"caf\xe9.csv", "[*?].csv", "old", "new", "lock", "replaced"],
)
def test_any_name_that_the_system_allows_can_be_written(tmp_path, name):
    target = tmp_path / os.fsdecode(name)
    for text in ("old", "new"):
        check_target(target)
        with replacing(target) as part:
            part.write_text(text)
    assert target.read_text() == "new"
    target.unlink()
    with contextlib.suppress(OSError), replacing(target) as part:
        part.write_text("half")
        raise OSError("disk full")
    assert not target.exists()
    check_folder(target, of=is_folder, what="any")
    with replacing_folder(target, of=is_folder, what="any") as new:
        (new / "a").write_text("a")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert printable(target).encode()


def test_modes_are_kept_and_new_files_have_the_usual_ones(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        write_folder(folder.parent, "old", folder.name)
        with replacing(tmp_path / f"{folder.name}.txt") as part:
            part.write_text("old")
    usual = [path.stat().st_mode & 0o777 for path in (new, new / "first.txt")]
    umask = os.umask(0)
    os.umask(umask)
    assert usual == [0o777 & ~umask, 0o666 & ~umask]
    for path, mode in ((old, 0o700), (old / "first.txt", 0o600), (tmp_path / "old.txt", 0o640)):
        path.chmod(mode)
    write_folder(tmp_path, "new", "old")
    with replacing(tmp_path / "old.txt") as part:
        part.write_text("new")
    paths = (old, old / "first.txt", old / "second.txt", tmp_path / "old.txt")
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o700, 0o600, usual[1], 0o640]


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "model").symlink_to("disk/model")  # it need not exist yet
    for text in ("old", "new"):
        write_folder(tmp_path, text, "model")
        assert (tmp_path / "model").is_symlink()
        assert (tmp_path / "disk" / "model" / "first.txt").read_text() == text


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


def write_folder(folder, text, name="b"):
    with replacing_folder(folder / name, of=Path.is_dir, what="one") as new:
        (new / "first.txt").write_text(text)
        (new / "second.txt").write_text(text)


@pytest.mark.parametrize("write", [write_file, write_folder])
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
    for point in itertools.count(1, 3):
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
