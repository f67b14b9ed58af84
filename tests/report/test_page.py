"""Properties of every page: how numbers read, and a file that is written whole or not at all.

How files are replaced is tested in ``tests/_base/test_files.py``.
"""

import os
import stat
from importlib.resources import files

import pytest

from demo_results import make_result
from naysay import InvalidInput
from naysay._base.files import check_target
from naysay.report.demo import render_demo_page
from naysay.report.page import percent, with_article, write_page


def test_write_returns_the_path_and_replaces_what_was_there(tmp_path):
    path = tmp_path / "demo.html"
    path.write_text("old")
    result = make_result()
    assert write_page(render_demo_page(result), str(path)) == path
    assert path.read_text("utf-8") == render_demo_page(result)
    assert os.listdir(tmp_path) == ["demo.html"]


def test_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    path = write_page(render_demo_page(make_result()), tmp_path / "demo.html")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_a_path_that_cannot_be_written_is_refused_before_and_after_the_work(tmp_path):
    (tmp_path / "file").touch()
    problems = {
        tmp_path: r"must name a file.*Got the folder.*page\.html",
        tmp_path / "nowhere" / "demo.html": "folder that exists.*no folder '.*nowhere': create",
        tmp_path / "file" / "demo.html": "there is no folder",
    }
    for path, problem in problems.items():
        with pytest.raises(InvalidInput, match=problem):
            check_target(path, usual="page.html")
        with pytest.raises(InvalidInput, match=problem):
            write_page(render_demo_page(make_result()), path)
    assert os.listdir(tmp_path) == ["file"]


def test_numbers_read_well():
    plain = [percent(x, d).replace("\xa0", " ") for x, d in [(0.99951, 1), (0.9, 0), (0.0, 1)]]
    assert plain == ["> 99.9 %", "90 %", "0.0 %"]
    named = [with_article(name).replace("\xa0", " ") for name in ("7", "8", "owl", "cat", "")]
    assert named == ["a 7", "an 8", "an owl", "a cat", "a "]


@pytest.mark.parametrize("name", ["demo", "fit", "report"])
def test_every_page_forbids_scripts_and_requests(name):
    """A policy of the page itself, so that a class name could do nothing even if unescaped."""
    template = f"{name}.html.j2"
    assert '{% include "head.html.j2" %}' in files("naysay.report.templates").joinpath(
        template
    ).read_text("utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    head = render_demo_page(make_result()).partition("</head>")[0]
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in head
