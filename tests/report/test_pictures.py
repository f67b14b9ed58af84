"""The pictures on the demo's page: heat maps, curves and digits."""

import dataclasses
import re

import numpy as np
import pytest

from demo_results import make_result, make_run
from html_reader import Page
from naysay import TransitionMatrix
from naysay.report.demo import render_demo_page
from naysay.report.pictures import make_chart, make_heat_maps, make_pixel_paths


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


def test_text_has_contrast_in_both_modes_at_every_heat():
    text = render_demo_page(make_result())
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
