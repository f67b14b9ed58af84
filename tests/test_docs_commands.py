"""The page of all commands is what the program says."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_commands_is_up_to_date():
    make_page = runpy.run_path(str(DOCS / "commands.py"))["make_page"]
    page = (DOCS / "commands.md").read_text("utf-8")
    assert page == make_page(), "run: python docs/commands.py"
    for name in ("fit", "estimate", "data info"):
        assert f"## naysay {name}\n" in page
    assert "`--checkpoint FOLDER`" in page
    assert "Default: `0.001`" in page
