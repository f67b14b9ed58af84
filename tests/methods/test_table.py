"""METHODS: every entry is whole, can be found by name, and trains the classifier."""

import inspect
import re

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from naysay import (
    ComplementaryClassifier,
    InvalidInput,
    InvalidTransitionMatrix,
    TransitionMatrix,
    functional,
    losses,
)
from naysay.methods import METHODS, Setting, find_method, markdown_table
from naysay.methods.references import REFERENCES

EVERY = pytest.mark.parametrize("name", METHODS)
FUNCTIONS = [name for name in functional.__all__ if name not in ("BaseLoss", "BinaryLoss")]
UNIFORM = TransitionMatrix.uniform(3)
SINGULAR = TransitionMatrix([[0, 0, 1], [0, 0, 1], [0.5, 0.5, 0]])
#: a numbered place in a publication, such as "equation (14)" or "section 8.1"
PLACE = re.compile(r"(equations?|Theorem|Algorithm|definition|section) \(?\d")
#: whose publication could not be read; they say so where the others name a place
UNNUMBERED = {
    "complementary_cross_entropy",
    "partial_output_consistency",
    "trained_forward_cross_entropy",
}
#: to which the publisher gave no DOI, and of which no arXiv version was found
WITHOUT_DOI = {"Cour et al. 2011", "Gao & Zhang 2021", "Liu et al. 2023"}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, UNIFORM.sample(y, seed=0)


def small(**options):
    return ComplementaryClassifier(random_state=0, device="cpu", **options)


def test_names_are_those_of_the_field():
    assert list(METHODS) == [
        *("forward", "forward-mse", "forward-mae", "forward-gce", "pc", "ova", "pl", "ml"),
        *("backward", "free", "nn", "ga", "scl-nl", "scl-exp", "mcl-mae", "mcl-exp", "mcl-log"),
        *("l-uw", "l-w", "op", "op-w", "scarce"),
        *("cpe-i", "cpe-f", "cpe-t", "pocr", "two-views", "weak-to-strong"),
    ]


@EVERY
def test_every_entry_says_what_it_is(name):
    method = METHODS[name]
    assert method.name == name
    assert find_method(name) is find_method(method) is method
    assert all(key in REFERENCES for key in method.source.split("; "))
    for sentence in (method.summary, method.when):
        assert sentence.endswith(".")
        assert len(sentence) < 90
        assert "|" not in sentence


@EVERY
def test_needs_are_those_of_the_loss(name):
    method = METHODS[name]
    loss = method.make_loss(Setting(Q=UNIFORM, prior=torch.full((3,), 1 / 3)))
    assert type(loss).__name__ in losses.__all__
    if name != "free":
        assert method.needs_transition == hasattr(loss, "Q")
    assert method.needs_prior == hasattr(loss, "prior")
    if method.takes_several:
        assert loss(torch.zeros(2, 3), torch.tensor([[1, 1, 0], [0, 1, 0]]).bool()).isfinite()


def test_only_methods_that_need_a_prior_ask_for_it():
    for method in METHODS.values():
        if method.needs_prior:
            with pytest.raises(InvalidInput, match="needs the class prior"):
                method.make_loss(Setting(Q=UNIFORM))
        else:
            method.make_loss(Setting(Q=UNIFORM))


def test_the_table_has_a_row_for_each():
    rows = markdown_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(METHODS)


@pytest.mark.unmeasured
@EVERY
def test_every_method_learns_iris_from_uniform_labels_and_is_saved_by_its_name(
    name, iris, tmp_path
):
    X, y, comp_labels = iris
    clf = small(method=name, epochs=30).fit(X, comp_labels)
    assert (clf.predict(X) == y).mean() > 0.6
    assert np.isfinite(clf.predict_proba(X)).all()
    assert all(np.isfinite(record["held_out_loss"]) for record in clf.history_)
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    assert loaded.method == name
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


@EVERY
@pytest.mark.unmeasured
def test_every_method_takes_anchors_too(name, iris):
    X, y, comp_labels = iris
    anchors = (X[::10], y[::10])
    clf = small(method=name, transition="estimate", epochs=1).fit(X, comp_labels, anchors=anchors)
    assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize("name", ["backward", "nn", "ga"])
def test_methods_that_invert_the_matrix_refuse_a_singular_one(name, iris):
    X, y, _ = iris
    with pytest.raises(InvalidTransitionMatrix, match=r"must be invertible.*'forward'"):
        small(method=name, transition=SINGULAR, epochs=1).fit(X, SINGULAR.sample(y))


@pytest.mark.unmeasured
def test_the_other_methods_take_a_singular_matrix(iris):
    X, y, _ = iris
    for name in METHODS.keys() - {"backward", "nn", "ga"}:
        small(method=name, transition=SINGULAR, epochs=1).fit(X, SINGULAR.sample(y))


def test_an_unknown_name_gets_the_closest():
    with pytest.raises(InvalidInput, match=r"Did you mean 'mcl-log'\? See: naysay methods"):
        find_method("mcl_log")


def cited_in(doc):
    """Return the paragraph under "References" of a docstring, on one line."""
    return " ".join(doc.partition("References\n----------\n")[2].partition("\n\n")[0].split())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_loss_says_its_formula_and_links_to_its_source(name):
    doc = inspect.getdoc(getattr(functional, name))
    assert ".. math::" in doc
    cited = cited_in(doc)
    links = {link.rstrip(".") for link in re.findall(r"https://\S+", cited)}
    assert links
    assert links <= {each.link for each in REFERENCES.values()}
    keys = [key for key, each in REFERENCES.items() if each.link in links]
    assert all(key in cited for key in keys)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_loss_says_where_in_its_source_the_formula_stands(name):
    cited = cited_in(inspect.getdoc(getattr(functional, name)))
    if name in UNNUMBERED:
        assert "number not checked" in cited
    else:
        ours = cited.startswith("New in naysay")
        assert ours or PLACE.search(cited), f"name the equation, theorem or section: {cited}"
        assert "not checked" not in cited


@EVERY
def test_every_method_cites_its_sources_beside_its_formula(name):
    method = METHODS[name]
    loss = method.make_loss(Setting(Q=UNIFORM, prior=torch.full((3,), 1 / 3)))
    assert loss.function.__name__ in FUNCTIONS
    cited = cited_in(inspect.getdoc(type(loss))) + cited_in(inspect.getdoc(loss.function))
    for key in method.source.split("; "):
        assert key in cited
        assert REFERENCES[key].link in cited


def test_references_are_lasting_links_and_every_one_is_used():
    assert {key for each in METHODS.values() for key in each.source.split("; ")} == set(REFERENCES)
    for key, each in REFERENCES.items():
        assert key[-4:] in each.venue
        lasting = (
            r"https://(jmlr\.org/papers/|proceedings\.mlr\.press/)\S+"
            if key in WITHOUT_DOI
            else r"https://doi\.org/10\.\d{4,5}/\S+"
        )
        assert re.fullmatch(lasting, each.link)
