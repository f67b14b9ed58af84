import base64
import io
import stat
import tarfile
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay import InvalidData
from naysay.datasets.official import archives
from naysay.datasets.official.archives import decompress, unpack

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
    write_tar(tmp_path / "tar", GOOD, folder)
    write_zip(tmp_path / "zip", {**GOOD, "top/empty/": b""})
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
