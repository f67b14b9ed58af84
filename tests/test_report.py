"""The demo's page, from a result made by hand: nothing is trained here."""

import dataclasses
import html
import os
import re
import shutil
import stat
import subprocess
import sys
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import naysay
from naysay import InvalidInput, NaysayError, TransitionMatrix
from naysay.demo import DemoExample, DemoResult, DemoRun
from naysay.report import check_page_path, render_demo_page, write_demo_page
from naysay.report.chart import make_chart
from naysay.report.heatmap import make_heat_maps
from naysay.report.page import percent, used_versions, with_article
from naysay.report.pixels import make_pixel_paths

SOURCE = str(Path(naysay.__file__).parents[1])
VOID = {"meta", "br", "hr", "img", "link", "input"}
NAMES = ("TL", "PC/S", "LM/T", "LM/E")


def make_run(name, accuracy, q_error=None, n_epochs=30):
    history = [
        {
            "epoch": epoch,
            "loss": 2.3 / epoch,
            "held_out_loss": 2.3 / epoch + 0.001 * epoch**2,
            "seconds": 0.01,
        }
        for epoch in range(1, n_epochs + 1)
    ]
    return DemoRun(
        name=name,
        title=f"title of {name}",
        learned_from=f"labels for {name}",
        accuracy=accuracy,
        seconds=1.5,
        q_error=q_error,
        history=history,
    )


def make_result(classes=None, **changes):
    true = TransitionMatrix(np.asarray(TransitionMatrix.with_zeros(10, seed=3)), classes)
    estimated = TransitionMatrix(np.asarray(TransitionMatrix.without_zeros(10, seed=4)), classes)
    image = np.zeros((8, 8))
    image[2:6, 3] = 16.0
    examples = [
        DemoExample(image=image, comp_label=7, label=1, predicted=1, probability=0.971),
        DemoExample(image=image, comp_label=8, label=1, predicted=4, probability=0.9999),
    ]
    result = DemoResult(
        setting="with0",
        seed=11,
        n_train=1347,
        n_test=450,
        n_anchors=10,
        true_transition=true,
        estimated_transition=estimated,
        runs=[
            make_run("TL", 0.9756),
            make_run("PC/S", 0.0511),
            make_run("LM/T", 0.9378, n_epochs=20),
            make_run("LM/E", 0.9489, q_error=0.1975, n_epochs=25),
        ],
        examples=examples,
        seconds=7.4,
    )
    return dataclasses.replace(result, **changes)


class Page(HTMLParser):
    """Reads a page into (tag, attributes, text) and fails on a tag left open or closed twice."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open: list[dict] = []
        self.elements: list[dict] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), f"attribute twice in {tag}"
        element = {"tag": tag, "text": "", "parents": [e["tag"] for e in self.open], **dict(attrs)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag, **attributes):
        return [
            element
            for element in self.elements
            if element["tag"] == tag
            and all(element.get(name) == value for name, value in attributes.items())
        ]

    def text(self, tag="body"):
        return " ".join(self.all(tag)[0]["text"].split())


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
    assert "but for 10 per digit" in opening
    assert "94.9 % of 450 images it has never seen" in opening
    assert "97.6 %" in opening


def test_table_holds_every_run_and_highlights_the_estimated_one(page):
    assert [e["text"] for e in page.all("th", scope="row") if e.get("role")] == list(NAMES)
    numbers = [e["text"] for e in page.all("td") if "accuracy" in e.get("class", "")]
    assert [" ".join(number.split()) for number in numbers] == [
        "97.6 %",
        "5.1 %",
        "93.8 %",
        "94.9 %",
    ]
    errors = [e["text"].strip() for e in page.all("td") if e.get("data-name") == "Error of Q"]
    assert errors == ["–none", "–none", "–none", "0.198"]
    seconds = [e["text"] for e in page.all("td") if e.get("data-name") == "Seconds"]
    assert seconds == ["1.5"] * 4
    (ours,) = page.all("tr", **{"class": "ours"})
    assert "LM/E" in ours["text"]
    assert "1,347 answers “not a …”, and 100 true labels" in ours["text"]


def test_strip_shows_what_was_said_and_whether_the_model_is_right(page):
    right, wrong = page.all("li")[:2]
    flat = [" ".join(element["text"].split()) for element in (right, wrong)]
    assert flat[0] == "“not a 7” the model says: 1 (97 %) right"
    assert flat[1] == "“not an 8” the model says: 4 (> 99 %) wrong, it is a 1"
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
    assert "of 100 answers it expects about 10 at the wrong digit" in words
    assert f"{diagnosis.bits_per_label:.2f} of the 3.32 bits of a true label" in words
    assert f"that is {diagnosis.share_of_true_label:.1%}".replace("%", " %") in words
    assert "without any it would be 4.6 %" in words
    assert "Q can be inverted" in words


def test_each_run_has_a_chart_with_its_best_epoch(page):
    charts = page.all("svg", **{"class": "chart"})
    assert [chart["aria-label"].split(":")[0] for chart in charts] == list(NAMES)
    assert all(chart["role"] == "img" for chart in charts)
    best = [e["text"] for e in page.all("text", **{"class": "best"})]
    assert best == ["best: epoch 10"] * 4  # the least of 2.3 / e + e² / 1000


def test_footer_says_how_to_repeat_it(page):
    footer = page.text("footer")
    assert "naysay demo --setting with0 --seed 11" in footer
    assert "7.4 seconds" in footer
    assert re.search(r"naysay \d.* Python \d.* numpy \d.* torch \d", footer)


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
        ("uniform", "This annotator has no habits"),
        ("without0", "a few are named far more often"),
        ("with0", "only a few others are ever named"),
    ],
)
def test_words_follow_the_setting(setting, words):
    text = Page(render_demo_page(make_result(setting=setting))).text("main")
    assert words in text
    assert ("which is so here" in text) == (setting == "uniform")


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
    assert "An annotator with habits tells more" in page.text("main")


def test_page_needs_no_examples_no_history_and_no_known_method():
    run = dataclasses.replace(make_run("new", 0.5), history=[])
    text = render_demo_page(make_result(examples=[], runs=[run]))
    page = Page(text)
    assert "No epoch was recorded." in page.text("main")
    assert "labels for new" in page.text("main")
    assert "title of new" in page.text("main")
    assert page.all("ul") == []


def test_python_on_the_page_runs(text, tmp_path):
    code = html.unescape(re.search(r"<pre[^>]*><code>(from .*?)</code>", text, re.S)[1])
    # one thread: several would wait for each other on a busy machine
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert float(done.stdout) > 0.9
    assert TransitionMatrix.read(tmp_path / "Q.csv").n_classes == 10


def test_report_imports_neither_torch_nor_sklearn_nor_matplotlib():
    heavy = "{'torch', 'sklearn', 'matplotlib'}"
    code = f"import sys, naysay.report; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# --- the file ---


def test_write_returns_the_path_and_replaces_what_was_there(tmp_path):
    path = tmp_path / "demo.html"
    path.write_text("old")
    result = make_result()
    assert write_demo_page(result, str(path)) == path
    assert path.read_text("utf-8") == render_demo_page(result)
    assert os.listdir(tmp_path) == ["demo.html"]


def test_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    path = write_demo_page(make_result(), tmp_path / "demo.html")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_link_stays_a_link(tmp_path):
    (tmp_path / "link.html").symlink_to(tmp_path / "target.html")
    write_demo_page(make_result(), tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "target.html").read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_failure_leaves_the_old_page_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "demo.html"
    path.write_text("old")
    write_text = Path.write_text

    def write_half(self, text, **options):
        write_text(self, text[: len(text) // 2], **options)
        raise OSError("no space left")

    def refuse(*names):
        raise OSError("no space left")

    if step == "write_text":
        monkeypatch.setattr(Path, "write_text", write_half)
    else:
        monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write_demo_page(make_result(), path)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["demo.html"]


def test_missing_folder_is_named(tmp_path):
    path = tmp_path / "nowhere" / "demo.html"
    with pytest.raises(InvalidInput, match=r"folder that exists.*no folder '.*nowhere': create"):
        write_demo_page(make_result(), path)
    assert not path.parent.exists()


def test_folder_as_a_path_is_refused_with_a_proposal(tmp_path):
    with pytest.raises(InvalidInput, match=r"must name a file.*Got the folder.*page\.html"):
        write_demo_page(make_result(), tmp_path)


def test_device_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NaysayError, match="which is a device or a pipe"):
        check_page_path(tmp_path / "pipe")


def test_path_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="there is no folder"):
        check_page_path(tmp_path / "file" / "demo.html")


# --- the parts ---


def test_heat_maps_share_one_scale():
    weak, strong = TransitionMatrix.uniform(10), TransitionMatrix.uniform(3)
    first, second = make_heat_maps(weak, strong)
    assert first.top == second.top == 0.5
    assert second.rows[0][1].heat == 1
    assert first.rows[0][1].heat == pytest.approx(2 / 9)
    assert [first.rows[0][i].tone for i in (0, 1)] == ["nothing", "weak"]
    assert second.rows[0][1].tone == "strong"


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(first, second):
    dark, light = sorted([luminance(first), luminance(second)])
    return (light + 0.05) / (dark + 0.05)


def rgb(colour):
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255


def test_text_has_contrast_in_both_modes_at_every_heat(text):
    for block in re.findall(r":root \{(.*?--wrong.*?)\}", text, re.S):
        colours = {name: rgb(value) for name, value in re.findall(r"--(\w+): (#\w+)", block)}
        for name in ("ink", "muted", "accent", "wrong"):
            assert contrast(colours[name], colours["paper"]) >= 4.5
            assert contrast(colours[name], colours["tint"]) >= 4.5
        hot = np.array(list(map(int, re.search(r"--heat-rgb: ([\d ]+)", block)[1].split()))) / 255
        for heat in np.linspace(0, 1, 501):
            cell = (1 - heat) * colours["paper"] + heat * hot
            words = colours["strong" if heat >= 0.72 else "weak"]
            assert contrast(words, cell) >= 4.5
    assert len(re.findall(r"--wrong: ", text)) == 2


def points(path):
    return np.array([list(map(float, point.split(","))) for point in path[1:].split("L")])


def test_curves_stay_inside_the_axes_and_keep_their_order():
    history = make_run("TL", 1.0).history
    chart = make_chart(history, n_epochs=40)
    for path in (chart.training, chart.held_out):
        xs, ys = points(path).T
        assert len(xs) == 30
        assert (np.diff(xs) > 0).all()
        assert xs.max() < chart.x.end  # other runs took longer
        assert (ys >= chart.y.end).all()
        assert (ys <= chart.y.start).all()
    assert points(chart.training)[0, 1] < points(chart.training)[-1, 1]  # downwards is larger
    assert [text for _, text in chart.x.ticks] == ["0", "10", "20", "30", "40"]


@pytest.mark.parametrize("n_epochs", [1, 2, 3, 7, 10, 25, 100, 1234])
def test_ticks_of_epochs_are_whole_numbers(n_epochs):
    chart = make_chart([{"epoch": 1, "loss": 0.5}], n_epochs=n_epochs)
    ticks = [int(text) for _, text in chart.x.ticks]
    assert ticks[0] == 0
    assert ticks[-1] >= n_epochs
    assert len(set(np.diff(ticks))) == 1


@pytest.mark.parametrize("losses", [[0.7], [0.0, 0.0], [-3.0, -5.0], [1e-6, 3e-6], [1e5, 2.0]])
def test_any_losses_have_axes(losses):
    history = [{"epoch": i, "loss": loss} for i, loss in enumerate(losses, start=1)]
    chart = make_chart(history, n_epochs=1)
    assert chart.held_out is None
    assert chart.best_epoch is None
    assert np.isfinite(points(chart.training)).all()
    ticks = [float(text) for _, text in chart.y.ticks]
    assert len(set(ticks)) == len(ticks) >= 2
    assert ticks[0] <= min(losses)
    assert ticks[-1] >= max(losses)


def test_curves_without_held_out_examples_are_drawn():
    run = dataclasses.replace(make_run("TL", 0.9), history=[{"epoch": 1, "loss": 0.7}])
    page = Page(render_demo_page(make_result(runs=[run])))
    (chart,) = page.all("svg", **{"class": "chart"})
    assert chart["aria-label"] == "TL: training loss over 1 epochs."


def test_blank_image_has_no_squares():
    assert make_pixel_paths(np.zeros((8, 8))) == []


def test_numbers_read_well():
    plain = [percent(x, d).replace("\xa0", " ") for x, d in [(0.99951, 1), (0.9, 0), (0.0, 1)]]
    assert plain == ["> 99.9 %", "90 %", "0.0 %"]
    named = [with_article(name).replace("\xa0", " ") for name in ("7", "8", "owl", "cat", "")]
    assert named == ["a 7", "an 8", "an owl", "a cat", "a "]


def test_package_installed_under_another_name_is_left_out(monkeypatch):
    def find_version(name):
        if name == "torch":
            raise metadata.PackageNotFoundError(name)
        return "1.2.3"

    monkeypatch.setattr(metadata, "version", find_version)
    versions = used_versions()
    assert list(versions) == ["naysay", "Python", "numpy", "scipy", "scikit-learn"]
    assert versions["numpy"] == "1.2.3"


# --- in a browser ---


def test_browser_shows_the_page_without_complaint(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium on PATH")
    path = write_demo_page(make_result(), tmp_path / "demo.html")
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
