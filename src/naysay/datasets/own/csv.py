"""Parse CSV files.

Every cell is read as text first. A column is then converted to numbers only if all of its cells are
numbers or missing, so that its type does not depend on which rows come first.
"""

import codecs
import csv
import io
import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.csv as pa_csv

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay.datasets.own.columns import check_width, refuse_repeated, with_numbers
from naysay.datasets.own.formats import line_of, refuse_encoding, refuse_long_row, text_reader

_SAVE_AS_UTF8 = "\nSave it again as UTF-8 (in Excel, choose 'CSV UTF-8')."
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
LONGEST_ROW = 1 << 23  # bytes; also the block size of the parser, which cannot split a row


def check_csv_options(delimiter: str | None, decimal: str) -> None:
    """Check the delimiter and the decimal mark of a CSV file."""
    if delimiter is not None and (
        len(delimiter) != 1 or delimiter in '"\r\n\0' or not delimiter.isascii()
    ):
        raise InvalidInput(
            f"delimiter must be one character of ASCII, such as ';'. Got {delimiter!r}."
        )
    if decimal not in (".", ",") or decimal == delimiter:
        raise InvalidInput(
            "decimal must be '.' or ',', and it must differ from the delimiter. "
            f"Got decimal {decimal!r} and delimiter {delimiter!r}."
        )


def parse_csv(
    data: bytes,
    source: str,
    *,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Parse the bytes of a CSV file in UTF-8, with the parameters of `read_table`."""
    check_csv_options(delimiter, decimal)
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if re.search(rb"\S", data) is None:
        raise InvalidData(f"{source} must contain a table with a header. It is empty.")
    position = data.find(b"\0")
    if position >= 0:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InvalidData(
                f"{source} must be text in UTF-8. It is in UTF-16. Save it again as UTF-8 (in "
                "Excel, choose 'CSV UTF-8')."
            )
        raise InvalidData(
            f"{source} must be text in UTF-8. Line {line_of(data, position)} holds a NUL byte: the "
            "file is damaged, or it is not a CSV file."
        )
    names, delimiter = read_header(data, source, delimiter)
    table = _read_cells(data, source, names, delimiter)
    if not table.num_rows:
        raise InvalidData(f"{source} must have rows below its header. It has only the header.")
    _check_quotes(data, table.num_rows, source, delimiter)
    return with_numbers(table, text, decimal)


def read_header(data: bytes, source: str, delimiter: str | None) -> tuple[list[str], str]:
    """Read the column names of a CSV file, and find its delimiter."""
    decoder = codecs.getincrementaldecoder("utf-8")()  # accepts a character that the limit cuts
    try:
        start = decoder.decode(data[:LONGEST_ROW], final=len(data) <= LONGEST_ROW)
    except UnicodeDecodeError as error:
        refuse_encoding(data, source, error, _SAVE_AS_UTF8)
    if delimiter is None:
        first_line = re.sub(r'"[^"]*"', "", start).splitlines()[:1]
        counts = {mark: "".join(first_line).count(mark) for mark in _DELIMITERS}
        delimiter = max(counts, key=lambda mark: counts[mark])
    try:
        header = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise InvalidData(
            f"{source} must begin with a row of column names. Its first row cannot be read: "
            f"{error}."
        ) from None
    check_width(len(header), source)
    names = [name.strip() for name in header]
    refuse_repeated([name for name in names if name], source)
    # A row index that pandas saved has no name. `read_table` removes it by the one given here.
    unnamed = iter(range(1, len(names) + 1))
    return [name or f"unnamed column {next(unnamed)}" for name in names], delimiter


def _read_cells(data: bytes, source: str, names: list[str], delimiter: str) -> pa.Table:
    if not data.endswith((b"\n", b"\r")):
        data += b"\n"  # the parser regards a header without a line end as a truncated row
    try:
        return _parse(data, names, delimiter, use_threads=True)
    except pa.ArrowInvalid as error:
        if "straddl" in str(error):
            refuse_long_row(source, LONGEST_ROW)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse_encoding(data, source, error, _SAVE_AS_UTF8)
    try:
        # Without threads, the parser counts rows, and the error can name the row.
        return _parse(data, names, delimiter, use_threads=False)
    except pa.ArrowInvalid as error:
        found = re.search(r"Row #(\d+): Expected \d+ columns, got (\d+)", str(error))
        if found is None:
            raise InvalidData(
                f"{source}: this must be a CSV table, and it cannot be parsed: "
                f"{shorten(str(error))}."
            ) from None
        row, n_cells = found.groups()
        mark = f"{_DELIMITERS.get(delimiter, 'character')} {delimiter!r}"
        raise InvalidData(
            f"{source}: every row must have {len(names)} cells, like the header. Row {row} (the "
            f"header is row 1) has {n_cells}.\nThe delimiter is the {mark}. Put cells that contain "
            "it in double quotes, or pass another delimiter= (--delimiter)."
        ) from None


def _parse(data: bytes, names: list[str], delimiter: str, *, use_threads: bool) -> pa.Table:
    return pa_csv.read_csv(
        text_reader(data, longest=LONGEST_ROW),
        read_options=pa_csv.ReadOptions(
            use_threads=use_threads,
            block_size=LONGEST_ROW,
            column_names=names,
            skip_rows_after_names=1,
        ),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def quoted_cell(delimiter: str) -> bytes:
    """Write a pattern for a quoted cell, which may be cut off; 5" pipe is not a quoted cell."""
    return rb'(?<![^%b\r\n])"[^"]*+(?:""[^"]*+)*+"?' % re.escape(delimiter.encode())


def _check_quotes(data: bytes, n_rows: int, source: str, delimiter: str) -> None:
    """Refuse a quote that is never closed, which makes the rest of the file one cell."""
    if data.count(b'"') % 2 == 0:
        return
    last = b""
    for cell in re.finditer(quoted_cell(delimiter), data):
        last = cell[0]
    if last.count(b'"') % 2 and b"\n" in last.rstrip(b"\r\n"):
        raise InvalidData(
            f"{source} must close every double quote. The quote that row {n_rows + 1} opens is "
            "never closed, and its cell runs to the end of the file: close or remove it."
        )
