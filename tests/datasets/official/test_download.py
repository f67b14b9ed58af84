"""Downloads of official files from a local server, and archives that are unpacked or refused."""

import base64
import gzip
import io
import itertools
import socket
import stat
import tarfile
import zipfile
import zlib

import pooch  # noqa: F401 - before processes are forked
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.progress import Progress

from faults import IS_SUPPORTED, run_with_fault
from naysay import DatasetUnavailable, InvalidData, datasets
from naysay.datasets.official import download
from naysay.datasets.official.download import decompress, unpack
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
    _zip(server, whole__more=b"more", other__table=TABLE)  # not in its place
    url = f"{server.url}/set.zip"
    download = Download((url,), ("whole/table",), archive="zip", folder="whole")
    register(download, files=(OfficialFile("whole/table", per_class=(1, 1, 1)),))
    with pytest.raises(
        InvalidData, match=r"set\.zip must contain whole/table\. It does not\. Nothing"
    ):
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


GOOD = {"top/first": b"one", "top/deeper/second": b"two" * 1000}
OUTSIDE = ["../escaped", "top/../../escaped", "/tmp/escaped", "..\\escaped", "C:\\escaped", "C:x"]


def write_tar(path, files, *extra):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info in extra:
            tar.addfile(info)


def write_zip(path, files, *extra):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.filename = name  # `ZipInfo` would mend some names
            archive.writestr(info, content)
        for info in extra:
            archive.writestr(info, b"/etc/passwd")


WRITERS = {"tar": write_tar, "zip": write_zip}


@pytest.fixture(params=["tar", "zip"])
def kind(request):
    return request.param


@pytest.fixture
def into(tmp_path):
    return tmp_path / "cache" / "into"


def test_unpacks_plain_files(tmp_path, kind, into, files_under):
    WRITERS[kind](tmp_path / "archive", GOOD)
    unpack(tmp_path / "archive", kind, into)
    assert {name: (into / name).read_bytes() for name in files_under(into)} == GOOD


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_member_outside_condemns_the_archive(tmp_path, kind, into, files_under, name):
    WRITERS[kind](tmp_path / "archive", {**GOOD, name: b"evil"})
    with pytest.raises(InvalidData, match=r"must contain plain files .* outside its folder"):
        unpack(tmp_path / "archive", kind, into)
    assert files_under(tmp_path) == ["archive"]  # not even the good members were written


@pytest.mark.parametrize(
    "type_", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path, into, files_under, type_):
    info = tarfile.TarInfo("top/odd")
    info.type, info.linkname = type_, "/etc/passwd"
    write_tar(tmp_path / "archive", GOOD, info)
    with pytest.raises(InvalidData, match="One member is a link or device: 'top/odd'"):
        unpack(tmp_path / "archive", "tar", into)
    assert files_under(tmp_path) == ["archive"]


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO])
def test_links_and_devices_in_a_zip_are_refused(tmp_path, into, files_under, mode):
    info = zipfile.ZipInfo("top/odd")
    info.external_attr = (mode | 0o777) << 16
    write_zip(tmp_path / "archive", GOOD, info)
    with pytest.raises(InvalidData, match="One member is a link or device: 'top/odd'"):
        unpack(tmp_path / "archive", "zip", into)
    assert files_under(tmp_path) == ["archive"]


def test_a_truncated_archive_is_an_error(tmp_path, kind, into):
    path = tmp_path / "archive"
    WRITERS[kind](path, {"top/noise": bytes(range(256)) * 50})
    whole = path.read_bytes()
    for length in (0, 20, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidData, match=f"archive must be a whole {kind} archive"):
            unpack(path, kind, into)


def test_a_flipped_byte_in_a_zip_is_an_error(tmp_path, into):
    path = tmp_path / "archive"
    write_zip(path, {"noise": bytes(range(256))})
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=r"must be a whole zip archive"):
        unpack(path, "zip", into)


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path, kind, into, monkeypatch):
    monkeypatch.setattr(download, "_MOST_UNPACKED", 1000)
    WRITERS[kind](tmp_path / "archive", GOOD)
    with pytest.raises(InvalidData, match=r"at most 1,000 bytes. It would unpack to 3,003"):
        unpack(tmp_path / "archive", kind, into)
    assert not into.exists()


def test_two_members_of_one_name_are_an_error(tmp_path, into):
    info = tarfile.TarInfo("top/first")
    write_tar(tmp_path / "archive", GOOD, info)
    with pytest.raises(InvalidData, match=r"must contain each file once"):
        unpack(tmp_path / "archive", "tar", into)
    assert not into.exists()


def test_an_encrypted_zip_is_an_error(tmp_path, into):
    path = tmp_path / "archive"
    write_zip(path, {"first": b"one"})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag of encryption, in the local and in the central header
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=r"must be a whole zip archive.*RuntimeError"):
        unpack(path, "zip", into)


def test_folders_in_an_archive_are_passed_over(tmp_path, into, files_under):
    folder = tarfile.TarInfo("top/empty")
    folder.type = tarfile.DIRTYPE
    write_tar(tmp_path / "tar", GOOD, folder, folder)  # `tar --append` lists folders again
    with pytest.warns(UserWarning, match="Duplicate name"):
        write_zip(tmp_path / "zip", {**GOOD, "top/empty/": b""}, zipfile.ZipInfo("top/empty/"))
    for kind in ("tar", "zip"):
        unpack(tmp_path / kind, kind, into / kind)
        assert files_under(into / kind) == sorted(GOOD)


# --- files made by the Unix program `compress`

MAGIC = b"\x1f\x9d"
CONTENT = b"".join(b"%d," % (i * i) for i in range(300)) + b"a" * 60_000 + b"xyz" * 20_000
# CONTENT by the program `compress -b 10` (ncompress 4.2.4.6), zlib and base64 around it. Its codes
# grow from 9 to 10 bits, fill the table, and clear it once.
COMPRESSED = zlib.decompress(
    base64.b64decode(
        """
eNrtx/k7G3YDAPCtlNI0KyFUHamb6spoxFqtq24mE6TuEHNkrjoSVl0dccQZd4Y64ozUrdXWfaRUMZYWWx5zRkRRVqozvM/z
/g37bd/Pbx+FMoo2dtjbOPEuNB6JHa0f8DE3kREOlhjW0RbKeKSDx1SjtZMzE3XuK+e3OuAyqSjoZA761yUjGSmRGVIa3fvC
JWECxzKAXp1ZphWyCHHNuzsRb+BDYZ5LrDGS1jjLQmnkKA9lKJ79VnCsdWWCgvSJrVYP83/1CyIChZnLrzTPFvXrR6n7CmUk
aOEg7tKO5nM9+tuawzouOGhXtM1kamu0ynAy1G0GsanNhVQK+LN/1NhDvGHqMcVLjQt8MTKG52fmPn8T2C9DFH6Xiu5gvS5t
hD3WaoAFZMqaDsHtDB18bC+rpZ+/FiBgwe7HkAu7dZQ2M/OEQzmL0hKHRhSd8FGEm2MVOk24rNnOdeanQdnyC8nXihO1f0uX
LuHHibYrZbQgjM+6QOAFZt4eImKjYpbyNIuKCMlAZWcPGScnAeKlLUFx+3s6qjK+eg4j2AiE0zoGojvfImYrXYnMM8qTvCHp
fGZeiI0x9HASgOozUPkWv0ThE828nzsXWkgGE5ft0SNhplBFij/CVWTvkGpkhat3Jl8hk9Fx+LE1MU+ioapUlJIkD+4bFihY
YXJFxDy3OHwAftHqQKOjuFR32GX2QvAgRtxGlzkiHitqjF8wWdmK+t6rz4knZUO6Qqzx0shULnObRasMXZicVlHxRCnrF1NR
rR1S+XfDURgfo/kCX9OIEX6ltW+n8mx61r2DBkqOH/v7crSka5BJHOXdeuioJiM3mENNvmeq6aoq5jdBI16y0dxiS+MocmRm
BJmmjo36WSzJy+h4SxiGY/hhsJQw8ju4cdJtvQVfPSbes2+iR8/RVjZOBfaAMR/tl/rdbbajVf09awfvOo91dpCNGAY2MNlz
brpXcA2BsY/9fKAQCv+MfOvQ/tYfVtO2JJEX/HWrdwkJSYa/Jc9uRMNC5zZqlwvUrPCwCkn+as1EErVzxQrpR4PlE2I2YJD2
XTwapznIKnU/WiOVeuDyVIvD3VPOSd3/pFinfd50QZJa8wbN5Mx86VJ8jagQI4H2Fzmr6uptKFwwHdFhoIKZUHplJmchgF6/
73AFGiUHMdq/VUahneKfO9wNJEqgtcQLdvP07SLRmCQrW2qAxI0fJRI2lobloNVOJAypnkrMi6mpipLvNxeZzCkIM1BziV21
F/zzIc7s+vFHtkvo8f6cf/PxAYe4c/xpMeX6yeFqUejJZ15d88nf75/tnBx9eHX99J+Ps6Gnx4frzacn/3zaOQUAAAD+e8qz
LeRjF6kp8qTVSmH5GF48KCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKOi/2S8vfvF/MR8XRVAOiIFE
IRjcPTWncjD5ooJ1pKWOz0gaXNeHQ2qlm2fL3qFArMSrx6hqNlXuDW1+r4u0cC8yrCJq7WgoAre7oV1tqvxm4t8SopH101WW
aZqGL/Q0fquzpyPLRAsYbAa2Oajz9Q3C7BPPoQS5o04mth0/xbAbhz/5ozP0j8Gyq89COC8jd3+fGCc2e/U8OhI6udqlvTSU
CLvsnEFqXWHlXLJ5eMvgm7XxQl2XhQxaO3ey4k76ge23kRvTtY50z7gXnUGzTK/xLLvLT7fmnxFWFp68JG7/2R1/BLV/0BW+
NJqudqep2+Cv9XH6zSJo3It9/lwDoa/X8OannYUhosJXj7sP93hTjfpTt+OO9rdXhspPe3sfHH3c2ZyaUug7PT7dF158dAYu
vRgvqBjgnQD5mleRcBEpvZQo7my5RIb9EFCZLB3Cw6Ug7qsvpyglWy6nqdZilynqbfU+6dq96vR0PRZ2JQPJTV3J0j+op2ff
OlHH55idCVzNsYCnreZaI2mrebYmG/h8jH1gTT7WmbZW4Bo9tlbklrxRU+ydFfgDLSC3gUsj1I5xS0JY89zSsBkN/zLSQkNd
2QPu/Prjh0KivIqf4Zr1lUnyjICqDEU+ryobKbpRnesss1GT7xMUWFsawm+orYiW4ddVFVrzG+i1QQxGfRM/qLGlTXOzsZ1l
vfnkKdd1s6lrj0Fo7j/RZDYPC7m9b2Gppr9ve4VsZLa/uX01uINtQtjqmHVO33r6e3TJ1jNOwmZw12oWoamLV1iy/Zz/dHz7
5SZrs6n7wyQhtOdwpnGn54g7vtN3IsTZ6f8CphU2cE6B2TIAUeN8GIRaQHaHv3LRah2R8GKGs2R93++yFIiQvVHFItm9MWX6
Lfj/AF7kahI=
"""
    )
)


def test_reads_what_compress_wrote():
    assert decompress(COMPRESSED, at_most=len(CONTENT)) == CONTENT


def test_more_bytes_than_allowed_are_refused():
    with pytest.raises(ValueError, match=r"more than 1,000 bytes"):
        decompress(COMPRESSED, at_most=1000)


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"", "does not begin with 1f 9d"),
        (b"\x1f\x8b\x90", "does not begin with 1f 9d"),
        (MAGIC + b"\x91", "codes of 17 bits"),
        (MAGIC + b"\x88", "codes of 8 bits"),
        (MAGIC + b"\x90\xff\xff", "code 511 is not defined yet"),
    ],
)
def test_other_data_are_refused(data, problem):
    with pytest.raises(ValueError, match=problem):
        decompress(data, at_most=1000)


@settings(max_examples=60)
@given(st.binary(max_size=200), st.sampled_from([0x90, 0x10, 0x8A]))
def test_any_bytes_give_bytes_or_a_value_error(data, flags):
    try:
        content = decompress(MAGIC + bytes([flags]) + data, at_most=10_000)
    except ValueError:
        return
    assert isinstance(content, bytes)
