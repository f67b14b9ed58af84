"""The bytes of files, gzipped or not, read whole and checked."""

import hashlib
import zlib

from naysay.datasets._dataset import SourceFile
from naysay.datasets._entry import FoundFile

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 31  # zlib's name for: gzip header and trailer, largest window


def md5_of(content: bytes) -> str:
    """Return the md5 of `content`; it guards against damage, not against an adversary."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read_content(file: FoundFile, *, at_most: int) -> bytes:
    """Return a file's content, unzipped if it is gzipped, whatever its name says.

    More than `at_most` bytes are refused, so that a small file cannot fill the memory.
    """
    raw = file.path.read_bytes()
    content = _gunzip(file, raw, at_most) if raw.startswith(_GZIP_MAGIC) else raw
    if not content:
        raise file.is_wrong("must hold data", "It is empty")
    if len(content) > at_most:
        raise file.is_wrong(f"must hold at most {at_most:,} bytes", "It holds more")
    return content


def read_checked(file: FoundFile, *, at_most: int) -> tuple[bytes, SourceFile]:
    """Return a file's content and its record, after comparing it with the published md5."""
    content = read_content(file, at_most=at_most)
    found, published = md5_of(content), file.official.md5
    if published is not None and found != published:
        raise file.is_wrong(
            f"must have the published md5 {published}",
            f"The md5 of its content is {found}, so it is damaged or altered",
        )
    return content, SourceFile(file.path, found, "published md5" if published else "counts")


def _gunzip(file: FoundFile, raw: bytes, at_most: int) -> bytes:
    # One call on the whole buffer: several times faster than reading through `gzip.open`.
    inflater = zlib.decompressobj(_GZIP_FORMAT)
    try:
        content = inflater.decompress(raw, at_most + 1)
    except zlib.error as error:
        raise file.is_wrong("must be a whole gzip file", f"It is damaged ({error})") from None
    if not inflater.eof and len(content) <= at_most:
        raise file.is_wrong("must be a whole gzip file", "It ends too early: it is truncated")
    if inflater.unused_data:
        raise file.is_wrong(
            "must be one gzip file", f"{len(inflater.unused_data):,} bytes follow its end"
        )
    return content
