"""Text from data never steers the terminal that it is printed on."""

import io

import pytest
from rich.table import Table

from naysay._base.terminal import Console, say, visible

CODES = "a\x1b[31mb\r\x07\x9b2J\u202ec"
SHOWN = r"a\x1b[31mb\r\x07\x9b2J\u202ec"


def test_control_characters_are_spelled_out_and_all_other_text_is_kept():
    assert visible(CODES) == SHOWN
    for text in ("two\nlines\tand a tab", "naïve 猫 😀 ﻋ \u200d", r"\x1b", "\udcff"):
        assert visible(text) == text


@pytest.mark.parametrize("err", [False, True])
def test_what_is_said_is_visible(err, capsys):
    say(CODES, err=err)
    assert capsys.readouterr()[err] == f"{SHOWN}\n"


def test_strings_and_cells_of_a_table_are_visible_and_no_markup():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=200)
    table = Table(CODES, title=CODES)
    table.add_row(f"[/b]:cat:{CODES}")
    console.print(CODES, table)
    assert stream.getvalue().count(SHOWN) == 4
    assert f"[/b]:cat:{SHOWN}" in stream.getvalue()
    assert all(character == "\n" or character.isprintable() for character in stream.getvalue())
