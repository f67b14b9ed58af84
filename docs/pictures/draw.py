"""Draw the pictures of the documentation.

Each picture is a small SVG file that adapts to a light or dark theme. Figures are computed here or
read from records; the tests compare the files with the output of this script.
"""

import csv
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from naysay import TransitionMatrix
from naysay.experiments.records import RecordFile
from naysay.experiments.suites import SUITES
from naysay.experiments.tables import summarise_records
from naysay.report.pictures import make_pixel_paths

FOLDER = Path(__file__).parent
RESULTS = FOLDER.parent.parent / "benchmarks" / "results"
WIDTH = 420  # about that of a phone, so that text stays readable there
MOST = 0.6  # the highest opacity on which text is still readable

# The theme of the site takes precedence over that of the system, because the site has a switch.
STYLE = """
.picture{color:#1b1b1f;fill:currentColor;font:13px system-ui,sans-serif;--accent:#5c6bc0}
.picture .cell,.picture .bar{fill:var(--accent)}
.picture .line{fill:none;stroke:currentColor}
.picture .small{font-size:11px}
.picture .strong{font-weight:600}
@media(prefers-color-scheme:dark){.picture{color:#e6e6ea;--accent:#8c9eff}}
[data-md-color-scheme=default] .picture{color:#1b1b1f;--accent:#5c6bc0}
[data-md-color-scheme=slate] .picture{color:#e6e6ea;--accent:#8c9eff}
"""


def svg(height, title, *parts):
    """Compose a picture; screen readers read the title."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" '
        f'viewBox="0 0 {WIDTH} {height}" style="width:100%;max-width:{1.4 * WIDTH:.0f}px">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def draw_readme():
    """Draw the first picture with its own size and background: a README may be shown anywhere."""
    drawn = draw_label().replace(STYLE, STYLE.partition("@media")[0])
    sized = re.sub(r'style="width.*?"', f'width="{1.2 * WIDTH:g}" height="168"', drawn)
    return sized.replace("</style>", '</style>\n<path fill="#fff" d="M0 0h420v140H0z"/>')


def text(x, y, words, *, anchor="start", kind="", turn=None):
    turned = f' transform="rotate({turn} {x:g} {y:g})"' if turn else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}"{turned}>{words}</text>'


def box(x, y, width, height, *, kind="cell", opacity=1.0):
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" '
        f'class="{kind}" opacity="{opacity:.2f}"/>'
    )


def arrow(x, y, length):
    return f'<path class="line" d="M{x} {y}h{length}m-6 -5l6 5l-6 5"/>'


def heat_map(x, y, size, values, names, *, turn=None):
    """Draw the cells of a matrix in per cent, with names at the left and on top."""
    top = values.max()
    for i, name in enumerate(names):
        middle = (i + 0.5) * size
        yield text(x - 6, y + middle + 4, name, anchor="end")
        anchor = "start" if turn else "middle"
        yield text(x + middle + (4 if turn else 0), y - 6, name, anchor=anchor, turn=turn)
        for j, value in enumerate(values[i]):
            left = x + j * size
            yield box(left, y + i * size, size - 1, size - 1, opacity=MOST * value / top)
            if i == j:
                yield box(left, y + i * size, size - 1, size - 1, kind="line", opacity=0.4)
            at = (left + size / 2, y + middle + 4)
            yield text(*at, f"{100 * value:.0f}", anchor="middle", kind="small")


def bars(x, y, values, names, *, scale=70):
    """Draw horizontal bars with their names above and their values behind."""
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        yield text(x, y + 34 * i, name)
        yield box(x, y + 34 * i + 4, max(scale * value, 1), 10, kind="bar")
        yield text(x + scale * value + 5, y + 34 * i + 13, f"{100 * value:.0f}", kind="small")


def records_of(name):
    lines = (RESULTS / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def dot(x, y, *, kind="bar"):
    return f'<circle cx="{x:.1f}" cy="{y:g}" r="4.5" class="{kind}"/>'


def scale_lines(x, width, bottom, ticks, low, high):
    """Draw vertical lines at some values, with the values in % below; return them and the scale."""

    def at(value):
        return x + width * (value - low) / (high - low)

    parts = [
        f'<path class="line" opacity="0.25" d="M{at(tick):.1f} 30V{bottom}"/>'
        + text(at(tick), bottom + 14, f"{100 * tick:.0f}", anchor="middle", kind="small")
        for tick in ticks
    ]
    return parts, at


def pixels(image, x, y, scale):
    """Draw a small image; each pixel is as opaque as it is dark."""
    paths = "".join(
        f'<path d="{path}" opacity="{opacity:g}"/>' for opacity, path in make_pixel_paths(image)
    )
    return f'<g transform="translate({x:g} {y:g}) scale({scale})">{paths}</g>'


def draw_label():
    """Draw which classes a true label and a complementary label leave possible."""
    digits = load_digits()
    image = digits.images[np.flatnonzero(digits.target == 3)[0]]
    parts = [pixels(image, 0, 14, 12)]
    rows = (("true label", "“a 3”", [3]), ("complementary", "“not a 7”", set(range(10)) - {7}))
    for row, (kind, label, left) in enumerate(rows):
        y = 30 + 62 * row
        parts += [text(120, y, kind), text(228, y, label, kind="strong")]
        for digit in range(10):
            x = 120 + 30 * digit
            parts += [
                box(x, y + 8, 26, 24, opacity=MOST if digit in left else 0),
                box(x, y + 8, 26, 24, kind="line", opacity=0.4),
                text(x + 13, y + 24, str(digit), anchor="middle"),
            ]
    return svg(140, "Which digits a true and a complementary label leave possible", *parts)


def draw_habit():
    """Draw the published matrix of human annotators, CLCIFAR-10."""
    Q = TransitionMatrix.human("clcifar10")
    names = [name.replace("automobile", "car").replace("airplane", "plane") for name in Q.classes]
    cells = heat_map(60, 82, 34, np.asarray(Q), names, turn=-60)
    words = [text(4, 20, "true class", kind="strong")]
    words += [text(240, 20, "people say “not a …”", anchor="middle", kind="strong")]
    return svg(426, "How often people exclude each class, given the true one", *words, *cells)


def draw_forward():
    """Draw how probabilities of classes become probabilities of complementary labels."""
    names = ["cat", "dog", "owl"]
    p = np.array([0.7, 0.2, 0.1])
    Q = np.array([[0, 0.9, 0.1], [0.5, 0, 0.5], [0.8, 0.2, 0]])
    q = p @ Q
    loss = -np.log(q[1])
    return svg(
        192,
        "Q turns the probabilities of classes into probabilities of complementary labels",
        text(0, 14, "classes (p)", kind="strong"),
        *bars(0, 42, p, names),
        arrow(108, 84, 24),
        text(216, 14, "matrix (Q)", anchor="middle", kind="strong"),
        *heat_map(171, 42, 30, Q, names),
        arrow(276, 84, 24),
        text(316, 14, "labels (q)", kind="strong"),
        *bars(316, 42, q, names),
        text(0, 180, f"For the label “not a dog” the loss is -log {q[1]:.2f} = {loss:.2f}."),
    )


def draw_rows():
    """Draw a matrix with two equal rows, whose classes cannot be distinguished."""
    names = ["cat", "dog", "owl"]
    apart = np.array([[0, 0.9, 0.1], [0.5, 0, 0.5], [0.8, 0.2, 0]])
    alike = np.array([[0, 0, 1], [0, 0, 1], [0.5, 0.5, 0]])
    return svg(
        172,
        "Rows that differ can be distinguished, equal rows cannot",
        text(34, 14, "rows differ", kind="strong"),
        *heat_map(34, 42, 34, apart, names),
        text(34, 166, "all classes can be learned", kind="small"),
        text(254, 14, "two rows are equal", kind="strong"),
        *heat_map(254, 42, 34, alike, names),
        '<path class="line" d="M362 44h6v64h-6"/>',
        text(254, 166, "cat or dog? Cannot be learned", kind="small"),
    )


def draw_result():
    """Draw the recorded accuracies of `naysay demo`."""
    results = {}
    for record in records_of("demo"):  # a later line about a setting counts
        results |= record["results"]
    methods = {
        "TL": "true labels",
        "PC/S": "“not”, Q ignored",
        "LM/T": "“not”, Q known",
        "LM/E": "“not”, Q estimated",
        "anchors alone": "100 true labels alone",
    }
    settings = {
        "uniform": "all other classes equally often (uniform)",
        "without0": "some classes more often than others (without0)",
        "with0": "only three classes (with0)",
    }
    parts = []
    for group, (setting, words) in enumerate(settings.items()):
        y = 14 + 132 * group
        parts.append(text(0, y, words, kind="strong"))
        for row, (method, meaning) in enumerate(methods.items()):
            figures = results[setting][method]
            mean, deviation = figures["accuracy_mean"], figures["accuracy_sd"]
            at, end = y + 20 + 20 * row, 150 + 1.9 * mean
            low, high = (150 + 1.9 * min(mean + d, 100) for d in (-deviation, deviation))
            parts += [
                text(142, at, meaning, anchor="end", kind="small"),
                box(150, at - 11, end - 150, 14, kind="bar", opacity=MOST),
                f'<path class="line" d="M{low:.1f} {at - 4}H{high:.1f}"/>',
                text(350, at, f"{mean:.1f} ± {deviation:.1f}", kind="small"),
            ]
    return svg(396, "Test accuracy of five methods on the digits, in three settings", *parts)


QUESTIONS = {
    "Which transition matrix?": [
        (
            ["Did users accept or reject", "suggestions?"],
            ["no matrix: keep both", "answers, from_log"],
        ),
        (["Did you choose what annotators", "were offered, or count pairs?"], ["transition=Q"]),
        (
            ["Do you know the true class of", "5 or more examples per class?"],
            ['transition="estimate"'],
        ),
        (["Could you ask an expert for", "them?"], ["ask, then estimate"]),
        (["Otherwise"], ['transition="uniform",', "and test it: naysay check"]),
    ],
    "Which learner?": [
        (["Do you have a training loop", "of your own?"], ["ForwardCrossEntropy(Q)"]),
        (["Do you want another classifier,", "such as LightGBM?"], ["ComplementaryWrapper"]),
        (["Are the examples images?"], ['network="resnet18",', "with augmentation"]),
        (["Otherwise: tables and text"], ["the default,", 'learner="auto"']),
    ],
}


def draw_tree():
    """Draw the two decisions: which transition matrix, and which learner."""
    parts, y = [], 14
    for title, rows in QUESTIONS.items():
        parts.append(text(0, y, title, kind="strong"))
        y += 12
        for row, (question, answer) in enumerate(rows):
            last = row == len(rows) - 1
            parts += [
                box(0, y, 204, 42, kind="line", opacity=0.5),
                box(262, y, 158, 42, opacity=0.3),
                arrow(206, y + 21, 52),
            ]
            for x, lines in ((10, question), (272, answer)):
                top = y + 26 - 8 * (len(lines) - 1)
                parts += [
                    text(x, top + 16 * number, line, kind="small")
                    for number, line in enumerate(lines)
                ]
            if not last:
                parts += [
                    text(226, y + 15, "yes", kind="small"),
                    f'<path class="line" d="M30 {y + 44}v16m-5 -6l5 6l5 -6"/>',
                    text(42, y + 57, "no", kind="small"),
                ]
            y += 62
        y += 22
    return svg(y - 40, "Which transition matrix and which learner to use", *parts)


def draw_coverage():
    """Draw how often the stated intervals of the accuracy covered it, with 95 % intervals."""
    records = [each for each in records_of("coverage") if each["unknown"] is None]
    groups = {"all fits": records}
    for key in ("table", "habit"):
        for value in sorted({each[key] for each in records}):
            groups[value] = [each for each in records if each[key] == value]
    bottom = 30 + 22 * len(groups)
    parts, at = scale_lines(110, 300, bottom, (0.6, 0.7, 0.8, 0.9, 1), 0.6, 1)
    parts.append(
        text(0, 14, "stated 95 % intervals that cover the true accuracy, in %", kind="strong")
    )
    parts.append(f'<path class="line" stroke-dasharray="4 3" d="M{at(0.95):.1f} 24V{bottom}"/>')
    for row, (name, several) in enumerate(groups.items()):
        y = 44 + 22 * row
        covered = [
            each["interval"][0] <= each["true_accuracy"] <= each["interval"][1] for each in several
        ]
        share, low, high = wilson(sum(covered), len(covered))
        parts += [
            text(100, y + 4, name, anchor="end", kind="strong" if not row else ""),
            f'<path class="line" d="M{at(max(low, 0.6)):.1f} {y}H{at(high):.1f}"/>',
            dot(at(share), y),
        ]
    return svg(bottom + 20, "Coverage of the stated intervals, by table and by setting", *parts)


def wilson(hits, n, z=1.96):
    """Return a share and its interval by Wilson."""
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return share, middle - half, middle + half


def draw_methods(family=None):
    """Draw accuracies in two settings: of all methods with seconds, or of a family and forward."""
    found = {"uniform": {}, "strong bias": {}}
    for record in records_of("leaderboard" if family is None else "methods"):  # a later line counts
        for setting, of_methods in record["results"].items():
            found[setting] |= of_methods
    mean = {
        setting: {name: each["accuracy_mean"] / 100 for name, each in of_methods.items()}
        for setting, of_methods in found.items()
    }
    shown = mean["uniform"] if family is None else {"forward", *family}
    names = sorted(shown, key=lambda name: (-mean["strong bias"][name], name))
    bottom = 34 + 18 * len(names)
    parts, at = scale_lines(120, 210, bottom, (0, 0.25, 0.5, 0.75, 1), 0, 1)
    parts += [
        text(0, 14, "test accuracy in %:", kind="strong"),
        dot(150, 10, kind="line"),
        text(160, 14, "uniform labels"),
        dot(270, 10),
        text(280, 14, "strong bias"),
    ]
    for row, name in enumerate(names):
        y = 44 + 18 * row
        uniform, biased = (at(mean[setting][name]) for setting in ("uniform", "strong bias"))
        parts += [
            text(112, y + 4, name, anchor="end", kind="small"),
            f'<path class="line" opacity="0.4" d="M{uniform:.1f} {y}H{biased:.1f}"/>',
            dot(uniform, y, kind="line"),
            dot(biased, y),
        ]
        figures = [f"{100 * mean[setting][name]:.1f}" for setting in found]
        if family is None:
            figures.append(f"{found['uniform'][name]['seconds_mean']:.1f}")
        parts += [
            text(x, y + 4, figure, anchor="end", kind="small")
            for x, figure in zip((374, 416) if family else (356, 388, 419), figures, strict=True)
        ]
    if family is None:
        parts.append(text(419, 14, "seconds", anchor="end", kind="small"))
    whose = "all methods" if family is None else ", ".join(names)
    return svg(bottom + 20, f"Test accuracy of {whose} with uniform and with biased labels", *parts)


def draw_results():
    """Draw the accuracies of LM/E beside the published ones: Tables 2 to 4, recipe `best`."""
    records = RecordFile(RESULTS / "reproduction.jsonl").read()
    rows = {}
    for table in summarise_records(SUITES.values(), records):
        of_photos = table.suite.name in {"table2", "table3", "table4"}
        for cell in table.suite.cells if of_photos and table.recipe == "best" else ():
            result = table.at(cell.row, cell.column)
            if cell.row == "LM/E" and result.records:
                data = table.suite.title.split(": ")[1]
                name = cell.column if table.suite.name == "table4" else f"{data}, {cell.column}"
                rows[name] = cell.published.mean / 100, result.mean / 100
    bottom = 34 + 22 * len(rows)
    parts, at = scale_lines(140, 190, bottom, (0.4, 0.6, 0.8, 1), 0.4, 1)
    parts += [
        text(0, 14, "test accuracy in %:", kind="strong"),
        dot(150, 10, kind="line"),
        text(160, 14, "published"),
        dot(240, 10),
        text(250, 14, "naysay, best"),
    ]
    for row, (name, (published, ours)) in enumerate(rows.items()):
        y = 44 + 22 * row
        parts += [
            text(132, y + 4, name, anchor="end", kind="small"),
            f'<path class="line" opacity="0.4" d="M{at(published):.1f} {y}H{at(ours):.1f}"/>',
            dot(at(published), y, kind="line"),
            dot(at(ours), y),
            text(374, y + 4, f"{100 * published:.1f}", anchor="end", kind="small"),
            text(416, y + 4, f"{100 * ours:.1f}", anchor="end", kind="small"),
        ]
    return svg(bottom + 20, "Accuracy with an estimated matrix, published and with naysay", *parts)


def draw_not_digits():
    """Draw the first images of the gallery's first script, and the labels that they get."""
    digits = load_digits(n_class=6)
    labels = TransitionMatrix.with_zeros(6, seed=0).sample(digits.target, seed=0)
    for at, (image, label) in enumerate(zip(digits.images[:6], labels, strict=False)):
        x = 12 + 68 * at
        yield pixels(image, x, 0, 6)
        yield text(x + 24, 64, f"“not a {label}”", anchor="middle", kind="small")


def draw_birds():
    """Draw two measures of the penguins of the gallery, with a mark for each species."""
    with (FOLDER.parent.parent / "examples" / "penguins.csv").open() as file:
        birds = [row for row in csv.DictReader(file) if row["bill_length_mm"] != "NA"]
    places = {"Adelie": ("bar", 20, 200), "Chinstrap": ("line", 270, 150), "Gentoo": ("", 246, 46)}
    for species, (kind, x, y) in places.items():
        marks = [
            f'<circle cx="{9.6 * (float(bird["bill_length_mm"]) - 31):.0f}" '
            f'cy="{3.1 * (232 - float(bird["flipper_length_mm"])):.0f}" r="2"/>'
            for bird in birds
            if bird["species"] == species
        ]
        yield f'<g class="{kind}">{"".join(marks)}</g>'
        yield text(x, y, species, kind="strong")
    yield text(0, 12, "flipper length", kind="small")
    yield text(WIDTH, 206, "bill length", anchor="end", kind="small")


def draw_gallery(script):
    """Draw what a script of the gallery printed: the share of right predictions."""
    above, parts = 0, []
    if script in EXAMPLES_OF:
        above, draw = EXAMPLES_OF[script]
        parts += draw()
    if script == "13_cifar_on_a_gpu":
        trials = records_of("gpu_cifar")[-1]["results"]["accuracies"]
        shares = {f"seed {seed}": share for seed, share in enumerate(trials)}
    else:
        shares = PRINTED[script]
    for row, (name, share) in enumerate(shares.items()):
        y = above + 16 + 24 * row
        parts += [
            text(182, y, name, anchor="end"),
            box(190, y - 12, 1.9 * share, 16, kind="bar", opacity=MOST),
            text(194 + 1.9 * share, y, f"{share:.0f} %", kind="small"),
        ]
    return svg(above + 24 * len(shares) + 6, "Right predictions, in per cent", *parts)


def methods_of(page):
    """Read which methods a page is about, from the line below its heading."""
    return page.read_text("utf-8").splitlines()[2].replace("`", "").split(" · ")


EXAMPLES_OF = {"01_digits_in_five_lines": (80, draw_not_digits), "12_penguins": (220, draw_birds)}
FAMILIES = sorted((FOLDER.parent / "methods").glob("*.md"))
PRINTED = {}
for line in records_of("gallery"):  # a later line counts
    PRINTED |= line["results"]
GALLERY = [*PRINTED, "13_cifar_on_a_gpu"]
PICTURES = {
    **{f"gallery-{script[:2]}.svg": partial(draw_gallery, script) for script in GALLERY},
    **{f"methods-{page.stem}.svg": partial(draw_methods, methods_of(page)) for page in FAMILIES},
    "tree.svg": draw_tree,
    "coverage.svg": draw_coverage,
    "leaderboard.svg": draw_methods,
    "results.svg": draw_results,
    "label.svg": draw_label,
    "readme.svg": draw_readme,
    "habit.svg": draw_habit,
    "forward.svg": draw_forward,
    "rows.svg": draw_rows,
    "result.svg": draw_result,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), "utf-8")
