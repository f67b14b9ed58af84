"""Transition matrices: the probability of each complementary label given the true class."""

from naysay.transition.matrix import TransitionMatrix, as_transition_matrix

__all__ = ["TransitionMatrix", "as_transition_matrix"]
