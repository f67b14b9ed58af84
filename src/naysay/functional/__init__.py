"""Losses on complementary labels as pure functions of logits and labels.

Notation: there are K classes, f are the logits, p = softmax(f), ȳ is the complementary label (the
example does not belong to class ȳ), ``Q[i, j] = P(ȳ = j | class i)`` and q = Qᵀ p. Shapes and
reductions are those of `torch.nn.functional.cross_entropy`. The risks `non_negative_risk`,
`gradient_ascent_risk` and `one_versus_rest_risk` are defined for a whole batch and return one
number. `prior_matching` uses no label and is added to another loss.
"""

from naysay.functional.estimates import complementary_cross_entropy, trained_forward_cross_entropy
from naysay.functional.estimates import nearest_row_scores as nearest_row_scores
from naysay.functional.estimates import prior_matching as prior_matching
from naysay.functional.forward import (
    BaseLoss,
    forward_absolute_error,
    forward_cross_entropy,
    forward_generalised_cross_entropy,
    forward_loss,
    forward_squared_error,
)
from naysay.functional.margins import (
    BinaryLoss,
    multi_label,
    one_versus_all,
    one_versus_rest_risk,
    pairwise_comparison,
    partial_label,
)
from naysay.functional.margins import logistic as logistic
from naysay.functional.several import (
    likelihood_loss,
    several_labels_absolute_error,
    several_labels_exponential,
    several_labels_log,
)
from naysay.functional.surrogates import (
    order_preserving,
    reversed_softmax,
    surrogate_exponential,
    surrogate_log,
    weighted_order_preserving,
    weighted_reversed_softmax,
)
from naysay.functional.unbiased import (
    backward_cross_entropy,
    gradient_ascent_risk,
    non_negative_risk,
)
from naysay.functional.views import partial_output_consistency, two_views, two_views_likelihood

__all__ = [
    "BaseLoss",
    "BinaryLoss",
    "backward_cross_entropy",
    "complementary_cross_entropy",
    "forward_absolute_error",
    "forward_cross_entropy",
    "forward_generalised_cross_entropy",
    "forward_loss",
    "forward_squared_error",
    "gradient_ascent_risk",
    "likelihood_loss",
    "multi_label",
    "non_negative_risk",
    "one_versus_all",
    "one_versus_rest_risk",
    "order_preserving",
    "pairwise_comparison",
    "partial_label",
    "partial_output_consistency",
    "reversed_softmax",
    "several_labels_absolute_error",
    "several_labels_exponential",
    "several_labels_log",
    "surrogate_exponential",
    "surrogate_log",
    "trained_forward_cross_entropy",
    "two_views",
    "two_views_likelihood",
    "weighted_order_preserving",
    "weighted_reversed_softmax",
]
