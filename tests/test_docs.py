"""Documentation is a test: every README block, every page and every example runs."""

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

import naysay
from naysay.cli import app
from naysay.experiments.records import RecordFile
from naysay.experiments.tables import markdown, summarise
from naysay.methods import METHODS, markdown_references, markdown_table
from naysay.report.reproduction_page import render_report_page
from naysay.suites import SUITES

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
        done = CliRunner().invoke(app, shlex.split(last, comments=True)[1:], input=piped)
        assert done.exit_code == 0, f"{line}\n{done.output}"


def run_python_blocks(page, monkeypatch, folder):
    """Run a page's Python blocks in one namespace; return what each printed, with what follows."""
    monkeypatch.chdir(folder)
    listed = blocks(page)
    namespace: dict[str, object] = {}
    for (language, text), follower in zip(listed, [*listed[1:], ("", "")], strict=True):
        if language == "sh" and page.parent.name == "docs":
            run_shell_block(text)
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(page), "exec"), namespace)
        yield printed.getvalue(), follower[1] if follower[0] == "text" else None


def prints_what_is_said(printed, said):
    """Compare what a block prints with the text block behind it; return whether there is one."""
    if said is None:
        return False
    # another processor may round another way: words must agree, figures nearly
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", said)
    figures = [list(map(float, NUMBER.findall(text))) for text in (printed, said)]
    assert figures[0] == pytest.approx(figures[1], rel=0.04)
    return True


def test_readme_blocks_print_what_the_readme_says(monkeypatch, tmp_path):
    ran = run_python_blocks(ROOT / "README.md", monkeypatch, tmp_path)
    assert sum(prints_what_is_said(printed, said) for printed, said in ran) >= 1


# the first runs where real data are (tests/datasets), the second quotes examples
TESTED_APART = {"data.md", "loops.md"}
PAGES = sorted(
    page.name
    for page in (ROOT / "docs").glob("*.md")
    if {"python", "sh"} & {language for language, _ in blocks(page)}
    and page.name not in TESTED_APART
)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_the_page_runs(name, monkeypatch, tmp_path):
    for printed, said in run_python_blocks(ROOT / "docs" / name, monkeypatch, tmp_path):
        prints_what_is_said(printed, said)
    if name == "command-line.md":
        made = {"Q.csv", "flowers-model", "flowers.csv", "flowers.pt2"}
        assert {path.name for path in tmp_path.iterdir()} > made


def test_every_block_is_of_a_kind_that_is_run():
    for page in (ROOT / "docs").glob("*.md"):
        fences = re.findall(r"^```(.*)$", page.read_text("utf-8"), re.MULTILINE)
        assert set(fences[::2]) <= {"python", "sh", "text"}, page.name  # text: what they print
        assert not any(fences[1::2]), page.name


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_commands_for_make_are_targets(name):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    asked = [
        target
        for _, text in blocks(ROOT / name)
        for target in re.findall(r"^make (\w+)", text, re.M)
    ]
    assert asked
    assert set(asked) <= set(targets)


def test_quoted_lines_are_those_of_the_example():
    page = (ROOT / "docs" / "loops.md").read_text("utf-8")
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
    "path", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.stem
)
def test_pictures_are_those_that_the_script_draws(path):
    drawn = runpy.run_path(str(path.parent / "draw.py"))["PICTURES"][path.name]()
    assert path.read_text("utf-8") == drawn, "run: python docs/pictures/draw.py"


def test_the_reference_has_every_public_module():
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    modules = {name for name in naysay.__all__ if isinstance(getattr(naysay, name), ModuleType)}
    listed = set(re.findall(r"^::: naysay\.(\w+)", page, re.MULTILINE))
    assert modules <= listed


# What Lightning itself does wrong, or advises on machines of more than two cores.
NOT_OURS = [
    "ignore:`isinstance(treespec, LeafSpec)` is deprecated:FutureWarning:"
    "pytorch_lightning.utilities._pytree",
    *(
        f"ignore:The '{name}' does not have many workers:UserWarning:"
        "pytorch_lightning.trainer.connectors.data_connector"
        for name in ("train_dataloader", "val_dataloader")
    ),
]
# One thread, as for all tests; no file of a hub is asked for.
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


@pytest.mark.parametrize(
    "script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem
)
def test_example_runs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, *(f"-W{rule}" for rule in ["error", *NOT_OURS]), str(script)],
        cwd=tmp_path,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "right" in done.stdout
    assert not done.stderr, "an example prints its result and nothing else"
    said = script.read_text("utf-8")
    assert all(path.name in said for path in tmp_path.iterdir()), "a file that it does not speak of"


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


def test_estimates_on_colour_images_are_those_of_the_records():
    page = (ROOT / "docs" / "estimating.md").read_text("utf-8")
    records = RecordFile(ROOT / "benchmarks" / "results" / "reproduction.jsonl").read()
    for setting in ("with0", "without0"):
        (record,) = [
            each
            for each in records
            if (each.spec.dataset, each.spec.setting, each.spec.knows, each.spec.recipe)
            == ("cifar-10", setting, "estimated Q", "best")
        ]
        errors = f"{record.q_error['estimated']:.3f} → {record.q_error['refined']:.3f}"
        assert f"{setting} {errors}" in " ".join(page.split())
        assert f"{100 * record.accuracy:.2f} %" in page
    for name, each in last_record("human").items():
        assert f"| {name} | {each['accuracy']:.1f} | {min(each['recalls']):.1f} |" in page
    human = last_record("gpu_estimation", on_gpu=True)["human human"]
    assert f"ended at {human['accuracy']:.1f} %" in page
    assert f"{human['precision_first_1000']:.1f} % were wrong" in page


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
    found = {"uniform": {}, "strong bias": {}}
    for line in lines:  # a later line stands for the methods in it
        for setting, of_methods in json.loads(line)["results"].items():
            found[setting] |= of_methods
    uniform, biased = found.values()
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    for name in METHODS:
        cells = [
            f"{record[name]['accuracy_mean']:.1f} ± {record[name]['accuracy_sd']:.1f}"
            for record in (uniform, biased)
        ]
        assert f"| `{name}` | {' | '.join(cells)} |" in page


def test_accuracies_of_two_views_are_those_of_the_record():
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    lines = (ROOT / "benchmarks" / "results" / "views.jsonl").read_text("utf-8").splitlines()
    found = {}
    for line in lines:  # one for MNIST, one for the digits; later ones stand
        found |= json.loads(line)["results"]
    for name, each in found.items():
        shown = ", ".join(f"{accuracy:.1f}" for accuracy in each["accuracies"])
        name = name.replace("two-views", "`two-views`").replace("forward", "`forward`")
        cells = f"{each['accuracy_mean']:.1f} ± {each['accuracy_sd']:.1f} | {shown}"
        assert f"| {name} | {cells} | {each['held_out_loss_mean']:.3f} |" in page


def last_record(name, *, on_gpu=False):
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text("utf-8").splitlines()
    records = map(json.loads, lines)
    return [each["results"] for each in records if bool(each["hardware"]["gpu"]) == on_gpu][-1]


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


def test_speeds_on_a_gpu_are_those_of_the_records():
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    training, many, cifar = (
        last_record(name, on_gpu=True) for name in ("gpu_training", "ensemble", "gpu_cifar")
    )
    written, captured, compiled = (
        training[f"ResNet-18 {how}"] for how in ("as written", "captured", "captured and compiled")
    )
    assert f"| {compiled['images_per_second']:,} |" in page
    assert f"| {captured['images_per_second']:,} · {written['images_per_second']:,} |" in page
    peaks = f"{compiled['peak_memory_gb']:.1f} · {compiled['peak_reserved_gb']:.1f} GB"
    assert f"| {peaks} |" in page
    small, lenets = many["300 networks 16-3-10"], many["5 LeNet-5"]
    assert f"16-3-10, {small['steps']:,} steps | ≤ 3 s | {small['seconds']:.1f} s |" in page
    assert f"5 trials × {lenets['steps']:,} steps" in page
    assert f"| ≤ 30 s | {lenets['seconds']:.1f} s |" in page
    of_many = (ROOT / "docs" / "many-at-once.md").read_text("utf-8")
    assert f"on one H200, {small['times_faster_than_one_after_another']:.0f} times less" in of_many
    assert f"took {lenets['times_faster_than_one_after_another']} times less" in of_many
    accuracy = f"{cifar['accuracy_mean']:.1f} % ± {cifar['accuracy_sd']:.1f}"
    assert f"| {accuracy} in {cifar['seconds_mean']:.1f} s |" in page


def test_what_threads_cost_is_that_of_the_record():
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    busy = last_record("threads")["busy"].values()
    times = [each["2 threads"] / each["1 threads"] for each in busy]
    assert f"takes {min(times):.0f} to {max(times):.0f} times as long" in page


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


def test_results_and_report_are_those_of_the_records():
    records = RecordFile(ROOT / "benchmarks" / "results" / "reproduction.jsonl").read()
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    found = page.partition("<!-- results: begin -->\n")[2].partition("<!-- results: end -->")[0]
    assert found == markdown(summarise(SUITES.values(), records)), "see docs/results.md"
    report = (ROOT / "docs" / "report.html").read_text("utf-8")
    assert report == render_report_page(records), (
        "run: naysay report RECORDS --out docs/report.html"
    )


def anchors(page):
    """Return the anchors of a page's headings, as MkDocs makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {slugify(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def slugify(heading):
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def test_links_between_files_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), f"{page.name} links to {target}"
            if page.parent.name == "docs" and path.startswith("../"):
                assert linked.is_file(), f"{page.name}: a site has no folder {target}"
            if anchor:
                assert anchor in anchors(linked), f"{page.name} links to {target}"


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    listed = re.findall(r": ([\w-]+\.md)$", menu, re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
