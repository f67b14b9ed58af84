"""Downloads of official files from a local server."""

import gzip
import itertools
import socket
import zipfile

import pooch  # noqa: F401 - before processes are forked
import pytest
from rich.progress import Progress

from faults import IS_SUPPORTED, run_with_fault
from naysay import DatasetUnavailable, InvalidData, datasets
from naysay.datasets.official import download
from naysay.datasets.official.entry import Download, OfficialFile, md5_of
from small_table import TABLE, WRONG, load


def test_load_downloads_what_is_missing_and_only_once(server, register, folder, files_under, capfd):
    (server.folder / "table").write_bytes(TABLE)
    known_hash = f"md5:{md5_of(TABLE)}"
    register(Download((f"{server.url}/table",), ("uci/table",), known_hash))
    assert load(folder).train.X.ravel().tolist() == [1, 2, 3]
    assert load(folder).train.y.tolist() == [0, 1, 2]
    assert server.requests == ["/table"]
    assert files_under(folder) == ["uci/table"]
    assert capfd.readouterr() == ("", "")  # no bar and no log where there is no terminal


def test_a_wrong_hash_is_an_error_and_nothing_is_kept(server, register, folder, files_under):
    (server.folder / "table").write_bytes(TABLE)
    register(Download((f"{server.url}/table",), ("uci/table",), WRONG))
    with pytest.raises(InvalidData, match=r"/table must have the published hash md5:0+\. The down"):
        load(folder)
    assert files_under(folder) == []


def test_the_next_place_is_tried(server, register, folder):
    (server.folder / "table").write_bytes(b"<html>moved</html>")
    (server.folder / "mirror").mkdir()
    (server.folder / "mirror" / "table").write_bytes(TABLE)
    urls = tuple(f"{server.url}/{path}" for path in ("nowhere/table", "table", "mirror/table"))
    register(Download(urls, ("uci/table",), f"md5:{md5_of(TABLE)}"))
    assert len(load(folder).train) == 3
    assert server.requests[-1] == "/mirror/table"


def test_an_error_of_the_server_says_what_is_missing_and_what_to_do(server, register, folder):
    register(Download((f"{server.url}/table",), ("uci/table",)))
    with pytest.raises(DatasetUnavailable) as raised:
        load(folder)
    message = str(raised.value)
    assert f"waveform1 needs uci/table, which is not in {folder}" in message
    assert "/table: the server answers 404" in message
    assert "On a connected machine run: naysay data fetch waveform1" in message
    assert len(message.splitlines()) == 3


def test_offline_is_an_oserror_that_says_so(register, folder, files_under):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/table"
        register(Download((url,), ("uci/table",)))
        with pytest.raises(OSError, match=r"could not be downloaded .*no connection"):
            load(folder)
    assert files_under(folder) == []


def test_a_broken_connection_leaves_nothing_and_can_be_repeated(
    server, register, folder, files_under
):
    (server.folder / "cut" / "table").write_bytes(TABLE * 1000)
    register(Download((f"{server.url}/cut/table",), ("uci/table",)))
    with pytest.raises(DatasetUnavailable, match=r"/cut/table: no connection, or it broke"):
        load(folder)
    assert files_under(folder) == []
    (server.folder / "table").write_bytes(TABLE)
    register(Download((f"{server.url}/table",), ("uci/table",)))
    assert len(load(folder).train) == 3


@pytest.mark.unmeasured
@pytest.mark.skipif(not IS_SUPPORTED, reason="looks at calls of Linux on x86-64")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_a_killed_download_leaves_is_removed_by_the_next(server, register, tmp_path):
    (server.folder / "table").write_bytes(TABLE)
    register(Download((f"{server.url}/table",), ("uci/table",), f"md5:{md5_of(TABLE)}"))
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        end = run_with_fault(number, lambda folder=folder: load(folder), kill=True)
        assert len(datasets.fetch("waveform1", data_dir=folder).train) == 3
        assert sorted(path.name for path in folder.rglob("*")) == ["table", "uci"], number
        if end == "not reached":
            break
    assert number > 5


def test_a_file_that_is_cut_off_unnoticed_is_not_kept(server, register, folder, files_under):
    server.states_size = False
    (server.folder / "cut" / "table.gz").write_bytes(gzip.compress(TABLE))
    files = (OfficialFile("uci/table.gz", per_class=(1, 1, 1)),)
    register(Download((f"{server.url}/cut/table.gz",), ("uci/table.gz",)), files=files)
    with pytest.raises(InvalidData, match=r"must be a whole gzip file. It ends too early"):
        load(folder)
    assert files_under(folder) == []


def test_a_file_labelled_as_encoded_is_kept_as_it_is_published(server, register, folder):
    published = gzip.compress(TABLE)
    (server.folder / "table.gz").write_bytes(published)
    server.headers = {"Content-Encoding": "gzip"}
    files = (OfficialFile("uci/table.gz", md5=md5_of(TABLE), per_class=(1, 1, 1)),)
    known_hash = f"md5:{md5_of(published)}"
    register(Download((f"{server.url}/table.gz",), ("uci/table.gz",), known_hash), files=files)
    assert len(load(folder).train) == 3
    assert (folder / "uci" / "table.gz").read_bytes() == published


def test_a_bar_names_the_file_and_ends_at_its_size(server, register, folder, monkeypatch):
    (server.folder / "table").write_bytes(TABLE * 20_000)
    files = (OfficialFile("uci/table", per_class=(20_000,) * 3),)
    register(Download((f"{server.url}/table",), ("uci/table",)), files=files)
    bars = []
    start = Progress.start
    monkeypatch.setattr(Progress, "start", lambda bar: (bars.append(bar), start(bar)))
    load(folder)
    ((task,),) = (bar.tasks for bar in bars)
    assert task.description == "table"
    assert task.completed == task.total == 240_000


@pytest.mark.parametrize("where", ["_unpack", "_move_into_place"])
def test_an_interruption_leaves_nothing_and_can_be_repeated(
    server, register, folder, files_under, monkeypatch, where
):
    (server.folder / "table").write_bytes(TABLE)
    register(Download((f"{server.url}/table",), ("uci/table",)))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            load(folder)
    assert files_under(folder) == []
    assert len(load(folder).train) == 3


def test_files_that_arrived_before_an_interruption_are_kept(server, register, folder, files_under):
    files = tuple(OfficialFile(f"uci/{name}", per_class=(1, 1, 1)) for name in ("one", "two"))
    (server.folder / "one").write_bytes(TABLE)
    register(*(Download((f"{server.url}/{f.path[4:]}",), (f.path,)) for f in files), files=files)
    with pytest.raises(DatasetUnavailable, match=r"needs uci/two"):
        load(folder)
    assert files_under(folder) == ["uci/one"]
    (server.folder / "two").write_bytes(TABLE)
    assert len(load(folder).train) == 3
    assert server.requests.count("/one") == 1


def test_the_md5_of_the_content_is_checked_before_a_file_is_kept(
    server, register, folder, files_under
):
    (server.folder / "table.gz").write_bytes(gzip.compress(b"other"))
    files = (OfficialFile("uci/table.gz", md5=md5_of(TABLE), per_class=(1, 1, 1)),)
    register(Download((f"{server.url}/table.gz",), ("uci/table.gz",)), files=files)
    with pytest.raises(InvalidData, match=r"must have the published md5"):
        load(folder)
    assert files_under(folder) == []


def test_a_folder_that_cannot_be_made_is_an_error_that_says_so(server, register, tmp_path):
    (tmp_path / "file").write_text("in the way")
    register(Download((f"{server.url}/table",), ("uci/table",)))
    with pytest.raises(DatasetUnavailable, match=r"must be writable to download it. Not a dir"):
        load(tmp_path / "file" / "data")
    assert server.requests == []


def test_fetch_gets_the_whole_where_load_is_content_with_a_part(server, register, folder):
    part = OfficialFile("uci/part", per_class=(1, 1, 1), note="Only a part.")
    files = (OfficialFile("uci/table", per_class=(2, 2, 2), stand_in=part),)
    (server.folder / "table").write_bytes(TABLE * 2)
    register(Download((f"{server.url}/table",), ("uci/table",)), files=files)
    (folder / "uci").mkdir(parents=True)
    (folder / "uci" / "part").write_bytes(TABLE)
    assert len(load(folder).train) == 3
    assert datasets.describe("waveform1", data_dir=folder).is_partial
    assert len(datasets.fetch("waveform1", data_dir=folder).train) == 6
    assert len(load(folder).train) == 6
    assert not datasets.describe("waveform1", data_dir=folder).is_partial


# --- archives


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
    with pytest.raises(InvalidData, match=r"set\.zip must contain table. It does not"):
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
    with pytest.raises(DatasetUnavailable, match=r"whole must be complete or absent"):
        load(folder)
    assert files_under(folder) == ["whole/more"]


def test_an_incomplete_folder_is_an_error(server, register, folder, files_under):
    _zip(server, whole__more=b"more")
    url = f"{server.url}/set.zip"
    download = Download((url,), ("whole/table",), archive="zip", folder="whole")
    register(download, files=(OfficialFile("whole/table", per_class=(1, 1, 1)),))
    with pytest.raises(InvalidData, match=r"set\.zip must contain whole/table"):
        load(folder)
    assert files_under(folder) == []


@pytest.mark.parametrize("says_so", [True, False])
def test_a_download_of_too_many_bytes_is_ended(server, register, folder, files_under, says_so):
    (server.folder / "table").write_bytes(b"x" * 3_000_000)
    limit = 100_000 if says_so else 2_500_000
    register(Download((f"{server.url}/table",), ("uci/table",), at_most=limit))
    with pytest.raises(InvalidData, match=f"must have at most {limit:,} bytes. The server sends"):
        load(folder)
    assert files_under(folder) == []


def test_a_connection_that_cannot_be_secured_is_not_called_missing(server, register, folder):
    url = server.url.replace("http://", "https://")  # the server does not speak TLS
    register(Download((f"{url}/table",), ("uci/table",)))
    with pytest.raises(DatasetUnavailable, match="the connection cannot be secured"):
        load(folder)
