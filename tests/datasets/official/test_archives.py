import io
import stat
import tarfile
import zipfile

import pytest

from naysay._base.errors import InvalidData
from naysay.datasets.official import archives
from naysay.datasets.official.archives import unpack

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
    with pytest.raises(InvalidData, match=r"archive must hold plain files .* outside its folder"):
        unpack(tmp_path / "archive", kind, into)
    assert files_under(tmp_path) == ["archive"]  # not even the good members were written


@pytest.mark.parametrize(
    "type_, what",
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.FIFOTYPE, "device"),
        (tarfile.CHRTYPE, "device"),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path, into, files_under, type_, what):
    info = tarfile.TarInfo("top/odd")
    info.type, info.linkname = type_, "/etc/passwd"
    write_tar(tmp_path / "archive", GOOD, info)
    with pytest.raises(InvalidData, match=f"One member is a {what}: 'top/odd'"):
        unpack(tmp_path / "archive", "tar", into)
    assert files_under(tmp_path) == ["archive"]


@pytest.mark.parametrize("mode, what", [(stat.S_IFLNK, "link"), (stat.S_IFIFO, "device")])
def test_links_and_devices_in_a_zip_are_refused(tmp_path, into, files_under, mode, what):
    info = zipfile.ZipInfo("top/odd")
    info.external_attr = (mode | 0o777) << 16
    write_zip(tmp_path / "archive", GOOD, info)
    with pytest.raises(InvalidData, match=f"One member is a {what}: 'top/odd'"):
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
    monkeypatch.setattr(archives, "_MOST_BYTES", 1000)
    WRITERS[kind](tmp_path / "archive", GOOD)
    with pytest.raises(InvalidData, match=r"at most 1,000 bytes. It would give 3,003"):
        unpack(tmp_path / "archive", kind, into)
    assert not into.exists()


def test_two_members_of_one_name_are_an_error(tmp_path, into):
    info = tarfile.TarInfo("top/first")
    write_tar(tmp_path / "archive", GOOD, info)
    with pytest.raises(InvalidData, match=r"must hold each file once"):
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
    write_tar(tmp_path / "tar", GOOD, folder)
    write_zip(tmp_path / "zip", {**GOOD, "top/empty/": b""})
    for kind in ("tar", "zip"):
        unpack(tmp_path / kind, kind, into / kind)
        assert files_under(into / kind) == sorted(GOOD)
