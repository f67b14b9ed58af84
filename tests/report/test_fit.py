"""The page of `naysay fit`: looked at as a reader and as a browser would."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from html_reader import Page
from naysay import TransitionMatrix
from naysay.datasets.own import read_own
from naysay.estimation import MistakeRate
from naysay.report.fit import render_fit_page
from naysay.report.pictures import make_thumbnail
from naysay.workflows.fit import fit_own

NAMES = ("<b>cat</b>", "dog", "ow&l")
ERRING = TransitionMatrix(
    [[0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]], NAMES, allow_diagonal=True
)


def make_report(n=120, Q=ERRING, **columns):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    said = [NAMES[label] for label in ERRING.sample(y, seed=rng)]
    frame = pd.DataFrame(rng.normal(size=(n, 2)) + 4 * y[:, None], columns=["a", "b<"])
    frame = frame.assign(**{"not": said}, **columns)
    roles = {"annotator": "who"} if columns else {}
    return fit_own(
        read_own(frame, label="not", **roles), transition=Q, learner="network", epochs=15
    )[1]


@pytest.fixture(scope="module")
def report():
    return make_report(600, who=["ann", "<i>bob"] * 300)


@pytest.fixture(scope="module")
def page(report):
    return Page(render_fit_page(report))


def test_the_opening_says_what_was_learned_and_how_well(page, report):
    opening = page.text("header").replace("\xa0", " ")
    assert "600 complementary labels (“not this class”) for 600 examples" in opening
    assert f"{report.accuracy.value:.1%}".replace("%", " %") in opening
    assert "120 complementary labels that were held out" in opening


def test_every_class_has_a_row_with_its_range(page, report):
    rows = [e["text"].split() for e in page.all("tr", role="row")]
    assert len(rows) == 1 + 3 + 1
    assert [row[0] for row in rows[1:]] == ["<b>cat</b>", "dog", "ow&l", "all"]
    labels = [e["aria-label"] for e in page.all("svg", **{"class": "range"})]
    low, high = report.accuracy.interval
    assert labels[-1].replace("\xa0", " ") == f"between {100 * low:.0f} % and {100 * high:.0f} %"


def test_heat_maps_show_the_matrix_and_each_annotator(page, report):
    cells = [e for e in page.all("td") if e.get("style", "").startswith("--heat")]
    values = np.array([int(cell["text"]) for cell in cells]).reshape(5, 3)
    np.testing.assert_array_equal(values[:3], np.rint(100 * np.asarray(ERRING)))
    for row, name in enumerate(report.label_shares, start=3):
        np.testing.assert_array_equal(values[row], np.rint(100 * report.label_shares[name]))


def test_examples_labels_that_look_wrong_and_advice_are_listed(page, report):
    text = page.text("main")
    assert report.unsure[0].name in text
    assert report.suspects
    assert "probably wrong: " in text
    assert all(" ".join(sentence.split()) in text for sentence in report.advice)
    assert len([e for e in page.all("li") if "ol" in e["parents"][-1:]]) == len(report.advice)


def test_the_page_loads_nothing_and_escapes_everything(page, report):
    text = render_fit_page(report)
    assert not {"script", "link", "iframe", "object"} & {e["tag"] for e in page.elements}
    assert "<b>cat" not in text
    assert "<i>bob" not in text
    assert "://" not in text
    ids = [element["id"] for element in page.elements if "id" in element]
    assert len(set(ids)) == len(ids)
    assert {e["aria-labelledby"] for e in page.all("section")} <= set(ids)


def test_a_method_that_allows_for_no_mistakes_lists_no_wrong_labels(report):
    text = Page(render_fit_page(replace(report, suspects=None))).text("body")
    assert "None are listed" in text


def test_labels_are_listed_without_probabilities_where_the_rate_is_hardly_known(report):
    text = Page(render_fit_page(replace(report, suspects_unknown="the rate is rough"))).text("main")
    assert "How many of them are wrong is unknown: the rate is rough." in text
    assert "probably wrong: " not in text
    assert report.suspects_unknown is None


def test_the_rate_of_mistakes_is_shown_with_its_interval(report):
    assert report.mistakes is None  # the matrix was given
    rate = MistakeRate(value=0.031, interval=(0.01, 0.062), level=0.95)
    text = Page(render_fit_page(replace(report, mistakes=rate))).text("main")
    assert "rate of mistakes 3.1 % (95 % interval 1.0 to 6.2 %)" in text.replace("\xa0", " ")
    assert replace(report, mistakes=rate).to_dict()["mistakes"]["interval"] == (0.01, 0.062)


def test_a_singular_matrix_gives_bounds():
    Q = TransitionMatrix([[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]], NAMES)
    report = make_report(Q=Q)
    text = Page(render_fit_page(report)).text("body")
    assert "Read this first" in text  # Q is singular
    assert report.accuracy.value is None
    assert "can only be bounded" in text


def test_a_matrix_that_the_labels_refute_gives_no_figure():
    values = [[0.2, 0.5, 0.3], [0.3, 0.2, 0.5], [0.5, 0.3, 0.2]]  # they err half as often
    report = make_report(2000, Q=TransitionMatrix(values, NAMES, allow_diagonal=True))
    page = Page(render_fit_page(report))
    opening = page.text("header").replace("\xa0", " ")
    assert report.agreement.refuted
    assert report.accuracy.value is None
    assert "The accuracy of the model is unknown: the labels refute" in opening
    assert "confidence" not in page.text("body")
    assert page.all("svg", **{"class": "range"}) == []
    assert page.text("main").count("unknown") > 2 * len(report.precision)
    assert "wrong is unknown: the labels refute the transition matrix." in page.text("main")
    none = Page(render_fit_page(replace(report, suspects=()))).text("main")
    assert "How many labels are wrong is unknown: the labels refute" in none
    assert "probability of a mistake" not in none


def test_images_are_shown_as_thumbnails_inside_the_page(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (40, 3, 6, 5)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", X=X, labels=np.arange(40) % 2)
    _, report = fit_own(read_own(tmp_path / "x.npz"), learner="network", epochs=2)
    pictures = Page(render_fit_page(report)).all("img")
    assert len(pictures) == len(report.unsure) == 12
    assert all(each["src"].startswith("data:image/png;base64,") for each in pictures)
    assert all(each["alt"] for each in pictures)


def test_a_large_image_becomes_a_small_one():
    assert len(make_thumbnail(np.zeros((3, 2000, 1000), np.uint8))) < 1000


def test_many_classes_get_a_list_in_place_of_a_map():
    rng = np.random.default_rng(0)
    y = rng.integers(40, size=800)
    frame = pd.DataFrame({"a": y + 0.1 * rng.normal(size=800)})
    frame["not"] = [f"c{label}" for label in TransitionMatrix.uniform(40).sample(y, seed=1)]
    text = render_fit_page(fit_own(read_own(frame, label="not"), learner="network", epochs=1)[1])
    assert "the largest entries" in text
    assert "--heat" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S)
