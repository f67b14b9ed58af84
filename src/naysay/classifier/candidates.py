"""Train several kinds of models on pooled evidence, and mix those that predict it best.

Each candidate learns from posteriors: the prediction of `naysay.classifier.pooling` for an example
times the likelihood of its labels.

The score of a candidate is the log-likelihood of the evidence of each fold, complementary labels
and true classes, under predictions that were made without it. The weights of the candidates make
the mixture of their predictions most likely. No other true class is used.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from torch import nn

from naysay import training
from naysay.classifier.pooling import (
    Evidence,
    Floats,
    HeldOutCalibration,
    Pooled,
    normalised,
    out_of_fold,
    pool_evidence,
    squared_distances,
)
from naysay.networks import MLP, Forest, Kernel, Mixture

_N_CENTRES = 800
_WIDTHS = (1.0, 3.0)  # of kernels: gamma times the median squared distance
_MOST_EXACT = 1e5  # kernels of distances in float32 are exact to about 0.02
_RIDGE = 0.3
_LOO_ROUNDS = 4
_N_TREES = 60  # fewer for very small tables
_N_TREES_ALONE = 150  # for known classes alone, which are few; fewer for many
_MOST_LEAVES_ALONE = 40_000
_DECAYS = (1e-3, 1e-2)  # of the linear model
# Weights that EM starts from. Few or uninformative labels hardly change them. Kernels
# were best on most tables that the candidates were developed on.
_FIRST_WEIGHTS = {"kernel": 0.6, "trees": 0.2, "network, all examples": 0.6}
_OTHER_WEIGHT = 0.05
_MIX_ROUNDS = 100
_LEAST_WEIGHT = 0.02  # lighter candidates are left out of the mixture


class Candidate(NamedTuple):
    """A kind of model, its out-of-fold predictions, and how to get the model of all evidence."""

    name: str
    probs: Floats  # out-of-fold predictions
    calibration: HeldOutCalibration
    finish: Callable[[], list[nn.Module]]  # models whose mean predicts
    seconds: float


def fit_kernel(evidence: Evidence, pooled: Pooled) -> tuple[Candidate, list[Floats]]:
    """Regress posteriors on Gaussian kernels, and improve them by leave-one-out predictions.

    The second value has the posteriors for each fold and for all evidence.
    """
    start = time.perf_counter()
    n, n_classes = evidence.likelihood.shape
    scale = evidence.scales[pooled.scale]
    scaled = scale(evidence.X)
    rng = np.random.default_rng(evidence.seed)
    chosen = np.sort(rng.permutation(n)[: min(n, _N_CENTRES)])
    centres = scaled[chosen]
    distances = squared_distances(scaled, centres)
    folds = [*range(evidence.n_folds), -1]
    best: Any = None
    for width in _WIDTHS:
        gamma = _find_gamma(width, distances, scaled)
        kernels = np.exp(-gamma * distances.astype(np.float64))
        own = kernels[chosen]
        root = _factorise((own + own.T) / 2)
        features = solve_triangular(root, kernels.T, lower=True).T
        paths = [
            _regress(features, evidence, pooled.probs[number], fold)
            for number, fold in enumerate(folds)
        ]
        for rounds in range(0, _LOO_ROUNDS + 1, 2):
            fits = [path[rounds] for path in paths]
            probs = out_of_fold(evidence, [fit[0] for fit in fits])
            calibration = evidence.fit_calibration(probs)
            if best is None or calibration.total > best[0].total:
                best = calibration, probs, fits, gamma, root
    calibration, probs, fits, gamma, root = best

    def finish() -> list[nn.Module]:
        _, posterior_mean, weights, _ = fits[-1]
        network = Kernel.of(
            n_classes,
            mean=scale.mean,
            scale=scale.scale,
            centres=centres,
            gamma=np.float32(gamma),
            weight=solve_triangular(root, weights, lower=True, trans=1),
            bias=posterior_mean,
        )
        return [network]

    seconds = time.perf_counter() - start
    candidate = Candidate("kernel", probs, calibration, finish, seconds)
    return candidate, [fit[3] for fit in fits]


def _find_gamma(width: float, distances: NDArray[Any], scaled: NDArray[Any]) -> float:
    """Find the factor of squared distances in kernels, from their median.

    Distances in float32 are wrong by about 1e-7 of the largest squared norm. A factor that makes
    much of this, as outliers would cause, gives a model that predicts otherwise than it was scored.
    """
    most = _MOST_EXACT / (float(np.square(scaled).sum(axis=1).max()) or 1.0)
    return min(width / (float(np.median(distances)) or 1.0), most)


def _factorise(kernels: Floats) -> Floats:
    """Compute a Cholesky factor of kernels, and of as little of the identity as is needed."""
    ridge = 1e-3
    while True:
        try:
            return cholesky(kernels + ridge * np.eye(len(kernels)), lower=True)
        except np.linalg.LinAlgError:
            ridge *= 10


def _regress(
    features: Floats, evidence: Evidence, probs: Floats, fold: int
) -> list[tuple[Floats, Floats, Floats, Floats]]:
    """Regress posteriors on features, without a fold, in rounds of leave-one-out predictions.

    Each round returns predictions for all rows, the mean posterior, weights, and the posteriors
    that the regression learned from.
    """
    likelihood = evidence.without(fold)
    rows = np.flatnonzero(evidence.fold != fold) if fold >= 0 else np.arange(len(features))
    part = features[rows]
    gram = part.T @ part
    gram[np.diag_indices_from(gram)] += _RIDGE
    factor = cho_factor(gram, lower=True)
    leverage = (solve_triangular(factor[0], part.T, lower=True) ** 2).sum(axis=0)
    floor = 0.02 / likelihood.shape[1]
    found = []
    posterior = normalised(probs * likelihood)
    for _ in range(_LOO_ROUNDS + 1):
        mean = posterior[rows].mean(axis=0)
        weights = cho_solve(factor, part.T @ (posterior[rows] - mean))
        fitted = np.maximum(features @ weights + mean, floor)
        found.append((normalised(fitted), mean, weights, posterior))
        own = (posterior[rows] - mean) * leverage[:, None]
        left_out = (part @ weights - own) / np.maximum(1 - leverage, 1e-3)[:, None] + mean
        probs = fitted.copy()
        probs[rows] = np.maximum(left_out, floor)
        posterior = normalised(normalised(probs) * likelihood)
    return found


def fit_trees(evidence: Evidence, posteriors: list[Floats]) -> Candidate:
    """Fit extremely randomised trees to posteriors."""

    def fit(posterior: Floats, rows: NDArray[Any]) -> nn.Module:
        n_trees = min(_N_TREES, 10 + len(rows) // 20)
        return _fit_forest(evidence, posterior, rows, n_trees, least=2)

    return _by_fold("trees", evidence, posteriors, fit)


def _fit_forest(
    evidence: Evidence, targets: Floats, rows: NDArray[Any], n_trees: int, *, least: int
) -> Forest:
    """Fit trees to the targets of some rows, with a minimum number of rows in each leaf."""
    from sklearn.ensemble import ExtraTreesRegressor

    n_features = evidence.X.shape[1]
    trees = ExtraTreesRegressor(
        n_trees,
        min_samples_leaf=least,
        max_features=1 / np.sqrt(n_features),  # tried at each node
        random_state=evidence.seed,
    ).fit(evidence.X[rows], targets[rows])
    values = [each.tree_ for each in trees.estimators_]
    return Forest.from_trees(values, (n_features,), targets.shape[1])


def fit_linear(evidence: Evidence, posteriors: list[Floats]) -> Candidate:
    """Fit linear models to the evidence by forward correction, from a start at the posteriors."""
    found = [
        _by_fold("linear", evidence, posteriors, partial(_fit_linear, evidence, decay))
        for decay in _DECAYS
    ]
    return max(found, key=lambda each: each.calibration.total)


def _fit_linear(
    evidence: Evidence, decay: float, posterior: Floats, rows: NDArray[Any]
) -> nn.Module:
    inputs = torch.from_numpy(evidence.X[rows])
    with training.seeded(0, torch.device("cpu")):
        network = MLP((inputs.shape[1],), posterior.shape[1], widths=(), dropout=0.0)
    network.standardise(inputs)
    targets = torch.from_numpy(posterior[rows]).float()
    logs = torch.from_numpy(evidence.likelihood[rows]).float().log()
    weight = next(network.layers.parameters())

    def by_posteriors(scores: torch.Tensor) -> torch.Tensor:
        return -(targets * scores).sum(1).mean()

    def forward(scores: torch.Tensor) -> torch.Tensor:
        return -(scores + logs).logsumexp(1).mean()

    for loss in (by_posteriors, forward):
        optimiser = torch.optim.LBFGS(
            network.parameters(), max_iter=30, line_search_fn="strong_wolfe"
        )

        def step(loss: Any = loss, optimiser: Any = optimiser) -> torch.Tensor:
            optimiser.zero_grad()
            value = loss(network(inputs).log_softmax(1)) + decay * weight.square().sum()
            value.backward()
            return value

        optimiser.step(step)  # pyright: ignore[reportArgumentType] - torch's stub wants floats
    return network.eval()


def fit_anchors(evidence: Evidence, pooled: Pooled) -> list[Candidate]:
    """Fit kernels and trees to the known classes alone; none without enough of them."""
    known = np.flatnonzero(evidence.true >= 0)
    if len(np.unique(evidence.true[known])) < 2 or (evidence.fold[known] < 0).any():
        return []
    start = time.perf_counter()
    scale, n_classes = evidence.scales[pooled.scale], evidence.likelihood.shape[1]
    scaled = scale(evidence.X[known])
    distances = squared_distances(scaled, scaled)
    gamma = _find_gamma(2.0, distances, scaled)
    one_hot = np.eye(n_classes)[evidence.true[known]]

    def fit_kernels(_: Floats, rows: NDArray[Any]) -> nn.Module:
        chosen = np.flatnonzero(np.isin(known, rows))
        kernels = np.exp(-gamma * distances[np.ix_(chosen, chosen)].astype(np.float64))
        mean = one_hot[chosen].mean(axis=0)
        kernels[np.diag_indices_from(kernels)] += 0.1
        return Kernel.of(
            n_classes,
            mean=scale.mean,
            scale=scale.scale,
            centres=scaled[chosen],
            gamma=np.float32(gamma),
            weight=np.linalg.solve(kernels, one_hot[chosen] - mean),
            bias=mean,
        )

    def fit_trees(_: Floats, rows: NDArray[Any]) -> nn.Module:
        return _fit_forest(evidence, classes, np.intersect1d(known, rows), n_trees, least=1)

    n_trees = min(_N_TREES_ALONE, 10 + _MOST_LEAVES_ALONE // len(known))
    classes = np.zeros(evidence.likelihood.shape)
    classes[known] = one_hot
    kernels = _by_fold("anchors alone", evidence, pooled.probs, fit_kernels, start)
    return [kernels, _by_fold("anchors alone, trees", evidence, pooled.probs, fit_trees)]


def _by_fold(
    name: str,
    evidence: Evidence,
    posteriors: list[Floats],
    fit: Callable[[Floats, NDArray[Any]], nn.Module],
    start: float | None = None,
) -> Candidate:
    """Fit a model without each fold, and predict the fold."""
    start = time.perf_counter() if start is None else start
    probs = np.full(evidence.likelihood.shape, 1 / evidence.likelihood.shape[1])
    for fold in range(evidence.n_folds):
        held_out = np.flatnonzero(evidence.fold == fold)
        model = fit(posteriors[fold], np.flatnonzero(evidence.fold != fold))
        probs[held_out] = predict(model, evidence.X[held_out])
    return Candidate(
        name,
        probs,
        evidence.fit_calibration(probs),
        lambda: [fit(posteriors[-1], np.arange(len(evidence.X)))],
        time.perf_counter() - start,
    )


@torch.no_grad()
def predict(network: nn.Module, X: NDArray[Any], chosen: NDArray[np.int64] | None = None) -> Floats:
    """Predict class probabilities for all rows, or for those chosen."""
    chosen = np.arange(len(X)) if chosen is None else chosen
    probs, start = np.empty((len(chosen), 0)), 0
    for rows in np.array_split(chosen, len(chosen) // 5000 + 1):
        logits = network(torch.from_numpy(X[rows].astype(np.float32))).double()
        if not start:  # allocated once: small results between large inputs fragment the memory
            probs = np.empty((len(chosen), logits.shape[1]))
        probs[start : start + len(rows)] = logits.softmax(1).numpy()
        start += len(rows)
    return probs


def mix(evidence: Evidence, candidates: list[Candidate]) -> tuple[Floats, Floats]:
    """Find the weights under which held-out evidence is most likely, and the mixed predictions."""
    rows = np.flatnonzero(evidence.is_scored)
    calibrated = [each.calibration.calibrate(each.probs) for each in candidates]
    chances = np.stack(
        [(probs[rows] * evidence.likelihood[rows]).sum(axis=1) for probs in calibrated], axis=1
    )
    weights = np.array([_FIRST_WEIGHTS.get(each.name, _OTHER_WEIGHT) for each in candidates])
    weights /= weights.sum()
    for _ in range(_MIX_ROUNDS):
        shares = chances * weights
        weights = (shares / (shares.sum(axis=1, keepdims=True) + 1e-300)).mean(axis=0)
    weights[weights < _LEAST_WEIGHT] = 0
    weights /= weights.sum()
    mixed = sum(weight * probs for weight, probs in zip(weights, calibrated, strict=True))
    return weights, np.asarray(mixed)


def combine(evidence: Evidence, candidates: list[Candidate], weights: Floats) -> Mixture:
    """Make the mixture of the models that learned from all evidence."""
    networks: list[nn.Module] = []
    shares: list[float] = []
    temperatures: list[float] = []
    for candidate, weight in zip(candidates, weights.tolist(), strict=True):
        if weight:
            members = candidate.finish()
            networks += members
            shares += [weight * candidate.calibration.share / len(members)] * len(members)
            temperatures += [candidate.calibration.temperature] * len(members)
    shape, n_classes = (evidence.X.shape[1],), evidence.likelihood.shape[1]
    with training.seeded(0, torch.device("cpu")):  # new members draw weights, which are replaced
        return Mixture.of(networks, shares, temperatures, shape, n_classes)


def cross_fit_kernel(evidence: Evidence) -> Candidate:
    """Predict P(Y | x) for every row without its evidence, quickly."""
    candidate, _ = fit_kernel(evidence, pool_evidence(evidence))
    return candidate._replace(probs=candidate.calibration.calibrate(candidate.probs))
