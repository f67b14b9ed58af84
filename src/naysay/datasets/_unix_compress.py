"""Files made by the Unix program `compress` (`.Z`): the UCI repository still serves some.

The format is LZW with codes that grow from 9 bits to 10..16. Neither Python nor the packages
that naysay depends on can read it.
"""

from collections.abc import Iterator

__all__ = ["MAGIC", "decompress"]

MAGIC = b"\x1f\x9d"
_CLEAR = 256  # the code that empties the table, in block mode
_FIRST_WIDTH = 9


def decompress(data: bytes, *, at_most: int) -> bytes:
    """Return the content of a `.Z` file.

    Raises
    ------
    ValueError
        If the data are not in this format, are damaged, or hold more than `at_most` bytes.

    Examples
    --------
    >>> decompress(bytes.fromhex("1f9d9061c40404"), at_most=10)
    b'abab'
    """
    if len(data) < 3 or not data.startswith(MAGIC):
        raise ValueError("it does not begin with 1f 9d")
    most_width, block_mode = data[2] & 0x1F, bool(data[2] & 0x80)
    if not _FIRST_WIDTH < most_width <= 16:
        raise ValueError(f"it has codes of {most_width} bits")
    table = [bytes([value]) for value in range(256)] + [b""] * block_mode
    pieces: list[bytes] = []
    n_bytes, previous = 0, b""
    for code in _codes(data, most_width, table, block_mode=block_mode):
        if code == _CLEAR and block_mode:
            del table[257:]
            previous = b""
            continue
        if code < len(table):
            entry = table[code]
        elif code == len(table) and previous:
            entry = previous + previous[:1]  # the code that is being defined right now
        else:
            raise ValueError(f"it is damaged: code {code} is not defined yet")
        if previous and len(table) < 1 << most_width:
            table.append(previous + entry[:1])
        previous = entry
        pieces.append(entry)
        n_bytes += len(entry)
        if n_bytes > at_most:
            raise ValueError(f"it holds more than {at_most:,} bytes")
    return b"".join(pieces)


def _codes(data: bytes, most_width: int, table: list[bytes], *, block_mode: bool) -> Iterator[int]:
    """Yield the codes, each as wide as the table, which grows meanwhile, asks for."""
    width, start, taken = _FIRST_WIDTH, 3, 0  # `taken` codes of this width since byte `start`
    while True:
        bit = taken * width
        at = start + bit // 8
        if (len(data) - at) * 8 - bit % 8 < width:
            return
        window = int.from_bytes(data[at : at + 3], "little")
        code = (window >> bit % 8) & ((1 << width) - 1)
        taken += 1
        yield code
        is_clear = block_mode and code == _CLEAR
        if is_clear or (len(table) >= 1 << width and width < most_width):
            # `compress` writes groups of 8 codes: what is left of the last group is padding.
            start += -(-taken // 8) * width
            taken = 0
            width = _FIRST_WIDTH if is_clear else width + 1
