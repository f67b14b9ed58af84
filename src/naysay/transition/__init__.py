"""TransitionMatrix: how annotators choose the class they exclude."""

from naysay.transition.matrix import TransitionMatrix, as_transition_matrix

__all__ = ["TransitionMatrix", "as_transition_matrix"]
