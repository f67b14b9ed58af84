"""Compare the map in CONTRIBUTING with the sources, and follow its five steps to add a loss."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from places import ROOT, SOURCE

pytestmark = pytest.mark.unmeasured
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAP, _, STEPS = PAGE.partition("## How to add a loss")
COPIED = [
    *("pyproject.toml", "docs/methods.md", "tests/conftest.py", "tests/test_docs_figures.py"),
    *("src", "tests/support", "tests/functional", "tests/methods"),
]


def test_the_map_has_every_package():
    listed = re.findall(r"^  (\w+)(?:/|\.py) ", MAP, re.MULTILINE)
    there = [path.stem for path in (SOURCE / "naysay").iterdir() if path.name[:2] != "__"]
    assert sorted(listed) == sorted(set(there) - {"py"})


def test_the_rows_are_those_that_are_enforced():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    rows = re.findall(r"^\| (\d) \| (.*) \|$", MAP, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(len(layers), 0, -1))
    assert [re.findall(r"\w+", packages) for _, packages in rows] == [
        re.findall(r"\w+", packages) for packages in layers
    ]


def test_files_to_start_in_exist():
    named = re.findall(r"`(src/[\w./]+)`", MAP)
    assert len(named) > 10
    for name in named:
        assert (ROOT / name).exists(), name


def test_the_steps_are_five():
    assert re.findall(r"^### (\d)\.", STEPS, re.MULTILINE) == list("12345")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Copy the repository and put each block of the five steps where its first line says."""
    root = tmp_path_factory.mktemp("house")
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    block = r"^```(?:python|csv)\n# ([\w./]+)(?:, in ([\w ]+))?\n(.*?)^```"
    blocks = re.findall(block, STEPS, re.S | re.M)
    assert len(blocks) == STEPS.count("```python") + STEPS.count("```csv")
    for name, place, text in blocks:
        put(root / name, place, text)
    return root


# Both in one interpreter, because loading torch takes longer than either.
REGENERATE_AND_TEST = """
import sys
from pathlib import Path
import pytest
from typer.testing import CliRunner
from naysay.cli import app

page = Path("docs/methods.md")
printed = CliRunner().invoke(app, ["methods", "--markdown"]).stdout.partition("\\n\\n")
written = page.read_text("utf-8")
for part, new in zip(("methods", "references"), printed[::2], strict=True):
    begin, end = f"<!-- {part}: begin -->\\n", f"<!-- {part}: end -->"
    before, after = written.partition(begin)[0], written.partition(end)[2]
    written = f"{before}{begin}{new.rstrip()}\\n{end}{after}"
page.write_text(written, "utf-8")
assert "`scl-sq`" in printed[0]  # the command line knows the new method
sys.exit(pytest.main(sys.argv[1:]))
"""


def put(path, place, text):
    """Insert text into a module: into what `place` names, after its imports, or at its end."""
    if path.suffix == ".csv":
        path.write_text(path.read_text("utf-8") + text, "utf-8")
        return
    lines = path.read_text("utf-8").splitlines(keepends=True)
    nodes = ast.parse("".join(lines)).body
    if not place:
        at = len(lines)
        text = f"\n\n{text}"
    elif place == "the imports":
        at = max(node.end_lineno for node in nodes if isinstance(node, ast.ImportFrom))
    else:
        (at,) = [node.end_lineno for node in nodes if place in names_of(node)]
        while re.fullmatch(r"\s*[])}]\n", lines[at - 1]):
            at -= 1
    path.write_text("".join([*lines[:at], text, *lines[at:]]), "utf-8")


def names_of(node):
    """List the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def run(root, *arguments):
    """Run Python in the copy of the repository, with its sources, and capture the output."""
    environment = {"PYTHONPATH": str(root / "src"), "COLUMNS": "200"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # loading them takes seconds
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_five_steps_add_a_loss_that_passes_its_tests(house):
    new = "SurrogateSquared or surrogate_squared or scl-sq"
    whole = "names_are_those or references_are_lasting or table_of_methods"
    paths = ["tests/functional/test_surrogates.py", "tests/methods", "tests/test_docs_figures.py"]
    options = ["-q", "-p", "no:cacheprovider", "-k", f"{new} or {whole}"]
    printed = run(house, "-c", REGENERATE_AND_TEST, *options, *paths)
    passed = int(re.search(r"(\d+) passed", printed)[1])
    assert passed > 20


def test_the_five_steps_leave_clean_code(house):
    run(house, "-m", "ruff", "check", "--quiet", "--fix", "src", "tests")
    run(house, "-m", "ruff", "format", "--quiet", "src", "tests")
    run(house, "-m", "ruff", "check", "--quiet", "src", "tests")
