"""The demo's page as a file: written whole or not at all, where a file may stand."""

import os
import stat
from pathlib import Path

import pytest

from demo_results import make_result
from naysay import InvalidInput, NaysayError
from naysay.report import check_page_path, render_demo_page, write_demo_page


def test_write_returns_the_path_and_replaces_what_was_there(tmp_path):
    path = tmp_path / "demo.html"
    path.write_text("old")
    result = make_result()
    assert write_demo_page(result, str(path)) == path
    assert path.read_text("utf-8") == render_demo_page(result)
    assert os.listdir(tmp_path) == ["demo.html"]


def test_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    path = write_demo_page(make_result(), tmp_path / "demo.html")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_link_stays_a_link(tmp_path):
    (tmp_path / "link.html").symlink_to(tmp_path / "target.html")
    write_demo_page(make_result(), tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "target.html").read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_failure_leaves_the_old_page_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "demo.html"
    path.write_text("old")
    write_text = Path.write_text

    def write_half(self, text, **options):
        write_text(self, text[: len(text) // 2], **options)
        raise OSError("no space left")

    def refuse(*names):
        raise OSError("no space left")

    if step == "write_text":
        monkeypatch.setattr(Path, "write_text", write_half)
    else:
        monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write_demo_page(make_result(), path)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["demo.html"]


def test_missing_folder_is_named(tmp_path):
    path = tmp_path / "nowhere" / "demo.html"
    with pytest.raises(InvalidInput, match=r"folder that exists.*no folder '.*nowhere': create"):
        write_demo_page(make_result(), path)
    assert not path.parent.exists()


def test_folder_as_a_path_is_refused_with_a_proposal(tmp_path):
    with pytest.raises(InvalidInput, match=r"must name a file.*Got the folder.*page\.html"):
        write_demo_page(make_result(), tmp_path)


def test_device_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NaysayError, match="which is a device or a pipe"):
        check_page_path(tmp_path / "pipe")


def test_path_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="there is no folder"):
        check_page_path(tmp_path / "file" / "demo.html")
