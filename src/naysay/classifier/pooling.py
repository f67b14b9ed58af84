"""Pool the evidence of neighbours: class probabilities of examples before any model is trained.

One complementary label says little about its example, but neighbours mostly have the same class.
For each example the labels of its nearest neighbours are explained by one distribution over the
classes (an EM algorithm), its own label left out. Then posterior distributions spread over the
graph of neighbours: the prediction for an example is the mean posterior of its neighbours, and its
posterior is the prediction times the likelihood of its label.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from naysay.transition.algebra import Floats

_K = 10  # neighbours
_ROUNDS = 8  # of spreading
_EM_ROUNDS = 10
_SHARES_ROUNDS = 15  # of EM for the shares of the classes among all examples
_CHUNK = 2**24  # distances computed at a time
_MOST_FEATURES = 256  # projected to so many for distances
_TEMPERATURES = (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)
_UNIFORM = (0.01, 0.05, 0.15, 0.3)  # share of the uniform distribution
_MOST_SCORED = 5_000  # rows, to choose a temperature
_LEAST_SCALE = float(np.finfo(np.float32).tiny)  # a smaller one would be 0


def normalised(values: Floats) -> Floats:
    """Divide rows by their sums."""
    values = np.maximum(values, 1e-12)
    return values / values.sum(axis=1, keepdims=True)


def shares_of_classes(likelihood: Floats) -> Floats:
    """Find the most likely shares of the classes among all examples, by EM."""
    shares = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(_SHARES_ROUNDS):
        shares = normalised(likelihood * shares).mean(axis=0)
    return shares


class Scale(NamedTuple):
    """Scaling of inputs before distances are computed: ``(X - mean) / scale``."""

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scale inputs."""
        return (X - self.mean) / self.scale


def find_scales(X: NDArray[np.float32]) -> list[Scale]:
    """Make the two scales to choose from: one for all features together, and one for each."""
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    constant = deviation <= np.maximum(1e-6 * np.abs(mean), _LEAST_SCALE)
    each = np.where(constant, 1, deviation)
    common = np.sqrt(np.mean(deviation**2))
    common = common if common > _LEAST_SCALE else 1.0
    scales = [np.full_like(each, common), each]
    if each.max() < 1.2 * each.min():
        scales = scales[1:]
    return [Scale(mean.astype(np.float32), scale.astype(np.float32)) for scale in scales]


def squared_distances(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the squared distances between the rows of two matrices."""
    squares = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)
    return np.maximum(squares - 2 * (left @ right.T), 0)


class Graph(NamedTuple):
    """The nearest neighbours of each example, and weights that sum to 1."""

    nearest: NDArray[np.int64]  # (n, k)
    weight: Floats  # (n, k)

    @classmethod
    def of(cls, inputs: NDArray[np.float32], seed: int) -> "Graph":
        """Find the nearest neighbours; nearer ones have larger weights."""
        n = len(inputs)
        if inputs.shape[1] > _MOST_FEATURES:  # a random projection hardly changes distances
            rng = np.random.default_rng(seed)
            inputs = inputs @ rng.standard_normal((inputs.shape[1], _MOST_FEATURES)).astype(
                np.float32
            )
        k = min(_K, n - 1)
        index = np.empty((n, k), dtype=np.int64)
        nearest = np.empty((n, k))
        for rows in np.array_split(np.arange(n), max(1, n * n // _CHUNK)):
            distances = squared_distances(inputs[rows], inputs)
            distances[np.arange(len(rows)), rows] = np.inf  # itself
            index[rows] = np.argpartition(distances, k - 1, axis=1)[:, :k]
            nearest[rows] = np.take_along_axis(distances, index[rows], axis=1)
        width = np.sort(nearest, axis=1)[:, [min(k, 8) - 1]]
        weight = np.exp(-nearest / (2 * width + 1e-12))
        return cls(index, weight / weight.sum(axis=1, keepdims=True))

    @property
    def matrix(self) -> csr_array:
        """The weights as a sparse matrix."""
        n, k = self.nearest.shape
        starts = np.arange(0, n * k + 1, k)
        return csr_array((self.weight.ravel(), self.nearest.ravel(), starts), (n, n))


def spread(graph: Graph, likelihood: Floats, prior: Floats | None) -> list[Floats]:
    """Compute predictions P(Y | x) for all examples, after 0, 1, 2, … rounds of spreading.

    The prediction for an example does not use its own likelihood, except on the way over
    neighbours. With a prior, posteriors are scaled to have it as their mean.
    """
    n, n_classes = likelihood.shape
    probs = np.full((n, n_classes), 1 / n_classes)
    of_neighbours = normalised(likelihood)[graph.nearest]  # (n, k, n_classes)
    for _ in range(_EM_ROUNDS):
        posterior = probs[:, None] * of_neighbours
        posterior /= posterior.sum(axis=2, keepdims=True) + 1e-300
        probs = normalised((graph.weight[:, :, None] * posterior).sum(axis=1) + 1e-3 / n_classes)
    matrix, found = graph.matrix, [probs]
    for _ in range(_ROUNDS):
        posterior = normalised(probs * likelihood)
        if prior is not None:
            posterior = normalised(posterior * (prior / posterior.mean(axis=0)))
        probs = normalised(matrix @ posterior + 1e-3 / n_classes)
        found.append(probs)
    return found


class HeldOutCalibration(NamedTuple):
    """The calibration under which held-out evidence is most likely, and how likely it is."""

    scores: Floats  # log-likelihood of the evidence of each row that was held out
    temperature: float
    share: float  # of the predictions; the rest is the uniform distribution

    @property
    def total(self) -> float:
        """The sum of the scores."""
        return float(self.scores.sum())

    def calibrate(self, probs: Floats) -> Floats:
        """Calibrate predictions of the same model."""
        return at_temperature(probs, self.temperature) * self.share + (
            (1 - self.share) / probs.shape[1]
        )


def at_temperature(probs: Floats, temperature: float) -> Floats:
    """Change the temperature of predictions."""
    logs = np.log(np.maximum(probs, 1e-12))
    return normalised(np.exp((logs - logs.max(axis=1, keepdims=True)) / temperature))


@dataclass
class Evidence:
    """The evidence about the class of each row: a likelihood over the classes.

    Parameters
    ----------
    X : float32 array of shape (n, n_features)
    likelihood : array of shape (n, n_classes)
        P(labels | Y), up to a factor for each row; one-hot for a row whose class is known.
    fold : array of shape (n,)
        The fold in which the evidence of a row is held out; -1 for never.
    weight : array of shape (n,), optional
        How much the evidence of each row counts when predictions are scored.
    """

    X: NDArray[np.float32]
    likelihood: Floats
    fold: NDArray[np.int64]
    seed: int
    weight: Floats | None = None

    def __post_init__(self) -> None:
        self.likelihood = self.likelihood / self.likelihood.max(axis=1, keepdims=True)
        self.n_folds = int(self.fold.max(initial=-1)) + 1
        self.true = np.full(len(self.X), -1)  # true classes that are known
        self.is_scored = (self.fold >= 0) & (self.likelihood.min(axis=1) < 1)

    def with_likelihood(self, likelihood: Floats) -> "Evidence":
        """Replace the likelihood; what is computed from X is computed once."""
        other = Evidence(self.X, likelihood, self.fold, self.seed)
        other.scales, other.graphs = self.scales, self.graphs
        return other

    @cached_property
    def scales(self) -> list[Scale]:
        """The scales of the inputs to choose from."""
        return find_scales(self.X)

    @cached_property
    def graphs(self) -> list[Graph]:
        """The graph of neighbours under each scale."""
        return [Graph.of(scale(self.X), self.seed) for scale in self.scales]

    def without(self, fold: int) -> Floats:
        """Compute the likelihood without the evidence of a fold; -1 leaves all evidence."""
        if fold < 0:
            return self.likelihood
        return np.where((self.fold == fold)[:, None], 1.0, self.likelihood)

    def fit_calibration(self, probs: Floats) -> HeldOutCalibration:
        """Calibrate out-of-fold predictions on the evidence that was held out, and score them."""
        rows = np.flatnonzero(self.is_scored)
        some = rows[:: max(1, len(rows) // _MOST_SCORED)]
        n_classes = probs.shape[1]
        flat = self.likelihood[some].sum(axis=1) / n_classes
        best = (-np.inf, 1.0, 0.99)
        for temperature in _TEMPERATURES:
            chances = (at_temperature(probs[some], temperature) * self.likelihood[some]).sum(axis=1)
            for share in _UNIFORM:
                logs = np.log((1 - share) * chances + share * flat + 1e-300)
                total = float(logs.sum() if self.weight is None else logs @ self.weight[some])
                best = max(best, (total, temperature, 1 - share))
        found = HeldOutCalibration(np.zeros(0), *best[1:])
        chances = (found.calibrate(probs[rows]) * self.likelihood[rows]).sum(axis=1)
        scores = np.log(chances + 1e-300)
        return found._replace(scores=scores if self.weight is None else scores * self.weight[rows])


class Pooled(NamedTuple):
    """Predictions from the pooled evidence of neighbours, without each fold and with all."""

    scale: int  # number of the scale of the inputs
    probs: list[Floats]  # for all rows, without the evidence of each fold; the last with all
    out_of_fold: Floats
    calibration: HeldOutCalibration


def out_of_fold(evidence: Evidence, by_fold: list[Floats]) -> Floats:
    """Select the predictions for each row that do not use its evidence."""
    probs = by_fold[-1].copy()
    for fold in range(evidence.n_folds):
        probs[evidence.fold == fold] = by_fold[fold][evidence.fold == fold]
    return probs


def pool_evidence(
    evidence: Evidence, prior: Floats | None = None, *, prefers_prior: bool = False
) -> Pooled:
    """Pool the evidence of neighbours; held-out evidence chooses scale, rounds and prior.

    A preferred prior is used unless the evidence is more likely without it by more than a standard
    error of the difference.
    """
    best: dict[bool, Pooled] = {}
    folds = [*range(evidence.n_folds), -1]
    for number, graph in enumerate(evidence.graphs):
        for each_prior in [None] if prior is None else [None, prior]:
            paths = [spread(graph, evidence.without(fold), each_prior) for fold in folds]
            for by_fold in list(zip(*paths, strict=True))[::2]:
                probs = out_of_fold(evidence, list(by_fold))
                calibration = evidence.fit_calibration(probs)
                found = best.get(each_prior is not None)
                if found is None or calibration.total > found.calibration.total:
                    best[each_prior is not None] = Pooled(number, list(by_fold), probs, calibration)
    free, matched = best[False], best.get(True)
    if matched is None:
        return free
    gain = free.calibration.scores - matched.calibration.scores
    clearly = float(gain.std()) * np.sqrt(len(gain)) if prefers_prior else 0.0
    return matched if gain.sum() < clearly else free
