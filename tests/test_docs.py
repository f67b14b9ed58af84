"""Documentation is a test: every README block, every page and every example runs."""

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from naysay.cli import app
from naysay.methods import METHODS, markdown_references, markdown_table

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def blocks(page):
    """Return (language, text) of every fenced block of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run_shell_block(text):
    """Run the lines of a block; naysay in this process, what is piped into it in a shell."""
    for line in text.splitlines():
        before, _, last = line.rpartition(" | ")
        if not last.startswith("naysay "):
            subprocess.run(["bash", "-c", line], check=True, capture_output=True)
            continue
        piped = None
        if before:
            shell = ["bash", "-c", before]
            piped = subprocess.run(shell, check=True, capture_output=True, text=True).stdout
        done = CliRunner().invoke(app, shlex.split(last)[1:], input=piped)
        assert done.exit_code == 0, f"{line}\n{done.output}"


def run_python_blocks(page, monkeypatch, folder, *, run_shell=False):
    """Run a page's Python blocks in one namespace; return what each printed, with what follows."""
    monkeypatch.chdir(folder)
    listed = blocks(page)
    namespace: dict[str, object] = {}
    for (language, text), follower in zip(listed, [*listed[1:], ("", "")], strict=True):
        if language == "sh" and run_shell:
            run_shell_block(text)
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


# the first fetches data from their authors, the second has commands between its blocks
TESTED_APART = {"data.md", "command-line.md"}
PAGES = sorted(
    page.name
    for page in (ROOT / "docs").glob("*.md")
    if "```python" in page.read_text("utf-8") and page.name not in TESTED_APART
)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_the_page_runs(name, monkeypatch, tmp_path):
    assert list(run_python_blocks(ROOT / "docs" / name, monkeypatch, tmp_path))


def test_every_command_of_the_page_runs(monkeypatch, tmp_path):
    page = ROOT / "docs" / "command-line.md"
    assert list(run_python_blocks(page, monkeypatch, tmp_path, run_shell=True))
    made = {"Q.csv", "flowers-model", "flowers.csv", "flowers.pt2"}
    assert {path.name for path in tmp_path.iterdir()} > made


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


def merged_records(name):
    """Return the last record of each key of a file."""
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text("utf-8").splitlines()
    merged = {}
    for line in lines:
        merged |= json.loads(line)["results"]
    return merged


def test_figures_of_estimating_are_those_of_the_record():
    record = merged_records("estimation")
    page = (ROOT / "docs" / "estimating.md").read_text("utf-8")
    settings = ("uniform", "without0", "with0")
    for case in record["digits with0"]:
        n_anchors, size = NUMBER.findall(case)
        figures = [record[f"digits {setting}"][case] for setting in settings]
        cells = [f"{each['anchors']:.3f} → {each['refined']:.3f}" for each in figures]
        assert f"| {n_anchors} | {size} | {' | '.join(cells)} |" in page
    for setting in settings:
        each = record[f"mnist {setting}"]
        accuracies = f"{100 * each['accuracy']:.1f} | {100 * each['accuracy_true_Q']:.1f}"
        errors = f"{each['anchors']:.3f} → {each['refined']:.3f}"
        assert f"| {setting} | {errors} | {accuracies} |" in page


def test_error_by_size_coverage_and_speed_of_estimating_are_those_of_the_record():
    record, page = (
        merged_records("estimation"),
        (ROOT / "docs" / "estimating.md").read_text("utf-8"),
    )
    settings = ("uniform", "without0", "with0")
    for size in ("1000 ", "3000 ", "10000 ", ""):
        figures = [record[f"mnist {size}{setting}"] for setting in settings]
        cells = [f"{each['anchors']:.3f} → {each['refined']:.3f}" for each in figures]
        assert f"| {int(size or 60_000):,} | {' | '.join(cells)} |" in page
    for strength in ("20", "100"):
        for setting in settings:
            each = record[f"coverage {setting}, first from {strength}"]
            assert each["holds_the_estimate"] == 1
            errors = f"{each['error_of_the_first']:.2f} | {each['error_of_the_estimate']:.2f}"
            assert f"| {setting} | {errors} | {100 * each['coverage']:.1f} % |" in page
    large = record["all 1000000 x 100"]
    assert f"{large['total_cpu_seconds']:.0f} seconds of processor time" in page
    assert f"{large['peak_gb']:.1f} GB" in page


def test_what_cures_dead_classes_is_that_of_the_record():
    record = merged_records("cures")
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    for cure in record["lr 0.1"]:
        cells = []
        for rate in ("lr 0.1", "lr 0.02"):
            each = record[rate].get(cure)
            cells += (
                ["", ""]
                if each is None
                else [
                    f"{each['accuracy_mean']:.1f} ± {each['accuracy_sd']:.1f}",
                    f"{each['trainings_with_a_dead_class']} of 6",
                ]
            )
        assert f"| {cure} | {' | '.join(cells)} |" in page


def test_accuracies_of_methods_are_those_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "methods.jsonl").read_text("utf-8").splitlines()
    uniform, biased = (json.loads(line)["results"].popitem()[1] for line in lines[-2:])
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    for name in METHODS:
        cells = [
            f"{record[name]['accuracy_mean']:.1f} ± {record[name]['accuracy_sd']:.1f}"
            for record in (uniform, biased)
        ]
        assert f"| `{name}` | {' | '.join(cells)} |" in page


def last_record(name):
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["results"] for line in lines][-1]


def test_speeds_are_those_of_the_records():
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    training, core = last_record("training"), last_record("core")
    assert f"| {training['ratio to by hand']:.2f} |" in page
    assert f"| {training['ratio to DataLoader']:.2f} |" in page
    for size in ("(256, 10)", "(1024, 1000)"):
        uniform, dense = (
            core[f"forward_cross_entropy {kind} {size}"]["ratio"] for kind in ("uniform", "dense")
        )
        assert f"| {uniform:.2f} uniform, {dense:.2f} dense |" in page
    many = last_record("ensemble")["300 networks 16-3-10"]
    assert f"| {many['times_faster_than_one_after_another']} |" in page
    gpu = last_record("gpu_training")
    assert f"{gpu['ResNet-18 captured and compiled']['images_per_second']:,}" in page


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
