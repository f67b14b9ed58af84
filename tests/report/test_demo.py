"""The demo's page, from a result made by hand: nothing is trained here."""

import dataclasses
import html
import re
import shutil
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
from sklearn.datasets import load_digits

from demo_results import NAMES, make_result, make_run
from html_reader import Page
from naysay import TransitionMatrix
from naysay.report.demo import render_demo_page
from naysay.report.page import write_page


@pytest.fixture(scope="module")
def text():
    return render_demo_page(make_result())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_page_says_what_happened(page):
    assert page.text("h1") == "Learning digits from “not a 7”"
    opening = page.text("header")
    assert "1,347 images of handwritten digits" in opening
    assert "except for 10 per digit" in opening
    assert "94.9 % of 450 images that it has never seen" in opening
    assert "97.6 %" in opening


def test_table_holds_every_run_and_highlights_the_estimated_one(page):
    assert [e["text"] for e in page.all("th", scope="row") if e.get("role")] == list(NAMES)
    numbers = [e["text"] for e in page.all("td") if "accuracy" in e.get("class", "")]
    assert [" ".join(number.split()) for number in numbers] == [
        "97.6 %",
        "5.1 %",
        "93.8 %",
        "94.9 %",
        "90.2 %",
    ]
    errors = [e["text"].strip() for e in page.all("td") if e.get("data-name") == "Error of Q"]
    assert errors == ["–none", "–none", "–none", "0.198", "–none"]
    seconds = [e["text"] for e in page.all("td") if e.get("data-name") == "Seconds"]
    assert seconds == ["1.5"] * 5
    (ours,) = page.all("tr", **{"class": "ours"})
    assert "LM/E" in ours["text"]
    assert "1,347 labels “not a …”, and 100 true labels" in ours["text"]
    alone = page.all("tr", role="row")[-1]["text"]
    assert alone.split()[:5] == ["anchors", "alone", "100", "true", "labels"]
    assert "support vector machine" in alone


def test_page_says_which_models_are_mixed(page):
    words = " ".join(page.text("main").split())
    assert "LM/E is 95 % kernel, 5 % trees." in words
    assert "those of one of its networks" in words
    runs = [make_run("LM/E", 0.9)]
    assert "mixture" not in Page(render_demo_page(make_result(runs=runs))).text("main")


def test_strip_shows_what_was_said_and_whether_the_model_is_right(page):
    right, wrong = page.all("li")[:2]
    flat = [" ".join(element["text"].split()) for element in (right, wrong)]
    assert flat[0] == "“not a 7” prediction: 1 (97 %) right"
    assert flat[1] == "“not an 8” prediction: 4 (> 99 %) wrong, it is a 1"
    assert {e["aria-label"] for e in page.all("svg", **{"class": "pixels"})} == {"Image of a\xa01"}
    assert "right on 1 of them" in page.text("main")


def test_both_heat_maps_have_all_cells_with_their_values(page):
    result = make_result()
    cells = [e for e in page.all("td") if e.get("style", "").startswith("--heat")]
    values = np.array([int(cell["text"]) for cell in cells]).reshape(2, 10, 10)
    exact = np.stack([np.asarray(result.true_transition), np.asarray(result.estimated_transition)])
    assert np.abs(values - 100 * exact).max() <= 0.5
    heat = np.array([float(cell["style"].removeprefix("--heat:")) for cell in cells])
    np.testing.assert_allclose(heat.reshape(exact.shape), exact / exact.max(), atol=6e-4)
    shares = [float(re.search(r"in ([\d.]+)\s%", cell["title"])[1]) for cell in cells]
    np.testing.assert_allclose(np.reshape(shares, exact.shape), 100 * exact, atol=0.051)
    assert cells[3]["title"].replace("\xa0", " ").startswith("a 0 is called “not a 3” in ")


def test_words_under_the_heat_maps_agree_with_the_figures(page):
    words = page.text("main")
    diagnosis = make_result().true_transition.diagnose()
    assert "differs from the true row by 0.20 on average" in words
    assert "it expects about 10 of 100 labels to name another digit" in words
    assert f"{diagnosis.bits_per_label:.2f} of the 3.32 bits of a true label" in words
    assert f"that is {diagnosis.share_of_true_label:.1%}".replace("%", " %") in words
    assert "with a uniform matrix it would be 4.6 %" in words
    assert "Q can be inverted" in words


def test_each_run_has_a_chart_with_its_best_epoch(page):
    charts = page.all("svg", **{"class": "chart"})
    assert [chart["aria-label"].split(":")[0] for chart in charts] == list(NAMES[:-1])
    assert all(chart["role"] == "img" for chart in charts)
    best = [e["text"] for e in page.all("text", **{"class": "best"})]
    assert best == ["best: epoch 10"] * 4  # the least of 2.3 / e + e² / 1000


def test_footer_says_how_to_repeat_it(page):
    footer = page.text("footer")
    assert "naysay demo --setting with0 --seed 11" in footer
    assert "7.4 seconds" in footer
    assert re.search(r"naysay \d.* python \d.* numpy \d.* torch \d", footer)


def test_page_loads_nothing_from_anywhere(text, page):
    loading = {"script", "link", "img", "iframe", "object", "embed", "image", "use", "base"}
    assert not loading & {element["tag"] for element in page.elements}
    assert not any("src" in element or "srcset" in element for element in page.elements)
    assert "@import" not in text
    assert "url(" not in text
    links = [e["href"] for e in page.elements if "href" in e]
    assert links == ["#matrices", "https://arxiv.org/abs/1711.09535"]  # followed only on a click
    assert text.count("://") == 1


def test_ids_are_unique_and_references_lead_somewhere(page):
    ids = [element["id"] for element in page.elements if "id" in element]
    assert len(set(ids)) == len(ids)
    assert {e["aria-labelledby"] for e in page.all("section")} <= set(ids)


def test_pictures_have_words(page):
    for svg in page.all("svg"):
        assert svg.get("aria-label") or svg.get("aria-hidden") == "true"


def test_class_names_are_escaped():
    names = ['<b>&"x', "'><script>", "{{ 7 * 7 }}", *map(str, range(3, 10))]
    text = render_demo_page(make_result(classes=names))
    page = Page(text)
    assert "<script" not in text
    assert '<b>&"x' not in text
    headers = [e["text"] for e in page.all("th", scope="col") if "table" in e["parents"]]
    assert headers.count('<b>&"x') == headers.count("'><script>") == 2
    assert headers.count("{{ 7 * 7 }}") == 2
    assert any('a <b>&"x is' in e.get("title", "").replace("\xa0", " ") for e in page.all("td"))


@pytest.mark.parametrize(
    "setting, words",
    [
        ("uniform", "This matrix is uniform"),
        ("without0", "a few are named far more often"),
        ("with0", "only a few others are ever named"),
    ],
)
def test_words_follow_the_setting(setting, words):
    text = Page(render_demo_page(make_result(setting=setting))).text("main")
    assert words in text
    assert ("which is true here" in text) == (setting == "uniform")


def test_singular_and_incomplete_matrices_are_not_praised():
    cycle = np.roll(np.eye(10), 1, axis=1)
    singular = (cycle + np.roll(cycle, 1, axis=1)) / 2  # a circulant of even order
    page = Page(render_demo_page(make_result(true_transition=TransitionMatrix(singular))))
    assert "Q cannot be inverted" in page.text("main")
    never_five = np.where(np.arange(10) == 5, 0, 1 - np.eye(10))
    never_five /= never_five.sum(axis=1, keepdims=True)
    page = Page(render_demo_page(make_result(true_transition=TransitionMatrix(never_five))))
    assert "Some digits are never named" in page.text("main")
    page = Page(render_demo_page(make_result(true_transition=TransitionMatrix.uniform(10))))
    assert "Labels from a biased matrix carry more" in page.text("main")


def test_page_needs_no_examples_no_history_and_no_known_method():
    run = dataclasses.replace(make_run("new", 0.5), history=[])
    text = render_demo_page(make_result(examples=[], runs=[run]))
    page = Page(text)
    assert "Learning curves" not in page.text("main")
    assert "labels for new" in page.text("main")
    assert page.all("ul") == []


@pytest.mark.unmeasured
def test_python_on_the_page_runs(text, tmp_path, monkeypatch, capsys):
    code = html.unescape(re.search(r"<pre[^>]*><code>(from .*?)</code>", text, re.S)[1])
    assert "random_state=0)" in code
    code = code.replace("random_state=0)", "random_state=0, epochs=2)")  # a fifth of the time
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda **options: (X[:400], y[:400]))
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # a warning is an error, here as in all tests
    assert float(capsys.readouterr().out) > 0.9
    assert TransitionMatrix.read(tmp_path / "Q.csv").n_classes == 10


def test_report_imports_neither_torch_nor_sklearn_nor_matplotlib():
    heavy = "{'torch', 'sklearn', 'matplotlib'}"
    code = f"import sys, naysay.report; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_package_installed_under_another_name_is_left_out(monkeypatch):
    def find_version(name):
        if name == "torch":
            raise metadata.PackageNotFoundError(name)
        return "1.2.3"

    monkeypatch.setattr(metadata, "version", find_version)
    page = render_demo_page(make_result())
    assert "scikit-learn&nbsp;1.2.3" in page
    assert "torch&nbsp;" not in page
    assert "None" not in page


def test_browser_shows_the_page_without_complaint(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium on PATH")
    path = write_page(render_demo_page(make_result()), tmp_path / "demo.html")
    done = subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--enable-logging=stderr", "--v=0", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    shown = Page(done.stdout.removeprefix("<!DOCTYPE html>"))
    assert shown.text("title") == "naysay demo: learning digits from “not a 7”"
    assert len([e for e in shown.all("td") if "--heat" in e.get("style", "")]) == 200
