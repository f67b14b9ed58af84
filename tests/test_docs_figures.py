"""Compare the figures of README and docs with the records, and tables with the commands."""

import functools
import json
import re
import statistics
from collections import defaultdict

import pytest

from naysay.experiments.records import RecordFile
from naysay.experiments.suites import SUITES
from naysay.experiments.tables import markdown, summarise_records
from naysay.methods import METHODS, markdown_references, markdown_table
from naysay.report.reproduction import render_report_page
from naysay.workflows.demo import SHOWN
from places import ROOT

pytestmark = pytest.mark.unmeasured
_SLOWER = ("refine", "uncertainty")  # where classes are lost
MANY_AT_ONCE = ROOT / "docs" / "many-at-once.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_figures_of_the_demo_are_those_of_the_record():
    record = merged_records("demo")
    page = (ROOT / "docs" / "lab" / "demo.md").read_text("utf-8")
    for method in (*SHOWN, "LM/E, anchors for Q only"):
        figures = [record[setting][method] for setting in ("uniform", "without0", "with0")]
        cells = [f"{each['accuracy_mean']:.1f} ± {each['accuracy_sd']:.1f}" for each in figures]
        assert f"| {method} | {' | '.join(cells)} |" in page


@functools.cache
def read_records(name):
    """Read a file of runs once for all tests: that of the reproduction takes a second."""
    return RecordFile(ROOT / "benchmarks" / "results" / f"{name}.jsonl").read()


def shorter_records():
    """Return Table 3 of `best` as it was with fewer epochs, by what is known and the setting."""
    records = read_records("shorter")
    return {(each.spec.knows, each.spec.setting): each for each in records}


def test_readme_beside_the_paper_is_that_of_the_records():
    records = read_records("reproduction")
    results = {
        (each.suite.name, each.recipe): each for each in summarise_records(SUITES.values(), records)
    }
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = {
        "MNIST, uniform · without0 · with0": ("table2", ("uniform", "without0", "with0")),
        "CIFAR-10, uniform · without0 · with0": ("table3", ("uniform", "without0", "with0")),
        "CIFAR-100, with0": ("table4", ("CIFAR-100",)),
    }

    def print_figures(suite, recipe, columns):
        if (suite, recipe) not in results:
            return "not run"
        cells = [results[suite, recipe].at("LM/E", column) for column in columns]
        marks = ["†" if each.developed_on else "" for each in cells]
        figures = [f"{each.mean:.2f}" for each in cells]
        if recipe == "paper":
            return " · ".join(map("".join, zip(figures, marks, strict=True)))
        return f"**{' · '.join(figures)}**{marks[0]}"

    for name, (suite, columns) in rows.items():
        published = [results[suite, "best"].at("LM/E", each).cell.published for each in columns]
        cells = [
            " · ".join(f"{each.mean:.2f}" for each in published),
            *(print_figures(suite, recipe, columns) for recipe in ("paper", "best")),
        ]
        assert f"| {name} | {' | '.join(cells)} |" in readme


def test_accuracy_of_anchors_alone_is_that_of_the_record():
    record = merged_records("anchors")
    readme = (ROOT / "README.md").read_text("utf-8")
    accuracy = f"{record['mnist']['accuracy_mean']:.2f}"
    assert f"| MNIST, the 100 anchors alone | | | {accuracy} |" in readme


def merged_records(name, **facts):
    """Read the last result of each key of a file of records, of those with these facts."""
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text("utf-8").splitlines()
    merged = {}
    for line in map(json.loads, lines):
        if facts.items() <= line.items():
            merged |= line["results"]
    return merged


def count_faults(result):
    """Count what went wrong with the answers of annotators."""
    return sum(result.get(each, 0) for each in ("errors", "lost", "doubled", "dealt_twice"))


def test_accuracy_from_logs_of_suggestions_is_that_of_the_record():
    record = merged_records("logs")
    page = (ROOT / "docs" / "logs.md").read_text("utf-8")
    for name in ("model", "rule", "random"):
        cells = [record[f"{name}, {rate}"] for rate in ("0%", "2%", "5%")]
        figures = [f"{each['accuracy']} ({each['least']})" for each in cells]
        first = f"| {name} | {cells[0]['suggester']} | {cells[0]['rejections']} |"
        assert f"{first} {' | '.join(figures)} |" in page
    words = " ".join(page.split())
    least = {
        kind: min(each[kind] for each in record.values()) for kind in ("coverage", "own_coverage")
    }
    assert f"in at least {least['coverage']:g} % of the draws" in words
    assert f"in {least['own_coverage']:g} % or more" in words
    widths = [record["model, 0%"]["width"], record["random, 0%"]["width"]]
    assert f"was {widths[0]} points for the model and {widths[1]} for random" in words
    assert f"it was {record['model, 0%']['own_width']} points" in words


def test_answers_under_load_are_those_of_the_record():
    record = merged_records("annotate")
    words = " ".join((ROOT / "docs" / "annotate.md").read_text("utf-8").split())
    found = [merged_records("annotate", database=name) for name in ("SQLite", "PostgreSQL")]
    loads, kills = ([each[kind] for each in found] for kind in ("load", "kills"))
    assert {load["annotators"] for load in loads} == {50}
    assert "with 50 people who answer without a pause" in words
    rows = {
        "answers saved per second": [f"{int(load['answers_per_second']):,}" for load in loads],
        "99 % of them within": [f"{load['p99_ms']:.0f} ms" for load in loads],
        "errors, answers lost, doubled or dealt twice": [
            f"{count_faults(load)} of {load['acknowledged']:,}" for load in loads
        ],
        "lost, doubled or dealt twice in 100 kills": [
            f"{count_faults(each)} of {each['acknowledged']:,}" for each in kills
        ],
    }
    assert {each["kills"] for each in kills} == {100}
    for name, cells in rows.items():
        assert f"| {name} | {' | '.join(cells)} |" in words
    assert f"after {record['first_page']['seconds']:.1f} s" in words
    seconds = sorted(record["export"][kind]["seconds"] for kind in ("csv", "jsonl", "parquet"))
    assert f"exported in {seconds[0]:.0f} to {seconds[-1]:.0f} s" in words


def test_tables_of_all_sizes_are_those_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "sizes.jsonl").read_text("utf-8").splitlines()
    sizes, latest = {}, {}
    for record in map(json.loads, lines):
        sizes |= record["sizes"]
        latest |= record["results"]
    page = (ROOT / "docs" / "lab" / "default.md").read_text("utf-8")
    kinds = ("accuracy", "svm_on_true_labels_given", "logistic_regression_on_all_true_labels")
    for title, found in latest.items():
        n, n_features, n_classes = sizes[title]
        figures = [f"{100 * found[kind]:.1f}" if kind in found else "" for kind in kinds]
        cost = f"{found['seconds']:.0f} | {found['peak_gb']:.1f}"
        row = f"| {title} | {n:,} | {n_features:,} | {n_classes} | {' | '.join(figures)} | {cost} |"
        assert row in page


def test_accuracy_lost_by_choosing_without_true_labels_is_that_of_the_record():
    record = merged_records("scores")
    page = " ".join((ROOT / "docs" / "no-true-labels.md").read_text("utf-8").split())
    for name, text in (
        ("score", "was {}, {} and {} points less"),
        ("agreement", "it was {}, {} and {} p"),
    ):
        several = (record[each][name] for each in ("uniform", "without0", "with0"))
        assert text.format(*(f"{sum(each) / len(each):.1f}" for each in several)) in page


def test_accuracies_of_wrapped_classifiers_are_those_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "wrapper.jsonl").read_text("utf-8").splitlines()
    page = (ROOT / "docs" / "any-classifier.md").read_text("utf-8")
    rows: dict[str, dict[str, str]] = {}
    for record in map(json.loads, lines):
        mean, spread = (100 * record["results"][k] for k in ("accuracy", "standard_deviation"))
        rows.setdefault(record["classifier"], {})[record["setting"]] = f"{mean:.1f} ± {spread:.1f}"
    assert len(rows) >= 2
    for classifier, cells in rows.items():
        figures = [cells[setting] for setting in ("uniform", "without0", "with0")]
        assert f"| {classifier} | {' | '.join(figures)} |" in page


def test_errors_of_estimated_matrices_are_those_of_the_record():
    record = merged_records("estimation")
    page = (ROOT / "docs" / "lab" / "estimation.md").read_text("utf-8")
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


def test_error_by_size_coverage_and_speed_of_estimation_are_those_of_the_record():
    record, page = (
        merged_records("estimation"),
        (ROOT / "docs" / "lab" / "estimation.md").read_text("utf-8"),
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
    of_networks = [
        f"{100 * record[f'coverage of networks, digits {setting}']['coverage']:.1f} %"
        for setting in ("without0", "with0")
    ]
    sentence = "contained {} of the entries under without0, {} under with0".format(*of_networks)
    assert sentence in " ".join(page.split())
    large = record["all 1000000 x 100"]
    assert f"{large['total_cpu_seconds']:.0f} seconds of processor time" in page
    assert f"{large['peak_gb']:.1f} GB" in page
    runs = [
        json.loads(line)["results"].get("with 5 classes lost, 1000000 x 100")
        for line in (ROOT / "benchmarks" / "results" / "estimation.jsonl").read_text().splitlines()
    ]
    refine, other = ([f"{run['seconds'][name]:.0f}" for run in runs if run] for name in _SLOWER)
    assert f"`refine` took {' and '.join(refine)} seconds" in " ".join(page.split())
    assert f"`uncertainty` {other[-1]}." in page


def test_estimates_on_colour_images_are_those_of_the_records():
    page = (ROOT / "docs" / "lab" / "estimation.md").read_text("utf-8")
    found = shorter_records()
    for setting in ("uniform", "without0", "with0"):
        estimated, true = (found[knows, setting] for knows in ("estimated Q", "true Q"))
        first, refined = (estimated.q_error[name] for name in ("estimated", "refined"))
        accuracies = f"{100 * estimated.accuracy:.2f} | {100 * true.accuracy:.2f}"
        assert f"| {setting} | {first:.3f} → {refined:.3f} | {accuracies} |" in page
    for name, each in last_record("human").items():
        assert f"| {name} | {each['accuracy']:.1f} | {min(each['recalls']):.1f} |" in page


def test_figures_of_human_annotators_are_those_of_the_record():
    page = " ".join((ROOT / "docs" / "lab" / "estimation.md").read_text("utf-8").split())
    found = merged_records("gpu_estimation")["human human"]
    assert f"reached {found['accuracy']:.2f} %" in page
    assert f"lowest recall of a class was {found['least_recall']:.1f} %" in page
    assert f"from {found['error_from_anchors']:.3f} to {found['error_refined']:.3f}" in page
    assert f"{found['precision_first_1000']:.1f} % of the first 1,000 labels flagged" in page


def test_the_effect_of_class_weights_is_that_of_the_log():
    page = " ".join((ROOT / "docs" / "lab" / "estimation.md").read_text("utf-8").split())
    log = (ROOT / "benchmarks" / "results" / "logs" / "h200-2026-11-16.txt").read_text("utf-8")
    then = re.findall(r"refined then error ([\d.]+)", log)
    weighted = re.findall(r"refined with class weights error ([\d.]+)", log)
    before, after = ([f"{float(each):.3f}" for each in errors] for errors in (then, weighted))
    assert f"rows is {after[0]} with weights and was {before[0]} without" in page
    *_, (accuracy, error) = re.findall(r"best LM/E, without0 0 ([\d.]+) .*'refined': ([\d.]+)", log)
    assert f"ended at {accuracy} %" in page
    assert f"with an error of {float(error):.3f}" in page


def test_what_prevents_collapsed_classes_is_that_of_the_record():
    record = merged_records("cures")
    page = (ROOT / "docs" / "lab" / "methods.md").read_text("utf-8")
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
    page = (ROOT / "docs" / "lab" / "methods.md").read_text("utf-8")
    for name in METHODS:
        cells = [
            f"{record[name]['accuracy_mean']:.1f} ± {record[name]['accuracy_sd']:.1f}"
            for record in (uniform, biased)
        ]
        assert f"| `{name}` | {' | '.join(cells)} |" in page


def test_accuracies_of_views_of_photos_are_those_of_the_records():
    page = " ".join((ROOT / "docs" / "lab" / "methods.md").read_text("utf-8").split())
    for method, file in (("two-views", "reproduction"), ("weak-to-strong", "shorter")):
        (found,) = [
            (f"{100 * each.accuracy:.2f} %", each.spec.options["epochs"])
            for each in read_records(file)
            if each.spec.method == method
            and (each.spec.dataset, each.spec.setting) == ("cifar-10", "uniform")
            and each.spec.knows == "true Q"
        ]
        assert f"`{method}` reached {found[0]} in {found[1]}" in page


def test_accuracies_of_two_views_are_those_of_the_record():
    page = (ROOT / "docs" / "lab" / "methods.md").read_text("utf-8")
    lines = (ROOT / "benchmarks" / "results" / "views.jsonl").read_text("utf-8").splitlines()
    found = {}
    for line in lines:  # one for MNIST, one for the digits; later ones stand
        found |= json.loads(line)["results"]
    for name, each in found.items():
        shown = ", ".join(f"{accuracy:.1f}" for accuracy in each["accuracies"])
        name = name.replace("two-views", "`two-views`").replace("forward", "`forward`")
        cells = f"{each['accuracy_mean']:.1f} ± {each['accuracy_sd']:.1f} | {shown}"
        assert f"| {name} | {cells} | {each['held_out_loss_mean']:.3f} |" in page


def records_of(name, *, on_gpu=False):
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text("utf-8").splitlines()
    records = map(json.loads, lines)
    return [each["results"] for each in records if bool(each["hardware"]["gpu"]) == on_gpu]


def last_record(name, *, on_gpu=False):
    return records_of(name, on_gpu=on_gpu)[-1]


def test_speeds_of_training_are_those_of_the_records():
    page = " ".join((ROOT / "docs" / "lab" / "performance.md").read_text("utf-8").split())
    last = records_of("training")[-4:]  # of one code
    for loop in ("by hand", "DataLoader"):
        ratios = [each[f"ratio to {loop}"] for each in last]
        assert f"| {ratios[-1]:.2f} |" in page
        assert f"{min(ratios):.2f} to {max(ratios):.2f} of the speed of the" in page
    ours, hand = (last[-1][f"microseconds of a small step{by}"] for by in ("", " by hand"))
    assert f"takes {ours:.0f} µs, compared with {hand:.0f} µs in a hand-written loop" in page


def test_speeds_are_those_of_the_records():
    page = (ROOT / "docs" / "lab" / "performance.md").read_text("utf-8")
    core = last_record("core")
    for size in ("(256, 10)", "(1024, 1000)"):
        uniform, dense = (
            core[f"forward_cross_entropy {kind} {size}"]["ratio"] for kind in ("uniform", "dense")
        )
        assert f"| {uniform:.2f} uniform, {dense:.2f} dense |" in page
    many = last_record("ensemble")["300 networks 16-3-10"]
    assert f"| {many['times_faster_than_one_after_another']} |" in page


def test_speeds_on_a_gpu_are_those_of_the_records():
    page = (ROOT / "docs" / "lab" / "performance.md").read_text("utf-8")
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
    of_many = [" ".join(each.split()) for each in (page, MANY_AT_ONCE.read_text("utf-8"))]
    times = f"{small['times_faster_than_one_after_another']:.0f} times less"
    assert f"{times} on one H200" in of_many[0]
    assert f"on one H200 {times}" in of_many[1]
    assert f"took {lenets['times_faster_than_one_after_another']} times less" in of_many[0]
    accuracy = f"{cifar['accuracy_mean']:.1f} % ± {cifar['accuracy_sd']:.1f}"
    assert f"| {accuracy} in {cifar['seconds_mean']:.1f} s |" in page


def test_what_threads_cost_is_that_of_the_record():
    page = (ROOT / "docs" / "lab" / "performance.md").read_text("utf-8")
    busy = last_record("threads")["busy"].values()
    times = [each["2 threads"] / each["1 threads"] for each in busy]
    assert f"takes {min(times):.0f} to {max(times):.0f} times as long" in page


def test_speed_of_the_statistics_is_that_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "statistics.jsonl").read_text("utf-8").splitlines()
    record = json.loads(lines[-1])["results"]
    page = (ROOT / "docs" / "lab" / "performance.md").read_text("utf-8")
    assert f"take {record['total_seconds']:.0f} seconds" in page
    assert f"in {record['peak_gb']:.1f} GB" in page


@pytest.mark.parametrize(
    "part, printed", [("methods", markdown_table()), ("references", markdown_references())]
)
def test_table_of_methods_and_references_are_what_the_command_prints(part, printed):
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    found = page.partition(f"<!-- {part}: begin -->\n")[2].partition(f"<!-- {part}: end -->")[0]
    assert found == printed, "paste the output of: naysay methods --markdown"


def test_times_of_whole_tables_are_those_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "reproduction_times.jsonl").read_text("utf-8")
    quick, first, second = (json.loads(line)["results"]["seconds"] for line in lines.splitlines())
    page = (ROOT / "docs" / "lab" / "results.md").read_text("utf-8")
    assert f"{first} s for Table 1" in page
    assert f"{second} s for Table 2" in page
    minutes, seconds = divmod(quick, 60)
    page = (ROOT / "docs" / "lab" / "reproduction.md").read_text("utf-8")
    assert f"took {minutes} min {seconds} s" in page


def test_results_and_report_are_those_of_the_records():
    records = read_records("reproduction")
    page = (ROOT / "docs" / "lab" / "results.md").read_text("utf-8")
    found = page.partition("<!-- results: begin -->\n")[2].partition("<!-- results: end -->")[0]
    assert found == markdown(summarise_records(SUITES.values(), records)), "see docs/lab/results.md"
    report = (ROOT / "docs" / "report.html").read_text("utf-8")
    assert report == render_report_page(records), (
        "run: naysay report RECORDS --out docs/report.html"
    )


def test_table_3_with_fewer_epochs_is_that_of_its_records():
    page = " ".join((ROOT / "docs" / "lab" / "results.md").read_text("utf-8").split())
    found = shorter_records()
    for row, knows in (("LM/T", "true Q"), ("LM/E", "estimated Q"), ("PC/S", "no Q")):
        several = (100 * found[knows, name].accuracy for name in ("uniform", "without0", "with0"))
        assert "{} {:.2f}, {:.2f} and {:.2f} %".format(row, *several) in page
    assert f"TL {100 * found['true labels', 'none'].accuracy:.2f} %" in page


def test_how_much_of_table_3_is_there_is_that_of_the_records():
    page = " ".join((ROOT / "docs" / "lab" / "results.md").read_text("utf-8").split())
    records = read_records("reproduction")
    wanted = {spec for _, spec in SUITES["table3"].specs("best")}
    made = [each for each in records if each.spec in wanted]
    assert len(made) == len(wanted)
    assert f"All of its {len(wanted)} runs have been made" in page
    best = min(made[0].history, key=lambda each: each["held_out_loss"])["epoch"]
    assert f"lowest after {best:.0f} of the {made[0].spec.options['epochs']} epochs" in page
    found = defaultdict(list)
    for each in made:
        found[each.spec.knows, each.spec.setting].append(each.accuracy)
    ceiling = statistics.mean(found["true labels", "none"])
    below = [
        f"{100 * (ceiling - statistics.mean(found['estimated Q', name])):.1f}"
        for name in ("uniform", "without0", "with0")
    ]
    assert "LM/E is {}, {} and {} points below TL".format(*below) in page


def test_accuracies_with_real_labels_are_those_of_the_records():
    page = " ".join((ROOT / "docs" / "lab" / "results.md").read_text("utf-8").split())
    records = read_records("reproduction")
    found = {
        each.spec.labels: f"{100 * each.accuracy:.2f} %"
        for each in records
        if each.spec.setting == "aclcifar10" and each.spec.knows == "estimated Q"
    }
    assert f"LM/E reaches {found[1]} with one of them per image, {found[3]} with three" in page
    assert f"and {found[9]} with nine" in page
    path = ROOT / "benchmarks" / "results" / "real_labels.jsonl"
    results = json.loads(path.read_text("utf-8").splitlines()[-1])["results"]
    for name in (
        "bits_between_labels_given_class",
        "bits_between_labels_shuffled",
        "bits_label_and_cluster_given_class",
        "bits_label_and_cluster_shuffled",
        "bits_about_class",
        "bits_of_a_label_given_class",
    ):
        assert str(results[name]) in page


def test_what_crops_and_flips_are_needed_for_is_that_of_the_records():
    page = " ".join((ROOT / "docs" / "lab" / "results.md").read_text("utf-8").split())
    records = read_records("unaugmented")
    found = {each.spec.setting: each for each in records}
    uniform, biased = (100 * found[name].accuracy for name in ("uniform", "without0"))
    assert f"{uniform:.2f} % with uniform labels and {biased:.2f} % under without0" in page
    lowest = [
        min(found[name].history, key=lambda each: each["held_out_loss"])["epoch"]
        for name in ("uniform", "without0")
    ]
    assert "lowest after {:.0f} and {:.0f} epochs".format(*lowest) in page


def test_the_study_of_the_default_is_that_of_the_records():
    page = (ROOT / "docs" / "lab" / "default.md").read_text("utf-8")
    path = ROOT / "benchmarks" / "results" / "default.jsonl"
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert min(each["seed"] for each in records) >= 300  # not those that were developed on
    behind = [
        max(each["anchors_alone"].values()) - each["accuracy"]
        for each in records
        if each["anchors_alone"]
    ]
    n_behind = sum(each > 0.01 for each in behind)
    assert f"{n_behind} of {len(behind)} fits (largest distance {100 * max(behind):.1f}" in page
    (commit,) = {each["git_commit"] for each in records}
    assert f"made at commit {commit})" in " ".join(page.split())
    inside = [
        each["interval"][0] <= each["accuracy"] <= each["interval"][1]
        for each in records
        if each["anchors_alone"]
    ]
    assert f"Accuracy covered in {statistics.mean(inside):.1%}," in page
    cells = defaultdict(list)
    for each in records:
        key = each["table"], each["setting"], each["balanced"], each["anchors_per_class"]
        cells[key].append(100 * each["accuracy"])
    for key, several in cells.items():
        mean, deviation = statistics.mean(several), statistics.stdev(several)
        row = f"| {' | '.join(map(str, key))} | {len(several)} | {mean:.1f} ± {deviation:.1f} |"
        assert row in page


def test_the_study_of_other_tables_is_that_of_the_records():
    words = " ".join((ROOT / "docs" / "lab" / "default.md").read_text("utf-8").split())
    path = ROOT / "benchmarks" / "results" / "default-others.jsonl"
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert min(each["seed"] for each in records) > 912  # not those that were developed on
    rows = defaultdict(list)
    for each in records:
        rows[each["table"]].append([each["accuracy"], *each["anchors_alone"].values()])
    n_behind = 0
    for name, fits in rows.items():
        cells = []
        for column, several in enumerate(zip(*fits, strict=True)):
            others = [max(row[:column] + row[column + 1 :]) for row in fits]
            behind = [best - own > 0.01 for best, own in zip(others, several, strict=True)]
            cells.append(f"{100 * statistics.mean(several):.1f} ({sum(behind)})")
            n_behind += sum(behind) if column == 0 else 0
        assert f"| {name} | {len(fits)} | {' | '.join(cells)} |" in words
    assert f"in {n_behind} of {len(records)} fits" in words


def test_the_study_of_coverage_is_that_of_the_records():
    page = (ROOT / "docs" / "lab" / "coverage.md").read_text("utf-8")
    path = ROOT / "benchmarks" / "results" / "coverage.jsonl"
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert min(each["seed"] for each in records) >= 500  # not those that were developed on
    shown = [each for each in records if each["unknown"] is None]
    covered = [
        each["interval"][0] <= each["true_accuracy"] <= each["interval"][1] for each in shown
    ]
    coverage = sum(covered) / len(covered)
    entries = [each["entries_covered"] for each in records]
    unknown = 1 - len(shown) / len(records)
    assert f"| all fits | {len(records)} | {unknown:.1%} | {coverage:.1%} |" in page
    assert f"| {sum(entries) / len(entries):.1%} |" in page
    trust, readme = (
        " ".join((ROOT / name).read_text("utf-8").split())
        for name in ("docs/trust.md", "README.md")
    )
    assert f"covered the accuracy in {coverage:.0%} of {len(records)} fits" in trust
    path = path.with_name("coverage-others.jsonl")
    others = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    covered = [
        each["interval"][0] <= each["true_accuracy"] <= each["interval"][1] for each in others
    ]
    share = sum(covered) / len(covered)
    assert f"| all fits | {len(others)} | 0.0% | {share:.1%} |" in page
    assert f"and in {share:.0%} of {len(others)} fits of tables on which nothing" in trust
    assert f"[cover it in {100 * coverage:.0f} % of {len(records)} fits]" in readme


def test_errors_of_two_versions_are_those_of_the_record():
    page = (ROOT / "docs" / "lab" / "estimation.md").read_text("utf-8")
    path = ROOT / "benchmarks" / "results" / "separable.jsonl"
    found = defaultdict(dict)
    for record in map(json.loads, path.read_text("utf-8").splitlines()):
        results = record["results"]
        found[results["table"], results["setting"]][record["measured_commit"]] = results
    names = {"digits": "digits", "usps": "USPS", "mnist": "MNIST"}
    for (table, setting), versions in found.items():
        pair = [versions[commit] for commit in ("f754e82", "8f113a2")]
        cells = [f"{each['row_error']:.3f}" for each in pair]
        cells += [f"{100 * each['accuracy']:.1f}" for each in pair]
        assert f"| {names[table]} | {setting} | {' | '.join(cells)} |" in page


def test_what_pairs_add_is_that_of_the_records():
    page = " ".join((ROOT / "docs" / "lab" / "coverage.md").read_text("utf-8").split())
    lines = (ROOT / "benchmarks" / "results" / "pairs.jsonl").read_text("utf-8").splitlines()
    found = [each for each in map(json.loads, lines) if "seed" in each]
    mean = {
        name: statistics.mean(each["results"][name] for each in found)
        for name in found[0]["results"]
    }
    assert f"{len(found)} random matrices" in page
    assert f"{mean['pairs_error']:.2f} with the pairs and {mean['anchors_error']:.2f} with" in page
    reached = (100 * mean[f"{name}_accuracy"] for name in ("pairs", "anchors", "true"))
    assert "{:.1f} and {:.1f} % where the true matrix gives {:.1f} %".format(*reached) in page


def test_power_and_false_alarms_of_the_test_of_a_matrix_are_those_of_the_record():
    path = ROOT / "benchmarks" / "results" / "agreement.jsonl"
    record = json.loads(path.read_text("utf-8").splitlines()[-1])["results"]
    found = {(each["n_classes"], each["kind"], each["n"]): each for each in record["results"]}
    page = " ".join((ROOT / "docs" / "trust.md").read_text("utf-8").split())
    few, many, letters = (
        found[key]["power"] for key in [(5, "random", 100), (5, "random", 500), (26, "random", 500)]
    )
    alarms = sum(each["false_alarms"] for each in record["results"]) / len(record["results"])
    assert f"a right matrix was refuted in {alarms:.1%} of the cases" in page
    uniform, given = (record["tables"][kind] for kind in ("uniform", "given"))
    assert (
        f"{uniform['refuted']} of {uniform['cases']} with the uniform matrix was refuted and "
        f"{given['refuted']} of {given['cases']} with another one"
    ) in page
    assert f"100 labels refuted the uniform matrix in {few:.0%} of the cases" in page
    assert f"and 500 labels in {many:.0%}" in page
    assert f"with 26 classes, 500 labels did in {letters:.0%}" in page


def test_size_and_import_time_of_the_package_are_those_of_the_record():
    record = last_record("package")
    page = " ".join((ROOT / "docs" / "lab" / "performance.md").read_text("utf-8").split())
    seconds = record["seconds"]
    assert f"The wheel has {record['wheel_kb']} KB" in page
    more = seconds["import naysay"] - seconds["python alone"]
    assert f"takes {more:.2f} s more than Python alone" in page
    assert f"takes {seconds['import of the classifier']:.1f} s to import" in page
    assert f"`naysay --version` takes {seconds['naysay --version']:.1f} s" in page
