"""Documentation is a test: every README block, every page and every example runs."""

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from naysay.methods import markdown_references, markdown_table

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def blocks(page):
    """Return (language, text) of every fenced block of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run_python_blocks(page, monkeypatch, folder):
    """Run a page's Python blocks in one namespace; return what each printed, with what follows."""
    monkeypatch.chdir(folder)
    listed = blocks(page)
    namespace: dict[str, object] = {}
    for (language, text), follower in zip(listed, [*listed[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(page), "exec"), namespace)
        yield printed.getvalue(), follower[1] if follower[0] == "text" else None


def test_readme_blocks_print_what_the_readme_says(monkeypatch, tmp_path):
    n_compared = 0
    for printed, said in run_python_blocks(ROOT / "README.md", monkeypatch, tmp_path):
        if said is None:
            continue
        n_compared += 1
        # another processor may round another way: words must agree, figures to three points
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", said)
        assert list(map(float, NUMBER.findall(printed))) == pytest.approx(
            list(map(float, NUMBER.findall(said))), abs=3
        )
    assert n_compared >= 1


DOWNLOADS = {"data.md"}  # its blocks fetch data from their authors
PAGES = sorted(
    page.name
    for page in (ROOT / "docs").glob("*.md")
    if "```python" in page.read_text("utf-8") and page.name not in DOWNLOADS
)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_the_page_runs(name, monkeypatch, tmp_path):
    assert list(run_python_blocks(ROOT / "docs" / name, monkeypatch, tmp_path))


@pytest.mark.parametrize(
    "script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem
)
def test_example_runs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "right" in done.stdout


def test_readme_figures_are_those_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "demo.jsonl").read_text("utf-8").splitlines()
    record = json.loads(lines[-1])["results"]
    readme = (ROOT / "README.md").read_text("utf-8")
    for method in ("TL", "PC/S", "LM/T", "LM/E", "LM/E, anchors for Q only"):
        figures = [record[setting][method] for setting in ("uniform", "without0", "with0")]
        cells = [f"{each['accuracy_mean']:.1f} ± {each['accuracy_sd']:.1f}" for each in figures]
        assert f"| {method} | {' | '.join(cells)} |" in readme


def test_speed_of_the_statistics_is_that_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "statistics.jsonl").read_text("utf-8").splitlines()
    record = json.loads(lines[-1])["results"]
    page = (ROOT / "docs" / "no-true-labels.md").read_text("utf-8")
    assert f"take {record['total_seconds']:.0f} seconds" in page
    assert f"in {record['peak_gb']:.1f} GB" in page


@pytest.mark.parametrize(
    "part, printed", [("methods", markdown_table()), ("references", markdown_references())]
)
def test_table_of_methods_and_references_are_what_the_command_prints(part, printed):
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    found = page.partition(f"<!-- {part}: begin -->\n")[2].partition(f"<!-- {part}: end -->")[0]
    assert found == printed, "paste the output of: naysay methods --markdown"


def test_links_between_files_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
