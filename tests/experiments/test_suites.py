"""The suites say what the paper says, and can be run with what is there."""

import re
import subprocess
import sys

import numpy as np
import pytest

from naysay import InvalidInput, datasets
from naysay.experiments.suite import Published
from naysay.experiments.suites import SUITES, find_suites
from naysay.experiments.tasks import FILES, SETTINGS, draw_task, make_transition
from naysay.experiments.train import unknown_options
from naysay.methods import METHODS
from naysay.training.schedules import one_cycle
from places import SHARED

PAPER = SHARED / "paper"
RECIPES = ("paper", "best", "quick")


def all_specs(recipe):
    suites = [suite for suite in SUITES.values() if recipe in suite.recipes]
    return [spec for suite in suites for _, spec in suite.specs(recipe, trials=1)]


@pytest.mark.parametrize("name", SUITES)
def test_published_figures_stand_in_the_paper(name):
    pages = list(PAPER.glob("*.tex"))
    if not pages:
        pytest.skip(f"the paper is not at {PAPER}")
    printed = re.sub(r"\\textbf\{([^}]*)\}|[${}]", r"\1", pages[0].read_text("utf-8"))
    printed = re.sub(r"\s*\\pm\s*", " ± ", printed)
    for cell in SUITES[name].cells:
        if cell.published is not None:
            assert cell.published.text in printed, cell.name


def test_rows_of_table_1_are_those_of_the_paper_in_its_order():
    pages = list(PAPER.glob("*.tex"))
    if not pages:
        pytest.skip(f"the paper is not at {PAPER}")
    text = pages[0].read_text("utf-8").partition("label{tab_uci}")[2].partition("end{tabular}")[0]
    found = [
        (
            n_train,
            n_test,
            *(f"{mean} ({sd})" for mean, sd in re.findall(r"([\d.]+) \(([\d.]+)\)", rest)),
        )
        for n_train, n_test, rest in re.findall(
            r"& (\d{3,4}) & (\d{3,4}) &(.*)", re.sub(r"\\textbf\{|\}", "", text)
        )
    ]
    suite = SUITES["table1"]
    ours = []
    for row in suite.rows:
        cells = [cell for cell in suite.cells if cell.row == row]
        spec = cells[0].spec
        ours.append((str(spec.n_train), str(spec.n_test), *(c.published.text for c in cells)))
    assert len(found) == 24
    assert ours == found


def test_numbers_are_read_from_what_is_printed():
    assert (Published("97.18 ± 0.45").mean, Published("97.18 ± 0.45").sd) == (97.18, 0.45)
    assert (Published("5.1 (2.1)").mean, Published("5.1 (2.1)").sd) == (5.1, 2.1)
    assert (Published("99.12").mean, Published("99.12").sd) == (99.12, None)
    assert (Published("N/A").mean, Published("N/A").sd) == (None, None)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_run_names_what_exists(recipe):
    for spec in all_specs(recipe):
        assert spec.dataset in datasets.names()
        has_labels = spec.knows in ("true Q", "estimated Q", "no Q")
        assert spec.setting in ({*SETTINGS, *FILES} if has_labels else {"none"})
        assert spec.method in METHODS
        assert (spec.anchors > 0) == (spec.knows == "estimated Q" or "anchors" in spec.knows)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_option_of_a_recipe_is_known_to_the_training_loop(recipe):
    assert {option for spec in all_specs(recipe) for option in unknown_options(spec)} == set()


def test_tables_share_runs_instead_of_repeating_them():
    def hashes(name, only="*"):
        return {spec.hash for _, spec in SUITES[name].specs("paper", only=only)}

    assert hashes("table5", "invertible, LM") >= hashes("table2", "LM/T, with0")
    assert hashes("figure-q") <= {h for n in (2, 5, 6, 7) for h in hashes(f"table{n}")}
    assert hashes("figure-convergence", "50,000") <= hashes("table3")
    assert len(hashes("table2", "TL")) == 5  # true labels are the same in every column


def test_recipes_have_the_papers_hyper_parameters():
    spec = next(spec for _, spec in SUITES["table1"].specs("paper"))
    assert spec.options["grid"] == {
        "lr": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1],
        "weight_decay": [1e-7, 1e-4, 1e-1],
    }
    assert (spec.options["batch_size"], spec.options["iterations"]) == (100, 5000)
    by_name = {cell.name: spec for cell, spec in SUITES["table2"].specs("paper", trials=1)}
    assert by_name["PC/S, uniform"].options["lr"] == 1e-4
    assert by_name["LM/T, uniform"].options["lr"] == 1e-2  # a deviation, and listed as such
    assert any("1e-2" in text for text in SUITES["table2"].recipe("paper").deviations)
    trials = [suite.recipe("paper").trials for suite in find_suites(["all"])]
    assert trials[:4] == [20, 5, 5, 5]


def test_where_adds_options_to_some_cells_only():
    by_name = {cell.name: spec for cell, spec in SUITES["table3"].specs("best", trials=1)}
    assert by_name["LM/T, uniform"].options["epochs"] == 200
    assert by_name["PC/S, uniform"].options["epochs"] == 30
    assert by_name["LM/E, with0"].options["refine"] is True
    assert by_name["LM/T, with0"].method == "weak-to-strong"
    assert by_name["PC/S, with0"].method == "pc"
    assert by_name["TL, uniform"] == by_name["TL, with0"]


def test_true_labels_are_learned_with_the_options_of_the_true_matrix():
    by_name = {cell.name: spec for cell, spec in SUITES["table3"].specs("best", trials=1)}
    true, given = by_name["TL, with0"], by_name["LM/T, with0"]
    assert true.knows == "true labels"
    assert (true.method, dict(true.options)) == (given.method, dict(given.options))


def test_trials_that_were_developed_on_are_not_run():
    def trials(name, recipe, **options):
        return sorted({spec.trial for _, spec in SUITES[name].specs(recipe, **options)})

    assert trials("table3", "best") == [2, 3, 4]
    assert trials("table3", "best", trials=1) == [2]
    assert "trials 0 and 1" in " ".join(SUITES["table3"].recipe("best").deviations)
    for name, suite in SUITES.items():  # only there
        for recipe in suite.recipes:
            if (name, recipe) not in (("table3", "best"), ("anchors", "best")):
                assert trials(name, recipe, trials=2) == [0, 1]


def test_colour_images_are_learned_from_two_views_and_the_figure_from_one():
    for name, method in (("table3", "weak-to-strong"), ("table4", "two-views")):
        recipe = SUITES[name].recipe("best")
        for _, spec in SUITES[name].specs("best", trials=1, only="LM/*"):
            assert spec.method == method
            assert ("refine" in spec.options) == (spec.knows == "estimated Q")
        assert method in " ".join(recipe.deviations)
    options = [
        (dict(spec.options), spec.method)
        for _, spec in SUITES["figure-convergence"].specs("best", trials=1)
    ]
    assert all(each == options[0] for each in options)  # the curve is of sizes and nothing else
    assert options[0][1] == "forward"
    last = {spec.hash for _, spec in SUITES["figure-convergence"].specs("paper", only="50,000")}
    assert last <= {spec.hash for _, spec in SUITES["table3"].specs("paper")}


def test_beyond_the_paper_cifar_10_is_learned_as_in_table_3():
    def specs(name, only):
        return [spec for _, spec in SUITES[name].specs("best", trials=1, only=only)]

    for row in ("LM/T", "LM/E"):
        (of_paper,) = specs("table3", f"{row}, uniform")
        for spec in specs("real-labels", f"{row},") + specs("habits", f"{row}*CIFAR-10,"):
            assert spec.method == of_paper.method
            options = {"restarts": 0, **spec.options}
            assert options == {**of_paper.options, "restarts": 0, "allow_diagonal": True}
            assert spec.labels is not None


def test_what_labels_add_is_shown_beside_table_3():
    def specs(name, only):
        return [spec for _, spec in SUITES[name].specs("best", trials=1, only=only)]

    assert specs("anchors", "LM/E,") == specs("table3", "LM/E,")
    for name in ("anchors", "real-labels"):
        for row in ("anchors,", "anchors + images"):
            assert len(set(specs(name, row)) - set(specs(name, "LM/E + anchors"))) == 1


def test_the_suite_of_methods_has_all_of_them():
    suite = SUITES["methods"]
    assert set(suite.rows) == set(METHODS)
    for _, spec in suite.specs("best"):
        assert (spec.knows == "true Q") == METHODS[spec.method].needs_transition
        assert METHODS[spec.method].needs_strong_view == (spec.options["augment"] == "weak/strong")


def test_warm_up_of_one_cycle_is_a_fifth_as_the_deviations_say():
    shares = [step / 1000 for step in range(1001)]
    rates = [one_cycle(share) for share in shares]
    assert rates.index(max(rates)) == 199  # a thousandth early: it starts above 0
    assert rates[0] < 0.01
    np.testing.assert_allclose(np.diff(rates[201:]), -0.001 / 0.8)
    assert rates[-1] == 0


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_are_matrices_that_use_every_label(setting):
    Q = make_transition(setting, 10, seed=3)
    assert Q.allow_diagonal is (setting == "human")
    assert not Q.diagnose().unused_labels
    assert Q.diagnose().identifiable is (setting != "non-invertible")
    again = make_transition(setting, 10, seed=3)
    np.testing.assert_array_equal(np.asarray(Q), np.asarray(again))


def test_the_manual_matrix_has_what_the_papers_text_says_of_its_own():
    values = np.asarray(make_transition("manual-with0", 10, seed=0))
    assert np.flatnonzero(values[0]).tolist() == [1, 5, 7]
    assert np.flatnonzero(values[:, 6]).tolist() == [1]
    assert (np.count_nonzero(values, axis=1) == 3).all()


def test_the_printed_matrix_is_read_as_printed():
    values = np.asarray(make_transition("non-invertible", 10, seed=0))
    assert values[7].round(4).tolist() == [0, 0.1499, 0, 0, 0, 0.3134, 0, 0, 0, 0.5367]
    assert np.linalg.matrix_rank(values) == 9


def test_wrong_names_are_refused():
    with pytest.raises(InvalidInput, match="Unknown table or figure 'table9'"):
        find_suites(["table1", "table9"])
    with pytest.raises(InvalidInput, match="recipe must be one of paper, best, quick"):
        SUITES["table2"].recipe("fast")
    with pytest.raises(InvalidInput, match="setting must be one of"):
        make_transition("strange", 10, seed=0)
    with pytest.raises(InvalidInput, match=r"is for 10 classes\. The task has 3"):
        make_transition("manual-with0", 3, seed=0)
    of_paper = [suite.name for suite in find_suites(["all"])]
    assert [*of_paper, "real-labels", "anchors", "habits", "methods"] == list(SUITES)
    assert len(find_suites(["table1", "table1"])) == 1


def test_suites_and_report_load_without_torch():
    program = (
        "import sys; import naysay.experiments.suites, naysay.report, naysay.experiments.tables; "
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_only_chooses_by_row_and_column_whatever_the_case():
    def names(name, only):
        return [cell.name for cell, _ in SUITES[name].specs("quick", trials=1, only=only)]

    assert names("table2", "lm/e, with0") == ["LM/E, with0"]
    assert names("table1", "usps 1 ~ 5*LM") == ["USPS 1 ~ 5, LM"]
    assert names("table2", "nothing") == []


def test_the_real_data_have_enough_examples_for_every_row_of_table_1():
    needed = {"usps", "waveform1", "waveform2", "satimage", "pendigits", "letter"}
    there = {name for name in needed if datasets.is_on_disk(name)}
    if there != needed:
        pytest.skip("the UCI data sets and USPS are not all in the data folder")
    loaded = {name: datasets.load(name, download=False) for name in needed}
    n_drawn = 0
    for cell, spec in SUITES["table1"].specs("paper", trials=1, only=", LM"):
        if spec.dataset in needed:
            task = draw_task(
                loaded[spec.dataset],
                spec.classes,
                n_train=spec.n_train,
                n_test=spec.n_test,
                seed=spec.trial,
            )
            assert len(task.train) == spec.n_train * len(task.classes), cell.name
            n_drawn += 1
    assert n_drawn == 19
    even = next(s for c, s in SUITES["table1"].specs("paper") if c.row == "PENDIGITS even #")
    kept = draw_task(loaded["pendigits"], even.classes, n_train=719, n_test=336, seed=0)
    assert kept.classes == ("0", "2", "4", "6", "8")
