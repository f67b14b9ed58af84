"""Which labels to offer: lists that are balanced, figures that loops and simulations confirm."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from naysay import InvalidData, InvalidInput, InvalidLabels, TransitionMatrix
from naysay.cli import app
from naysay.design import ANY_WRONG, FIRST_WRONG, Instruction, Scheme, information, propose
from naysay.observations import log_likelihoods
from naysay.workflows.files import read_classes
from places import ROOT

BOTH = pytest.mark.parametrize("instruction", [ANY_WRONG, FIRST_WRONG], ids=lambda i: i.name)
SKEWED = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def fisher(scheme, shares, prior):
    """Sum of outer products of scores, answer by answer."""
    n_classes = len(prior)
    total = np.zeros((n_classes, n_classes))
    for share, Q in zip(shares, scheme.matrices.values(), strict=True):
        values = np.asarray(Q)
        for answer in range(n_classes):
            chance = math.fsum(prior[k] * values[k, answer] for k in range(n_classes))
            if chance > 0:
                total += share / chance * np.outer(values[:, answer], values[:, answer])
    return total


def total_variance(information_matrix):
    """Trace of the inverse on vectors that sum to zero, through a basis of them."""
    n_classes = len(information_matrix)
    basis = np.linalg.svd(np.ones((1, n_classes)))[2][1:].T
    return np.trace(np.linalg.inv(basis.T @ information_matrix @ basis))


def test_matrices_say_how_annotators_answer():
    classes = ["cat", "dog", "owl", "fox"]
    free = Scheme(
        classes=tuple(classes),
        lists=np.array([[1, 3, 0]]),
        shares=np.ones(1),
        prior=np.full(4, 0.25),
        instruction=ANY_WRONG,
    )
    third = 1 / 3
    assert np.asarray(free.matrices["list-1"]).tolist() == [
        [0, 0.5, 0, 0.5],
        [0.5, 0, 0, 0.5],
        [third, third, 0, third],
        [0.5, 0.5, 0, 0],
    ]
    ordered = Scheme(**{**vars_of(free), "instruction": FIRST_WRONG})
    answered = np.asarray(ordered.matrices["list-1"]).argmax(axis=1)
    assert [classes[label] for label in answered] == ["dog", "fox", "dog", "dog"]
    assert free.groups == {"list-1": ("dog", "fox", "cat")}


def vars_of(scheme):
    return {
        name: getattr(scheme, name)
        for name in ("classes", "lists", "shares", "prior", "instruction")
    }


@given(st.integers(3, 14), st.data())
@settings(max_examples=12)
def test_lists_have_distinct_labels_offered_and_first_equally_often(n_classes, data):
    n_offered = data.draw(st.integers(2, n_classes))
    scheme = propose(n_classes, n_offered, seed=data.draw(st.integers(0, 99)))
    assert all(len(set(offered)) == n_offered for offered in scheme.lists.tolist())
    offers = np.bincount(scheme.lists.ravel(), minlength=n_classes)
    assert np.ptp(offers) <= 2
    firsts = np.bincount(scheme.lists[:, 0], minlength=n_classes)
    assert np.ptp(firsts) == 0
    assert scheme.diagnose().identifiable


def test_pairs_meet_equally_often_where_that_is_possible():
    lists = propose(7, 3).lists  # the Fano plane: each of 21 pairs once
    pairs = [frozenset(pair) for offered in lists for pair in itertools.combinations(offered, 2)]
    assert len(set(pairs)) == len(pairs) == 21


@BOTH
@pytest.mark.parametrize("prior", [None, SKEWED], ids=["uniform", "skewed"])
def test_figures_are_those_of_plain_loops(instruction, prior):
    scheme = propose(6, 3, instruction=instruction, prior=prior, seed=3)
    d = scheme.diagnose()
    pi = np.full(6, 1 / 6) if prior is None else prior
    bits = sum(
        share * Q.diagnose(prior=pi).bits_per_label
        for share, Q in zip(scheme.shares, scheme.matrices.values(), strict=True)
    )
    assert d.bits_per_label == pytest.approx(bits, rel=1e-9)
    uniform = TransitionMatrix.uniform(6)
    assert d.uniform_bits_per_label == pytest.approx(uniform.diagnose(prior=pi).bits_per_label)
    assert d.bits_per_true_label == pytest.approx(uniform.diagnose(prior=pi).bits_per_true_label)
    values = np.asarray(uniform)
    of_uniform = values / (pi @ values) @ values.T
    ratio = total_variance(fisher(scheme, scheme.shares, pi)) / total_variance(of_uniform)
    assert d.examples_at_first == pytest.approx(ratio, rel=1e-9)
    stacked = np.hstack([np.asarray(Q) for Q in scheme.matrices.values()])
    assert d.rank == np.linalg.matrix_rank(stacked) == 6
    pooled = sum(
        share * np.asarray(Q)
        for share, Q in zip(scheme.shares, scheme.matrices.values(), strict=True)
    )
    np.testing.assert_allclose(np.asarray(scheme.pooled), pooled, atol=1e-12)


@pytest.mark.parametrize("n_classes,n_offered", [(7, 3), (4, 3), (3, 2)])
def test_balanced_lists_have_closed_forms(n_classes, n_offered):
    d = propose(n_classes, n_offered).diagnose()
    K, m = n_classes, n_offered  # noqa: N806
    assert d.bits_per_label == pytest.approx(m / K * math.log2(m / (m - 1)))
    assert d.examples_at_first == pytest.approx(K * (m - 1) / (m * (K - 1)))
    assert d.condition_number == pytest.approx(1)
    in_order = propose(n_classes, n_offered, instruction=FIRST_WRONG).diagnose()
    share = 1 / K
    assert in_order.bits_per_label == pytest.approx(
        -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    )
    assert in_order.examples_at_first == pytest.approx(1 / (K - 1))


@pytest.mark.parametrize("n_classes", [3, 8])
def test_all_labels_in_every_list_are_uniform_labels(n_classes):
    scheme = propose(n_classes, n_classes)
    assert all(Q.is_uniform for Q in scheme.matrices.values())
    d = scheme.diagnose()
    assert d.examples_at_first == pytest.approx(1)
    assert d.examples_at_last == pytest.approx(1, rel=1e-3)
    assert d.bits_per_label == pytest.approx(d.uniform_bits_per_label)


@BOTH
def test_shares_of_a_skewed_prior_are_the_best_there_are(instruction):
    scheme = propose(6, 2, instruction=instruction, prior=SKEWED, n_groups=12)
    best = total_variance(fisher(scheme, scheme.shares, SKEWED))
    assert scheme.shares.sum() == pytest.approx(1)
    assert total_variance(fisher(scheme, np.full(12, 1 / 12), SKEWED)) > 1.02 * best
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = 0.7 * scheme.shares + 0.3 * rng.dirichlet(np.ones(12))
        assert total_variance(fisher(scheme, other, SKEWED)) > best * 0.99


def test_variance_is_what_maximum_likelihood_has_in_simulation():
    scheme = propose(4, 2, prior=[0.4, 0.3, 0.2, 0.1], n_groups=8)
    rng = np.random.default_rng(0)
    n, errors = 4000, []
    for _ in range(60):
        true = rng.choice(4, size=n, p=scheme.prior)
        likelihood = np.exp(log_likelihoods(scheme.sample(true, seed=rng), scheme.matrices))
        likelihood, counts = np.unique(likelihood, axis=0, return_counts=True)
        shares = np.full(4, 0.25)
        for _ in range(150):  # EM
            posterior = likelihood * shares
            shares = counts / n @ (posterior / posterior.sum(axis=1, keepdims=True))
        errors.append(((shares - scheme.prior) ** 2).sum())
    predicted = total_variance(fisher(scheme, scheme.shares, scheme.prior)) / n
    assert np.mean(errors) == pytest.approx(predicted, rel=0.35)


@pytest.mark.parametrize("n_offered", [2, 4])
def test_the_number_for_clear_classes_bounds_the_error_in_simulation(n_offered):
    scheme = propose(5, n_offered)
    columns = np.hstack([np.asarray(Q) for Q in scheme.matrices.values()])
    weights = np.repeat(scheme.shares, 5)
    n = math.ceil(information.examples_if_clear(columns, weights, scheme.prior))
    rng = np.random.default_rng(1)
    wrong = 0
    for trial in range(400):
        true = trial % 5
        evidence = log_likelihoods(scheme.sample(np.full(n, true), seed=rng), scheme.matrices)
        wrong += evidence.sum(axis=0).argmax() != true
    assert wrong / 400 <= 0.05 + 0.03
    assert wrong > 0 or n_offered == 2  # a bound, but not a void one


def test_shorter_lists_and_a_fixed_order_tell_more():
    found = [propose(10, m).diagnose() for m in (2, 4, 8)]
    found.insert(0, propose(10, 4, instruction=FIRST_WRONG).diagnose())
    for name in ("examples_at_first", "examples_at_last"):
        figures = [getattr(d, name) for d in found]
        assert figures == sorted(figures)
        assert figures[-1] < 1
    assert [d.bits_per_label for d in found] == sorted(d.bits_per_label for d in found)[::-1]


def test_items_get_groups_by_share_at_random_and_answers_of_their_list():
    scheme = propose(6, 3, prior=SKEWED, classes=["a", "bb", "ccc", "d", "e", "ffff"])
    groups = scheme.assign(1001, seed=4)
    for name, share in zip(scheme.names, scheme.shares, strict=True):
        assert abs((groups == name).sum() - 1001 * share) <= 1
    assert (groups != np.sort(groups)).any()
    assert (scheme.assign(1001, seed=4) == groups).all()
    true = np.repeat(scheme.classes, 50)
    answers = scheme.sample(true, seed=0)
    assert (answers.label != true).all()
    assert {"bb", "ffff"} <= set(answers.label.tolist())
    for label, group in zip(answers.label, answers.annotator, strict=True):
        assert label in scheme.groups[group]
    assert scheme.sample(np.arange(6), seed=0).label.dtype.kind == "i"
    with pytest.raises(InvalidLabels, match="true_labels must name the classes"):
        scheme.sample(["zebra"])


def test_a_scheme_is_read_back_as_it_was_written(tmp_path):
    scheme = propose(4, 2, classes=["cat", "dog, wet", "owl", "füchs"], seed=1)
    propose(4, 2, n_groups=20).write(tmp_path / "task")  # an earlier one leaves nothing behind
    scheme.write(tmp_path / "task")
    again = Scheme.read(tmp_path / "task")
    assert again.groups == scheme.groups
    assert again.matrices == scheme.matrices
    for name, Q in scheme.matrices.items():
        assert TransitionMatrix.read(tmp_path / "task" / "matrices" / f"{name}.csv") == Q
    assert len(list((tmp_path / "task" / "matrices").iterdir())) == len(scheme.lists)
    rows = (tmp_path / "task" / "lists.csv").read_text("utf-8").splitlines()
    assert rows[0] == "group,share,offered 1,offered 2"
    assert len(rows) == 1 + len(scheme.lists)


def test_an_instruction_of_ones_own(tmp_path):
    def last_wrong(offered, n_classes):
        return FIRST_WRONG.answers(offered[::-1], n_classes)[:, ::-1]

    backwards = Instruction("last wrong", "Name the last wrong label.", last_wrong)
    scheme = propose(5, 5, instruction=backwards)
    assert scheme.diagnose().identifiable
    first = np.asarray(next(iter(scheme.matrices.values())))
    assert first[scheme.lists[0, 0]].argmax() == scheme.lists[0, -1]
    scheme.write(tmp_path)
    assert Scheme.read(tmp_path, instruction=backwards).matrices == scheme.matrices
    with pytest.raises(InvalidInput, match=r"instruction 'last wrong'\. Pass it as instr"):
        Scheme.read(tmp_path)


def test_an_instruction_without_probabilities_is_refused():
    odd = Instruction("odd", "Say nothing.", lambda offered, n_classes: np.zeros((n_classes, 2)))
    with pytest.raises(InvalidInput, match=r"'odd' must be probabilities of shape \(4, 2\)"):
        propose(4, 2, instruction=odd)


def test_a_file_that_is_no_scheme_is_refused(tmp_path):
    for text in ("[]", "{", '{"instruction": {"name": "any wrong"}}'):
        (tmp_path / "scheme.json").write_text(text)
        with pytest.raises(InvalidData, match="must be a scheme that naysay wrote"):
            Scheme.read(tmp_path)


@pytest.mark.parametrize(
    "arguments,wording",
    [
        ({"n_classes": 5, "n_offered": 1}, "must be at least 2, so that one label"),
        ({"n_classes": 5, "n_offered": 6}, r"at most the 5 classes\. Got 6"),
        (
            {"n_classes": 5, "n_offered": 2, "n_groups": 3},
            "all 5 classes. 3 lists of 2 labels do not",
        ),
        ({"n_classes": 5, "n_offered": 2, "n_groups": 0}, "n_groups must be an integer"),
        ({"n_classes": 3, "n_offered": 2, "prior": [0.5, 0.5, 0]}, "that of '2' is 0"),
        ({"n_classes": 3, "n_offered": 2, "prior": [0.5, 0.5]}, "prior must be 3 probabilities"),
        ({"n_classes": 2001, "n_offered": 2}, "at most 2,000 classes"),
        ({"n_classes": 10**12, "n_offered": 2, "n_groups": 1}, "at most 2,000 classes"),
        ({"n_classes": 3, "n_offered": 2, "n_groups": 999_999}, "at most 10,000 lists"),
        ({"n_classes": 3, "n_offered": 2, "seed": "x"}, "seed must be an integer"),
    ],
)
def test_what_cannot_be_proposed_is_refused(arguments, wording):
    with pytest.raises(InvalidInput, match=wording):
        propose(**arguments)


def test_a_scheme_that_confuses_classes_says_so():
    scheme = propose(4, 2)
    some = Scheme(**{**vars_of(scheme), "lists": np.array([[0, 1]]), "shares": np.ones(1)})
    d = some.diagnose()
    assert not d.identifiable
    assert str(d) == "rank 2 of 4: some classes cannot be distinguished"
    figures = json.loads(json.dumps(d.to_dict(), allow_nan=False))
    assert figures["examples_at_first"] is figures["examples_at_last"] is None


def test_many_classes_are_no_problem():
    d = propose(60, 4).diagnose()
    assert d.identifiable
    assert d.examples_at_first < 0.85
    assert d.condition_number < 5


def test_command_prints_the_scheme_and_writes_it(tmp_path):
    done = run("design", "--classes", "cat,dog,owl,fox", "--offered", 3, "--out", tmp_path / "task")
    assert done.exit_code == 0
    scheme = Scheme.read(tmp_path / "task")
    assert str(scheme.diagnose()) in done.output
    assert all(", ".join(offered) in done.output for offered in scheme.groups.values())
    assert ANY_WRONG.text in done.output
    assert "Next: put each example into a group at random" in done.output


def test_command_takes_a_number_a_file_and_a_prior(tmp_path):
    (tmp_path / "names.txt").write_text("cat\n\ndog\nowl\n")
    (tmp_path / "prior.csv").write_text("class,share\nowl,0.2\ncat,0.5\ndog,0.3\n")
    options = ("--prior", tmp_path / "prior.csv", "--in-order", "--json")
    printed = json.loads(run("design", "--classes", tmp_path / "names.txt", *options).stdout)
    scheme = propose(
        3, 2, classes=["cat", "dog", "owl"], prior=[0.5, 0.3, 0.2], instruction=FIRST_WRONG
    )
    assert {each["group"]: tuple(each["offered"]) for each in printed["groups"]} == scheme.groups
    assert printed["diagnosis"] == scheme.diagnose().to_dict()
    assert "and 20 more" in run("design", "--classes", 40, "--offered", 8).output
    assert (
        "error: n_offered (--offered) must be"
        in run("design", "--classes", 3, "--offered", 9).stderr
    )
    assert "--classes must be a number" in run("design", "--classes", "9" * 5000).stderr
    many = ",".join(f"class {number}" for number in range(600))  # longer than any path may be
    assert read_classes(many)[0] == 600
    (tmp_path / "prior.csv").write_text("class,share\nowl,0.2\ncat,0.8\n")
    done = run("design", "--classes", tmp_path / "names.txt", *options)
    assert done.exit_code == 1
    assert "must give each of the 3 classes one share" in done.stderr
    assert "'dog'" in done.stderr


@pytest.mark.parametrize(
    "rows, row, got",
    [
        ("cat,50%\ndog,25%\nowl,25%", "Data row 1 ('cat')", "'50%'"),
        ('cat,"0,5"\ndog,"0,25"\nowl,"0,25"', "Data row 1 ('cat')", "'0,5'"),
        ("cat,0.5\ndog,abc\nowl,0.25", "Data row 2 ('dog')", "'abc'"),
        ("cat,0.5\ndog,0.5\nowl,", "Data row 3 ('owl')", "an empty cell"),
    ],
)
def test_a_share_that_is_no_number_is_refused_with_its_place(tmp_path, rows, row, got):
    prior = tmp_path / "prior.csv"
    prior.write_text(f"class,share\n{rows}\n")
    TransitionMatrix.uniform(3, classes=["cat", "dog", "owl"]).write(tmp_path / "Q.csv")
    for command in (("design", "--classes", "cat,dog,owl"), ("inspect", tmp_path / "Q.csv")):
        done = run(*command, "--prior", prior)
        assert done.exit_code == 1
        assert done.stderr == (
            f"error: {row} of {prior} must give a share such as 0.25. Got {got}.\n"
        )


def test_classes_without_a_name_are_refused(tmp_path):
    done = run("design", "--classes", "cat,dog,owl,")
    assert done.stderr.startswith("error: --classes must not have empty names. Got 'cat', 'dog'")
    (tmp_path / "names.txt").write_text("\n \n")
    done = run("design", "--classes", tmp_path / "names.txt")
    assert done.stderr.endswith("must contain class names, one in each line. It has none.\n")
    (tmp_path / "names.txt").write_text("cat\ndog\n", "utf-16")
    done = run("design", "--classes", tmp_path / "names.txt")
    assert done.stderr.endswith("must be text in UTF-8, one class name in each line.\n")


def test_the_page_has_the_figures_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "design.jsonl").read_text("utf-8").splitlines()
    results = json.loads(lines[-1])["results"]
    page = (ROOT / "docs" / "lab" / "design.md").read_text("utf-8")
    for name, figures in results.items():
        cells = [
            f"{point['accuracy_mean']:.1f} ± {point['accuracy_sd']:.1f}"
            for point in figures["curve"]
        ]
        assert f"| {name} | {' | '.join(cells)} |" in page
        if name != "uniform":
            ratios = [each["ratio"] for each in figures["examples_needed"]]
            predicted = (figures["predicted_at_first"], figures["predicted_at_last"])
            assert (
                f"| {name} | {predicted[0]:.2f} | {figures['ratio_of_bits']:.2f} | "
                f"{predicted[1]:.2f} | {', '.join(f'{ratio:.2f}' for ratio in ratios)} |"
            ) in page
