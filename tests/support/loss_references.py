"""The formulas of the losses, in plain Python, one example at a time.

Each gives the value and the gradient by the logits, from ``reference(logits, label, Q)``; those
that know no Q leave it aside.
"""

import math
from functools import cache
from operator import mul

import numpy as np


def log_softmax_by_hand(logits):
    top = max(logits)
    log_total = math.log(math.fsum(math.exp(f - top) for f in logits))
    return [(f - top) - log_total for f in logits]


def reference_log_q(logits, label, Q):
    """Return log q_ȳ, and the share that each class has in it."""
    column = Q.columns[label]
    log_terms = [
        log_p + math.log(entry)
        for log_p, entry in zip(log_softmax_by_hand(logits), column, strict=True)
        if entry > 0
    ]
    top = max(log_terms)
    total = math.fsum(math.exp(term - top) for term in log_terms)
    weights = iter([math.exp(term - top) / total for term in log_terms])
    return top + math.log(total), [next(weights) if entry > 0 else 0.0 for entry in column]


def reference_cross_entropy(logits, label, Q):
    """-log q_ȳ, gradient p_j - Q[j, ȳ] p_j / q_ȳ."""
    log_q, shares = reference_log_q(logits, label, Q)
    probs = map(math.exp, log_softmax_by_hand(logits))
    return -log_q, [p - share for p, share in zip(probs, shares, strict=True)]


def reference_squared_error(logits, label, Q):
    """Σ_j (1[ȳ = j] - q_j)² with q = Qᵀ softmax(f)."""
    probs = [math.exp(log_p) for log_p in log_softmax_by_hand(logits)]
    distances = [math.fsum(map(mul, probs, column)) for column in Q.columns]
    distances[label] -= 1
    by_prob = [2 * math.fsum(map(mul, distances, row)) for row in Q.rows]
    mean = math.fsum(map(mul, by_prob, probs))
    gradient = [p * (slope - mean) for p, slope in zip(probs, by_prob, strict=True)]
    return math.fsum(distance**2 for distance in distances), gradient


GAMMA = 0.7


def generalised_cross_entropy(q, labels):
    """A base loss for `forward_loss`: (1 - q_ȳ^0.7) / 0.7."""
    return (1 - q.gather(1, labels[:, None])[:, 0] ** GAMMA) / GAMMA


def reference_generalised(logits, label, Q):
    """Return (1 - q_ȳ^0.7) / 0.7 and its gradient: q_ȳ^0.7 times that of the cross-entropy."""
    log_q, _ = reference_log_q(logits, label, Q)
    power = math.exp(GAMMA * log_q)
    _, gradient = reference_cross_entropy(logits, label, Q)
    return (1 - power) / GAMMA, [power * slope for slope in gradient]


def reference_pairwise(logits, label, Q):
    """Σ_{k≠ȳ} σ(f_ȳ - f_k)."""
    margins = [logits[label] - f for f in logits]
    values = [sigmoid(z) for z in margins]
    slopes = [-sigmoid(z) * sigmoid(-z) for z in margins]
    slopes[label] = 0.0
    slopes[label] = -math.fsum(slopes)
    del values[label]
    return math.fsum(values), slopes


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def logistic(z):
    return math.log1p(math.exp(-z)) if z >= 0 else -z + math.log1p(math.exp(z))


def softmax_by_hand(logits):
    return [math.exp(log_p) for log_p in log_softmax_by_hand(logits)]


def through_softmax(probs, by_prob):
    """Return the gradient by the logits of a function with that gradient by the probabilities."""
    mean = math.fsum(p * slope for p, slope in zip(probs, by_prob, strict=True))
    return [p * (slope - mean) for p, slope in zip(probs, by_prob, strict=True)]


def absolute_error(logits, label, Q):
    """2 (1 - q_ȳ)."""
    log_q, _ = reference_log_q(logits, label, Q)
    _, gradient = reference_cross_entropy(logits, label, Q)
    return -2 * math.expm1(log_q), [2 * math.exp(log_q) * slope for slope in gradient]


def one_versus_all(logits, label, Q):
    """1/(K-1) Σ_{k≠ȳ} σ(-f_k) + σ(f_ȳ)."""
    n_others = len(logits) - 1
    value = math.fsum(
        sigmoid(f) if k == label else sigmoid(-f) / n_others for k, f in enumerate(logits)
    )
    slopes = [sigmoid(f) * sigmoid(-f) for f in logits]
    return value, [s if k == label else -s / n_others for k, s in enumerate(slopes)]


def partial_label(logits, label, Q):
    """ψ(mean_{k≠ȳ} f_k) + ψ(-f_ȳ), ψ logistic."""
    n_others = len(logits) - 1
    mean = math.fsum(f for k, f in enumerate(logits) if k != label) / n_others
    slopes = [-sigmoid(-mean) / n_others] * len(logits)
    slopes[label] = sigmoid(logits[label])
    return logistic(mean) + logistic(-logits[label]), slopes


def multi_label(logits, label, Q):
    """Σ_{k≠ȳ} ψ(f_k) + ψ(-f_ȳ), ψ logistic."""
    value = math.fsum(logistic(-f if k == label else f) for k, f in enumerate(logits))
    return value, [sigmoid(f) if k == label else -sigmoid(-f) for k, f in enumerate(logits)]


def backward(logits, label, Q):
    """Σ_k Q⁻¹[ȳ, k] l_k; the rows of Q⁻¹ sum to 1."""
    inverse_row = inverse_rows(Q)[label]
    log_probs = log_softmax_by_hand(logits)
    value = -math.fsum(w * log_p for w, log_p in zip(inverse_row, log_probs, strict=True))
    return value, [math.exp(log_p) - w for w, log_p in zip(inverse_row, log_probs, strict=True)]


@cache
def inverse_rows(Q):
    n = len(Q.rows)
    return np.linalg.solve(np.array(Q.rows), np.eye(n)).tolist()


def surrogate_log(logits, label, Q):
    """-log(1 - p_ȳ), as a sum over the other classes."""
    others = [f for k, f in enumerate(logits) if k != label]
    top = max(others)
    total = math.fsum(math.exp(f - top) for f in others)
    log_probs = log_softmax_by_hand(logits)
    log_left = max(p for k, p in enumerate(log_probs) if k != label) + math.log(total)
    shares = [0.0 if k == label else math.exp(f - top) / total for k, f in enumerate(logits)]
    return -log_left, [math.exp(p) - share for p, share in zip(log_probs, shares, strict=True)]


def surrogate_exponential(logits, label, Q):
    """exp(p_ȳ)."""
    probs = softmax_by_hand(logits)
    value = math.exp(probs[label])
    return value, through_softmax(probs, _at(label, value, len(probs)))


def reversed_softmax(logits, label, Q):
    """-log r_ȳ with r = softmax(1 - p)."""
    probs = softmax_by_hand(logits)
    log_r = log_softmax_by_hand([1 - p for p in probs])
    by_prob = [(k == label) - math.exp(each) for k, each in enumerate(log_r)]
    return -log_r[label], through_softmax(probs, by_prob)


def weighted_reversed_softmax(logits, label, Q):
    """-(1 + (1 - p_ȳ)/(K - 1)) log r_ȳ."""
    probs = softmax_by_hand(logits)
    n_others = len(probs) - 1
    log_r = log_softmax_by_hand([1 - p for p in probs])
    factor = 1 + (1 - probs[label]) / n_others
    by_prob = [factor * ((k == label) - math.exp(each)) for k, each in enumerate(log_r)]
    by_prob[label] += log_r[label] / n_others
    return -factor * log_r[label], through_softmax(probs, by_prob)


def order_preserving(logits, label, Q):
    """-log softmax(-f)_ȳ."""
    log_g = log_softmax_by_hand([-f for f in logits])
    return -log_g[label], [(k == label) - math.exp(each) for k, each in enumerate(log_g)]


def weighted_order_preserving(logits, label, Q):
    """The same times p_ȳ · softmax(1 + 1/softmax(-f))_ȳ, a constant in the gradient."""
    value, slopes = order_preserving(logits, label, Q)
    log_g = log_softmax_by_hand([-f for f in logits])
    if min(log_g) < -700:  # 1/g overflows: all but the largest have no weight
        largest = [each == min(log_g) for each in log_g]
        w = largest[label] / sum(largest)
    else:
        w = math.exp(log_softmax_by_hand([1 + math.exp(-each) for each in log_g])[label])
    factor = softmax_by_hand(logits)[label] * w
    return factor * value, [factor * slope for slope in slopes]


def several_absolute_error(logits, label, Q):
    """(K - 1) · 2 (1 - P) for the set of one, P = 1 - p_ȳ."""
    probs = softmax_by_hand(logits)
    scale = 2.0 * (len(probs) - 1)
    return scale * probs[label], through_softmax(probs, _at(label, scale, len(probs)))


def several_exponential(logits, label, Q):
    """(K - 1) exp(-P) for the set of one."""
    probs = softmax_by_hand(logits)
    left = math.fsum(p for k, p in enumerate(probs) if k != label)
    value = (len(probs) - 1) * math.exp(-left)
    return value, through_softmax(probs, _at(label, value, len(probs)))


def several_log(logits, label, Q):
    """-(K - 1) log P for the set of one."""
    value, slopes = surrogate_log(logits, label, Q)
    scale = len(logits) - 1
    return scale * value, [scale * slope for slope in slopes]


def class_risks(rows, labels, Q, prior=None):
    """R_k = Σ_j π̄_j mean_{i: ȳ_i = j} Q⁻¹[j, k] l_k(x_i), for every ordinary class k."""
    n_classes = len(Q.rows)
    inverse = inverse_rows(Q)
    risks = []
    for k in range(n_classes):
        risk = 0.0
        for j in range(n_classes):
            of_j = [row for row, label in zip(rows, labels, strict=True) if label == j]
            if not of_j:
                continue
            if prior is None:
                share = len(of_j) / len(rows)
            else:
                share = math.fsum(Q.rows[i][j] * prior[i] for i in range(n_classes))
            losses = [-inverse[j][k] * log_softmax_by_hand(row)[k] for row in of_j]
            risk += share * math.fsum(losses) / len(of_j)
        risks.append(risk)
    return risks


def one_versus_rest(rows, labels, Q, prior):
    """Σ_k (1-π_k) mean_{ȳ=k} ψ(-f_k) + |mean ψ(f_k) - (1-π_k) mean_{ȳ=k} ψ(f_k)|."""
    total = 0.0
    for k, share in enumerate(prior):
        everything = [row[k] for row in rows]
        negative = [row[k] for row, label in zip(rows, labels, strict=True) if label == k]
        n_negative = max(1, len(negative))
        total += (1 - share) * math.fsum(logistic(-f) for f in negative) / n_negative
        total += abs(
            math.fsum(map(logistic, everything)) / len(everything)
            - (1 - share) * math.fsum(map(logistic, negative)) / n_negative
        )
    return total


def _at(label, value, n_classes):
    return [value if k == label else 0.0 for k in range(n_classes)]


def complementary_cross_entropy(logits, label, Q):
    """-log p_ȳ."""
    log_probs = log_softmax_by_hand(logits)
    return -log_probs[label], [math.exp(p) - (k == label) for k, p in enumerate(log_probs)]


#: the views of the contract are these multiples of the logits
VIEWS = (0.5, -0.25)


def partial_output_consistency(logits, label, Q):
    """-log q_ȳ + sum over views of Σ_k t_k (log t_k - log p_k of the view), t held constant."""
    value, gradient = reference_cross_entropy(logits, label, Q)
    _, targets = reference_log_q(logits, label, Q)
    for factor in VIEWS:
        log_probs = log_softmax_by_hand([factor * f for f in logits])
        value += math.fsum(
            t * (math.log(t) - log_p) for t, log_p in zip(targets, log_probs, strict=True) if t > 0
        )
        gradient = [
            slope + factor * (math.exp(log_p) - t)
            for slope, log_p, t in zip(gradient, log_probs, targets, strict=True)
        ]
    return value, gradient


#: of the contract of two views: the other one is this multiple of the logits
OTHER_VIEW = -0.25
CONSISTENCY = 0.9


def two_views(logits, label, Q):
    """The target of both views is the mean of their posteriors."""
    return _towards((0.5, 0.5), logits, label, Q)


def weak_to_strong(logits, label, Q):
    """The target of both views is the posterior of the first."""
    return _towards((1.0, 0.0), logits, label, Q)


def _towards(shares, logits, label, Q):
    """Mean over views of 0.1 (-log q_ȳ) + 0.9 Σ_k t_k (-log p_k), t held constant."""
    factors = (1.0, OTHER_VIEW)
    views = [[factor * f for f in logits] for factor in factors]
    log_qs, posteriors = zip(*(reference_log_q(view, label, Q) for view in views), strict=True)
    target = [math.fsum(map(mul, shares, each)) for each in zip(*posteriors, strict=True)]
    value, gradient = 0.0, [0.0] * len(logits)
    for factor, view, log_q, posterior in zip(factors, views, log_qs, posteriors, strict=True):
        log_probs = log_softmax_by_hand(view)
        of_target = math.fsum(-t * log_p for t, log_p in zip(target, log_probs, strict=True))
        value += ((1 - CONSISTENCY) * -log_q + CONSISTENCY * of_target) / 2
        for k, log_p in enumerate(log_probs):
            slope = math.exp(log_p) - (1 - CONSISTENCY) * posterior[k] - CONSISTENCY * target[k]
            gradient[k] += factor * slope / 2
    return value, gradient
