"""The page of `naysay report`: what it says, and that a browser opens it without complaint."""

import dataclasses
import html
import re
import shutil
import subprocess

import numpy as np
import pytest

from html_reader import Page
from naysay import InvalidTransitionMatrix, TransitionMatrix
from naysay.experiments.records import RunRecord
from naysay.experiments.suites import SUITES
from naysay.report.page import write_page
from naysay.report.pictures import Point, make_convergence
from naysay.report.reproduction import render_report_page

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
LEVELS = {"TL": 0.991, "PC/S": 0.7, "LM": 0.9, "LM/T": 0.97, "LM/E": 0.96}


def make_record(cell, spec, *, device="NVIDIA H200"):
    method = cell.row if cell.row in LEVELS else cell.column
    history = [
        {"epoch": epoch, "loss": 2 / epoch, "held_out_loss": 2 / epoch + 0.01 * epoch}
        for epoch in range(1, 21)
    ]
    rows = np.asarray(TransitionMatrix.with_zeros(10, seed=spec.trial)).round(4).tolist()
    other = np.asarray(TransitionMatrix.uniform(10)).round(4).tolist()
    is_estimate = spec.knows == "estimated Q"
    return RunRecord(
        spec=spec,
        accuracy=LEVELS.get(method, 0.5) + 0.001 * spec.trial,
        seconds=12.5,
        device=device,
        estimates={"held_out_loss": 1.0, "accuracy": 0.9, "accuracy_standard_error": 0.01},
        q_error={"estimated": 0.246, "refined": 0.024} if is_estimate else {},
        matrices={"true": rows, "estimated": other, "refined": rows} if is_estimate else {},
        history=history,
        versions={"naysay": "0.1.0", "torch": "2.9", "scipy": None},
        git_commit="abc1234",
        time=f"2026-01-0{1 + spec.trial}T00:00:00Z",
    )


def make_records(*names, recipe="paper", trials=2, only="*"):
    unique = {
        spec: make_record(cell, spec)
        for name in names
        for cell, spec in SUITES[name].specs(recipe, trials=trials, only=only)
    }
    return list(unique.values())


@pytest.fixture(scope="module")
def page():
    records = make_records("table2", "figure-q", "figure-convergence")
    return render_report_page([*records, *make_records("table1", recipe="quick", only="USPS")])


def test_a_record_with_a_matrix_of_zeros_is_refused():
    record, *_ = make_records("figure-q", trials=1)
    zeros = np.zeros((10, 10)).tolist()
    odd = dataclasses.replace(record, matrices={"true": zeros, "estimated": zeros})
    with pytest.raises(InvalidTransitionMatrix):
        render_report_page([odd])


def text_of(page):
    body = page.partition("<body>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).replace("\xa0", " ").split())


def test_the_page_is_well_formed_and_its_links_lead_somewhere(page):
    read = Page(page)  # it refuses a tag left open, or closed twice
    ids = [element["id"] for element in read.elements if "id" in element]
    links = [link["href"] for link in read.all("a")]
    assert len(set(ids)) == len(ids)
    assert links
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_nothing_is_loaded_and_nothing_is_run(page):
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?!#|data:,)", page)
    assert "url(" not in page
    assert "@import" not in page


def test_ours_stands_beside_published_with_the_difference_and_the_verdict(page):
    text = text_of(page)
    # LM/T: 97.0 and 97.1, published 97.18 ± 0.45
    near = "97.05 ± 0.07 2 trials, equal, = -0.13 [-0.69, +0.43] published 97.18 ± 0.45"
    assert near.replace("-", "\N{MINUS SIGN}") in text
    # PC/S with0: 70.05 against 29.12 ± 1.94
    far = "70.05 ± 0.07 2 trials, better, ▲ +40.93 [+38.52, +43.34] published 29.12 ± 1.94"
    assert far in text
    assert "▲ 1 = 2 ▼ 6 ? 3" in text  # of Table 2
    assert "error of estimated Q 0.246" in text
    assert "error of refined Q 0.024" in text


def test_scaled_down_runs_are_shown_but_not_judged(page):
    text = text_of(page)
    assert "scaled down: not compared" in text
    assert "90.05 ± 0.07 2 trials published 86.4 (4.5)" in text


def test_what_was_not_run_is_listed_with_its_reason(page):
    missing = text_of(page).partition("What was not run")[2]
    assert "Table 4: CIFAR-100 and Tiny ImageNet : no run." in missing
    assert "recipe: fewer than 5 trials in 12 of 12 figures" in missing
    few = make_records("table1", only="USPS*LM", trials=20)
    missing = text_of(render_report_page(few)).partition("What was not run")[2]
    assert "DRIVE 1 ~ 10, LM. Only 2,200 of the 58,509 examples of DRIVE were available" in missing
    assert "USPS 1 ~ 5, PC/S" in missing
    assert "USPS 1 ~ 5, LM" not in missing
    assert "fewer than" not in missing


def test_deviations_are_listed_for_the_recipes_shown(page):
    text = text_of(page)
    assert "Learning rate 1e-2 for TL and LM; the paper prints 1e-4." in text
    assert "(Table 2, Table 5, Table 6, Table 7, figure of Q)" in text
    assert "Scaled down" in text
    assert "two views of each image" not in text  # `best` was not run


def test_hardware_seconds_versions_and_commit_are_said(page):
    text = text_of(page)
    assert "NVIDIA H200" in text
    assert "12.5 seconds each" in text
    assert "commit abc1234" in text
    assert "torch 2.9" in text
    assert "scipy" not in text.partition("Runs ended")[2]
    assert "between 2026-01-01T00:00:00Z and 2026-01-02T00:00:00Z" in text


def test_heat_maps_have_values_to_hover_over(page):
    section = page.partition('id="figure-q-paper"')[2].partition("</section>")[0]
    assert section.count('title="') == 6 * 3 * 100
    assert [section.count(f"<b>{name}.</b>") for name in ("True Q", "Estimated", "Refined")] == [
        6,
        6,
        6,
    ]


def test_the_convergence_figure_has_a_point_for_every_size(page):
    section = page.partition('id="figure-convergence-paper"')[2].partition("</section>")[0]
    assert section.count("<circle") == 20
    assert "with0, 5,000 examples: 50.05 % ± 0.07, 2 trials" in section
    assert "uniform, 50,000 examples" in section


def test_convergence_places_points_in_order_and_names_apart():
    points = [Point(n_examples=n, mean=m, sd=1.0, n_trials=3) for n, m in ((10, 5.0), (5, 1.0))]
    drawn = make_convergence({"a": points, "b": points, "none": []})
    assert [line.name for line in drawn.lines] == ["a", "b"]
    first, last = drawn.lines[0].points
    assert drawn.x(first.n_examples) < drawn.x(last.n_examples)
    assert drawn.y(first.mean) > drawn.y(last.mean)  # up is more
    assert abs(drawn.lines[0].label_at - drawn.lines[1].label_at) >= 14
    assert make_convergence({"a": []}) is None


def test_records_of_no_suite_are_counted():
    records = make_records("table2", trials=1, only="LM/T, with0")
    foreign = make_records("table2", recipe="best", trials=1, only="LM/T, with0")[0]
    odd = RunRecord(
        spec=type(foreign.spec)(**{**foreign.spec.as_json(), "recipe": "mine"}),
        accuracy=0.5,
        seconds=1.0,
        device="x",
    )
    assert "1 records belong to no table" in render_report_page([*records, odd])


def browse(path, *arguments):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    return subprocess.run(
        [*command, "--enable-logging=stderr", "--v=0", *arguments, path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_opens_the_page_from_disk_without_complaint(tmp_path):
    records = make_records("table2", "figure-q", "figure-convergence", trials=1)
    path = write_page(render_report_page(records), tmp_path / "report.html")
    # no network: every request but that for the file itself would fail, and be logged
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    shot = tmp_path / "page.png"
    done = browse(path, offline, "--window-size=1280,2000", f"--screenshot={shot}")
    assert shot.stat().st_size > 20_000
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_browser_would_complain(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('no')</script><img src='missing.png'>")
    assert "CONSOLE" in browse(bad, "--dump-dom").stderr


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_does_not_scroll_sideways_on_a_phone(tmp_path):
    records = make_records("table2", "figure-q", "figure-convergence", trials=1)
    path = write_page(render_report_page(records), tmp_path / "report.html")
    # a frame as wide as a phone: a window of a headless browser may refuse to be so narrow
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"<iframe id=f width=390 height=800 src='{path.name}'></iframe><script>"
        "f.onload = () => { const d = f.contentDocument.documentElement;"
        " document.title = `${d.scrollWidth} of ${d.clientWidth}`; }</script>"
    )
    done = browse(frame, "--allow-file-access-from-files", "--dump-dom")
    wide, room = map(int, re.search(r"<title>(\d+) of (\d+)", done.stdout).groups())
    assert wide <= room
