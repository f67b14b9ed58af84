"""A pull towards the class shares: the formula, what it composes with, and what it is good for."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from loss_cases import make_logits, possible_labels
from naysay import ComplementaryClassifier, InvalidInput, InvalidTransitionMatrix, TransitionMatrix
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.classifier.targets import MixedLabelLoss, pair_labels
from naysay.ensemble import Member, fit_many
from naysay.estimation import class_prior
from naysay.losses import LikelihoodLoss, PriorMatching, SeveralLabelsLog, SurrogateLog
from naysay.methods import METHODS, Setting
from naysay.networks import MLP
from naysay.training import Examples, Options, fit
from naysay.training.state import of_loss

K = 4
PRIOR = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
Q = TransitionMatrix.without_zeros(K, (0.7, 0.2, 0.1), seed=0)


def by_hand(logits, prior, counted=None):
    """Return KL(prior ‖ mean softmax) of lists of numbers, in plain loops."""
    rows = [row for at, row in enumerate(logits) if counted is None or counted[at]]
    means = [0.0] * len(prior)
    for row in rows:
        total = sum(math.exp(each) for each in row)
        for k, each in enumerate(row):
            means[k] += math.exp(each) / total / len(rows)
    return sum(p * math.log(p / mean) for p, mean in zip(prior, means, strict=True) if p > 0)


# --- the function -------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [PRIOR, torch.tensor([0.5, 0.5, 0.0, 0.0]).double()])
def test_it_is_the_divergence_of_the_mean_from_the_prior(prior):
    logits = make_logits(9, K)
    counted = torch.tensor([True, False, True, True, False, True, True, True, False])
    found = F.prior_matching(logits, prior)
    assert found.item() == pytest.approx(by_hand(logits.tolist(), prior.tolist()), rel=1e-12)
    part = F.prior_matching(logits, prior, counted=counted)
    expected = by_hand(logits.tolist(), prior.tolist(), counted.tolist())
    assert part.item() == pytest.approx(expected, rel=1e-12)


def test_it_is_zero_at_the_prior_and_where_nothing_counts():
    at_prior = PRIOR.log().expand(5, K)
    assert F.prior_matching(at_prior, PRIOR).item() == pytest.approx(0, abs=1e-15)
    logits = make_logits(5, K).requires_grad_()
    nothing = F.prior_matching(logits, PRIOR, counted=torch.zeros(5, dtype=torch.bool))
    nothing.backward()
    assert nothing.item() == 0
    assert (logits.grad == 0).all()


@pytest.mark.unmeasured
@given(seed=st.integers(0, 2**31), n=st.integers(1, 20), n_classes=st.integers(2, 8))
@settings(max_examples=50)
def test_it_is_never_negative_and_knows_no_order_of_classes_or_examples(seed, n, n_classes):
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(n, n_classes, generator=generator, dtype=torch.float64)
    prior = torch.rand(n_classes, generator=generator, dtype=torch.float64)
    prior /= prior.sum()
    found = F.prior_matching(logits, prior)
    assert found >= -1e-12
    classes = torch.randperm(n_classes, generator=generator)
    examples = torch.randperm(n, generator=generator)
    torch.testing.assert_close(
        F.prior_matching(logits[examples][:, classes], prior[classes]), found
    )


def test_gradient_passes_the_check_by_finite_differences():
    counted = torch.tensor([True, True, False, True])
    logits = make_logits(4, K).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda f: F.prior_matching(f, PRIOR, counted=counted), (logits,)
    )


@pytest.mark.parametrize("size", [100.0, 1000.0])
def test_a_dead_class_is_taught_its_share_where_the_loss_teaches_it_nothing(size):
    logits = torch.zeros(8, K)
    logits[:, 2] = -size
    logits.requires_grad_()
    labels = possible_labels(Q, 8)
    (plain,) = torch.autograd.grad(F.forward_cross_entropy(logits, labels, Q), logits)
    (pulled,) = torch.autograd.grad(F.prior_matching(logits, PRIOR), logits)
    assert plain[:, 2].abs().max() < 1e-30
    assert pulled[:, 2].sum().item() == pytest.approx(-PRIOR[2].item(), rel=1e-4)
    assert pulled.isfinite().all()


def test_pixels_are_examples_and_half_precision_is_computed_in_single():
    logits = make_logits(12, K).reshape(2, 3, 2, K).movedim(-1, 1)
    flat = logits.movedim(1, -1).reshape(12, K)
    torch.testing.assert_close(F.prior_matching(logits, PRIOR), F.prior_matching(flat, PRIOR))
    assert F.prior_matching(flat.bfloat16(), PRIOR).dtype == torch.float32


@pytest.mark.parametrize(
    "options, wording",
    [
        ({"prior": torch.ones(3) / 3}, r"one probability per class, shape \(4,\)"),
        ({"counted": torch.ones(5, dtype=torch.bool)}, "one bool per row of logits, 6"),
        ({"counted": torch.ones(6)}, "one bool per row of logits, 6"),
    ],
)
def test_what_does_not_fit_is_refused(options, wording):
    with pytest.raises(InvalidInput, match=wording):
        F.prior_matching(make_logits(6, K), **({"prior": PRIOR} | options))


# --- around any loss ----------------------------------------------------------------------------


@pytest.mark.parametrize("true_labels", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_it_in_training_and_is_itself_in_evaluation(name, true_labels):
    plain = METHODS[name].make_loss(Setting(Q=Q, prior=PRIOR)).double()
    loss = PriorMatching(copy.deepcopy(plain), PRIOR, strength=0.5)
    n_views = plain.n_views
    assert loss.n_views == n_views
    views = torch.stack([make_logits(6, K, seed) for seed in range(n_views)])
    logits = views if n_views > 1 else views[0]
    labels = possible_labels(Q, 6)
    counted = torch.ones(6, dtype=torch.bool)
    expected = plain(logits, labels)
    if true_labels:  # known examples have no part in the mean
        loss, labels = MixedLabelLoss(loss), pair_labels(labels[:5], torch.tensor([2]))
        counted[5] = False
        expected = MixedLabelLoss(plain)(logits, labels)
    shares = [each.exp() for view in views for each in plain.log_scores(view)[counted]]
    mean = torch.stack(shares).mean(0)
    divergence = (PRIOR * (PRIOR / mean).log()).sum() * counted.double().mean()
    torch.testing.assert_close(loss(logits, labels), expected + 0.5 * divergence)
    assert torch.equal(loss.eval()(views[0], labels), evaluated(plain, views[0], labels))


def evaluated(plain, logits, labels):
    loss = MixedLabelLoss(plain) if labels.ndim == 2 else plain
    return loss.eval()(logits, labels)


def test_one_graph_holds_it_so_nothing_waits_for_a_value():
    loss = PriorMatching(SurrogateLog(), PRIOR)
    in_one_graph = torch.compile(loss, fullgraph=True, backend="eager")
    logits, labels = make_logits(6, K), possible_labels(Q, 6)
    labels[2] = -100
    torch.testing.assert_close(in_one_graph(logits, labels), loss(logits, labels))


def test_sets_of_labels_and_evidence_are_all_counted():
    logits = make_logits(5, K)
    ruled_out = torch.eye(K, dtype=torch.bool)[[0, 1, 2, 3, 0]]
    evidence = torch.zeros(5, K).masked_fill(ruled_out, -torch.inf)
    divergence = F.prior_matching(logits, PRIOR)
    for inner, values in ((SeveralLabelsLog(), ruled_out), (LikelihoodLoss(), evidence)):
        found = PriorMatching(inner, PRIOR)(logits, values)
        torch.testing.assert_close(found, inner(logits, values) + divergence)


def test_a_copy_is_told_of_progress_by_itself_and_the_strength_is_part_of_the_fingerprint():
    loss: Any = PriorMatching(METHODS["pocr"].make_loss(Setting(Q=Q)), PRIOR)
    twin = copy.deepcopy(loss)
    twin.set_progress(0.25)
    assert (twin.loss._progress, loss.loss._progress) == (0.25, 1.0)
    assert loss.needs_progress
    assert not PriorMatching(SurrogateLog(), PRIOR).needs_progress
    assert of_loss(loss) != of_loss(PriorMatching(loss.loss, PRIOR, strength=2.0))
    with pytest.raises(InvalidInput, match="strength"):
        PriorMatching(SurrogateLog(), PRIOR, strength=-1)


def test_many_at_once_give_what_each_gives_alone():
    X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    examples = Examples(X, possible_labels(Q, 60))
    options = Options(epochs=3, batch_size=20, lr=0.05, weight_decay=0, patience=9)

    def members():
        torch.manual_seed(0)
        return [
            Member(
                network=MLP((3,), K, widths=(5,), dropout=0),
                examples=examples,
                loss=PriorMatching(SurrogateLog(), PRIOR, strength=strength),
                options=options,
                held_out=examples,
            )
            for strength in (0.5, 5.0)
        ]

    together, alone = (
        fit_many(members()),
        [fit(each.network, examples, each.loss, options, held_out=examples) for each in members()],
    )
    for one, other in zip(together, alone, strict=True):
        for name in ("loss", "held_out_loss"):
            assert [each[name] for each in one] == pytest.approx(
                [each[name] for each in other], rel=1e-4
            )


# --- the shares ---------------------------------------------------------------------------------


def test_shares_shrink_to_equal_ones_where_labels_are_few_and_stay_where_they_are_many():
    uniform = TransitionMatrix.uniform(10)
    skewed = np.array([0.28, *[0.08] * 9])
    errors = {"equal": [], "skewed": []}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for name, prior, n in (("equal", np.full(10, 0.1), 500), ("skewed", skewed, 50_000)):
            labels = uniform.sample(rng.choice(10, size=n, p=prior), seed=rng)
            found = [class_prior(labels, uniform, shrink=shrink) for shrink in (False, True)]
            errors[name].append([np.abs(each - prior).sum() for each in found])
            assert found[1].sum() == pytest.approx(1)
            assert (found[1] >= 0).all()
    plain, shrunk = np.mean(errors["equal"], axis=0)
    assert shrunk < plain / 2
    plain, shrunk = np.mean(errors["skewed"], axis=0)
    assert shrunk < 1.02 * plain


def test_what_an_estimated_matrix_leaves_open_counts_as_chance():
    Q = TransitionMatrix.without_zeros(6, (0.5, 0.3, 0.2), seed=0)
    labels = Q.sample(np.arange(6_000) % 6, seed=1)  # equal shares, and labels enough to tell
    rng = np.random.default_rng(0)
    drawn = rng.gamma(50 * np.asarray(Q), size=(101, 6, 6))  # like 50 answers in each row
    drawn /= drawn.sum(axis=2, keepdims=True)
    estimate, samples = TransitionMatrix(drawn[0]), drawn[1:]
    trusting = class_prior(labels, estimate, shrink=True)
    doubting = class_prior(labels, estimate, shrink=True, Q_samples=samples)
    assert np.abs(trusting - 1 / 6).sum() > 0.2  # the error of the matrix is taken for shares
    assert np.abs(doubting - 1 / 6).sum() < np.abs(trusting - 1 / 6).sum() / 2
    sure = class_prior(labels, Q, shrink=True, Q_samples=np.stack([np.asarray(Q)] * 2))
    np.testing.assert_allclose(sure, class_prior(labels, Q, shrink=True))


def test_one_matrix_that_is_nearly_singular_does_not_drown_what_the_others_tell():
    Q = TransitionMatrix.without_zeros(5, (0.5, 0.3, 0.1, 0.1), seed=0)
    prior = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    labels = Q.sample(np.random.default_rng(0).choice(5, size=20_000, p=prior), seed=1)
    rng = np.random.default_rng(2)
    drawn = rng.gamma(5_000 * np.asarray(Q), size=(200, 5, 5))
    drawn[0, 1] = drawn[0, 0] * (1 + 1e-3 * rng.random(5))  # two classes answered alike
    drawn /= drawn.sum(axis=2, keepdims=True)
    found = class_prior(labels, Q, shrink=True, Q_samples=drawn)
    assert np.abs(found - prior).sum() < 0.1


def test_one_label_tells_nothing_of_shares():
    found = class_prior([1], TransitionMatrix.uniform(3), shrink=True)
    np.testing.assert_allclose(found, 1 / 3, atol=0.03)


def test_matrices_that_would_not_be_used_are_refused():
    with pytest.raises(InvalidInput, match="Pass shrink=True too"):
        class_prior([0, 1], TransitionMatrix.uniform(3), Q_samples=np.ones((1, 3, 3)))


def test_shares_cannot_shrink_where_a_singular_matrix_does_not_tell_them():
    twins = TransitionMatrix([[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]])
    with pytest.raises(InvalidTransitionMatrix, match="this one is singular"):
        class_prior([0, 1, 2], twins, shrink=True)


# --- in the classifier --------------------------------------------------------------------------

X_DIGITS, Y_DIGITS = load_digits(n_class=4, return_X_y=True)
BIASED = TransitionMatrix.with_zeros(4, 2, seed=1)


def deaf(input_shape, n_classes):
    """Return a network that starts so sure of not class 2 that the labels alone cannot wake it."""
    network = MLP(input_shape, n_classes, dropout=0)
    with torch.no_grad():
        last = [each for each in network.modules() if isinstance(each, torch.nn.Linear)][-1]
        last.bias[2] -= 20
    return network


def recall_of_the_dead(**options):
    clf = ComplementaryClassifier(
        transition=BIASED, network=deaf, epochs=20, lr=2e-2, random_state=0, **options
    )
    clf.fit(X_DIGITS, BIASED.sample(Y_DIGITS, seed=1))
    return (clf.predict(X_DIGITS[Y_DIGITS == 2]) == 2).mean(), clf


@pytest.mark.unmeasured
def test_a_class_that_is_dead_stays_so_without_and_comes_back_with_it(tmp_path):
    assert recall_of_the_dead()[0] == 0
    recall, clf = recall_of_the_dead(match_prior=1.0)
    assert recall > 0.7
    assert isinstance(clf.loss_, type(METHODS["forward"].make_loss(Setting(Q=BIASED))))
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model", network=deaf)
    assert loaded.match_prior == 1.0
    np.testing.assert_array_equal(loaded.predict(X_DIGITS), clf.predict(X_DIGITS))


def test_it_goes_with_anchors_restarts_and_several_answers():
    labels = BIASED.sample(Y_DIGITS, seed=1)
    ruled_out = np.zeros((len(X_DIGITS), 4), dtype=bool)
    ruled_out[np.arange(len(X_DIGITS)), labels] = True
    anchors = (X_DIGITS[:20], Y_DIGITS[:20])
    for answers in (labels, ruled_out):
        clf = ComplementaryClassifier(
            transition=BIASED, epochs=2, match_prior=0.5, restarts=1, random_state=0
        )
        clf.fit(X_DIGITS, answers, anchors=anchors)
        assert len(clf.history_) == 2


def test_a_negative_weight_and_a_singular_matrix_are_refused():
    labels = BIASED.sample(Y_DIGITS, seed=1)
    with pytest.raises(InvalidInput, match="match_prior must be above 0"):
        ComplementaryClassifier(match_prior=-1).fit(X_DIGITS, labels)
    rows = [[0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], [0.5, 0, 0, 0.5], [0, 0.5, 0.5, 0]]
    twins = TransitionMatrix(rows)
    with pytest.raises(InvalidTransitionMatrix, match="singular"):
        ComplementaryClassifier(transition=twins, match_prior=1).fit(
            X_DIGITS, twins.sample(Y_DIGITS, seed=0)
        )
