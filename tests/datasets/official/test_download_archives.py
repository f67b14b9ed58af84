"""Archives that are downloaded: what of them is kept, and what is refused."""

import zipfile

import pytest

from naysay._base.errors import DatasetUnavailable, InvalidData
from naysay.datasets.official.entry import Download, OfficialFile
from small_table import TABLE, load


def _zip(server, **members):
    with zipfile.ZipFile(server.folder / "set.zip", "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)


def test_the_wanted_file_of_an_archive_is_kept(server, register, folder, files_under):
    _zip(server, deep__table=TABLE, readme=b"hello")
    register(Download((f"{server.url}/set.zip",), ("uci/table",), archive="zip"))
    assert len(load(folder).train) == 3
    assert files_under(folder) == ["uci/table"]


def test_a_Z_file_in_an_archive_is_uncompressed(server, register, folder):  # noqa: N802 (.Z)
    compressed = bytes.fromhex("1f9d903140c0502003440c053340c85000")  # TABLE by `compress`
    _zip(server, **{"table.Z": compressed})
    register(Download((f"{server.url}/set.zip",), ("uci/table",), archive="zip"))
    assert load(folder).train.X.ravel().tolist() == [1, 2, 3]
    assert (folder / "uci" / "table").read_bytes() == TABLE


def test_a_damaged_Z_file_is_an_error(server, register, folder, files_under):  # noqa: N802 (.Z)
    _zip(server, **{"table.Z": b"\x1f\x9d\x90\xff\xff\xff"})
    register(Download((f"{server.url}/set.zip",), ("uci/table",), archive="zip"))
    with pytest.raises(InvalidData, match=r"table\.Z in set\.zip must be a file made by `compress"):
        load(folder)
    assert files_under(folder) == []


def test_an_archive_without_the_wanted_file_is_an_error(server, register, folder, files_under):
    _zip(server, other=TABLE)
    register(Download((f"{server.url}/set.zip",), ("uci/table",), archive="zip"))
    with pytest.raises(InvalidData, match=r"set\.zip must hold table. It does not"):
        load(folder)
    assert files_under(folder) == []


def test_an_archive_that_escapes_writes_nothing(server, register, folder, files_under, tmp_path):
    _zip(server, table=TABLE, **{"..__..__escaped": b"evil"})
    register(Download((f"{server.url}/set.zip",), ("uci/table",), archive="zip"))
    with pytest.raises(InvalidData, match=r"outside its folder"):
        load(folder)
    assert files_under(tmp_path) == ["served/set.zip"]


def test_an_archive_that_is_a_folder_is_kept_whole(server, register, folder, files_under):
    _zip(server, whole__table=TABLE, whole__more=b"more")
    url = f"{server.url}/set.zip"
    download = Download((url,), ("whole/table",), archive="zip", folder="whole")
    register(download, files=(OfficialFile("whole/table", per_class=(1, 1, 1)),))
    assert len(load(folder).train) == 3
    assert files_under(folder) == ["whole/more", "whole/table"]
    (folder / "whole" / "table").unlink()
    with pytest.raises(DatasetUnavailable, match=r"whole must be whole or absent"):
        load(folder)
    assert files_under(folder) == ["whole/more"]


def test_an_incomplete_folder_is_an_error(server, register, folder, files_under):
    _zip(server, whole__more=b"more")
    url = f"{server.url}/set.zip"
    download = Download((url,), ("whole/table",), archive="zip", folder="whole")
    register(download, files=(OfficialFile("whole/table", per_class=(1, 1, 1)),))
    with pytest.raises(InvalidData, match=r"set\.zip must hold whole/table"):
        load(folder)
    assert files_under(folder) == []
