"""TransitionMatrix: how annotators choose the class they exclude."""

from naysay.transition.matrix import TransitionMatrix

__all__ = ["TransitionMatrix"]
