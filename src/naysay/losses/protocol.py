"""The interface between losses and training, prediction and model files.

A loss is any callable ``loss(logits, labels)`` that returns a scalar. A loss that needs more
derives from `TrainingLoss` and overrides the methods and attributes whose defaults do not fit.
"""

import copy
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from naysay._base.errors import InvalidInput
from naysay.transition import TransitionMatrix

_DECLARED = ("n_views", "set_progress", "held_out", "log_scores")


class TrainingLoss(nn.Module):
    """Base class of all losses of this package, and of losses of your own that need more.

    A subclass defines ``forward(logits, labels)``, which returns a scalar. If the loss has
    parameters, they are trained together with those of the network, without weight decay.

    Attributes
    ----------
    n_views : int, default=1
        Number of views (augmented versions) of each batch that the loss compares. If it is above
        1, the loss receives logits of shape (n_views, N, K) in training mode, and logits of shape
        (N, K) in evaluation mode.
    takes_stack : bool, default=False
        Whether the loss uses only the columns of its matrix ``Q``. Then ``Q`` may be a stack of
        matrices, so that one call computes the losses of many networks with different matrices.

    Examples
    --------
    >>> class Squared(TrainingLoss):
    ...     def forward(self, logits, labels):
    ...         return logits.softmax(1).gather(1, labels[:, None]).square().mean()
    >>> loss = Squared()
    >>> loss.n_views, loss.needs_progress, loss.reads_softmax
    (1, False, True)
    """

    n_views: int = 1
    takes_stack: ClassVar[bool] = False

    def set_progress(self, share: float | Tensor) -> None:
        """Receive the share of all training steps that are done, before each step.

        On a GPU it is a tensor, which must not be read back. By default it is ignored.
        """

    @property
    def needs_progress(self) -> bool:
        """Whether the loss depends on the progress of training: it overrides `set_progress`."""
        return type(self).set_progress is not TrainingLoss.set_progress

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the held-out loss, by which epochs are compared; by default the loss itself.

        Training calls it in evaluation mode, with the logits (N, K) of all held-out examples.
        """
        return self(logits, labels)

    def log_scores(self, logits: Tensor) -> Tensor:
        """Compute scores of the classes, shape (N, K); by default the log-softmax of the logits.

        A loss overrides this if its logits are not those of the classes.
        """
        return logits.log_softmax(1)

    @property
    def reads_softmax(self) -> bool:
        """Whether the class scores are the log-softmax of the logits, the default `log_scores`."""
        return type(self).log_scores is TrainingLoss.log_scores

    @property
    def learned_transition(self) -> TransitionMatrix | None:
        """The matrix that was trained with the network; None if the loss does not train one."""
        return None

    def settings(self) -> dict[str, object]:
        """List the settings by name; losses of a class with equal settings are trained together.

        The default is all attributes whose names do not begin with an underscore.
        """
        public = (item for item in vars(self).items() if not item[0].startswith("_"))
        return {name: value for name, value in public if name != "training"}

    def per_example(self, labels: Tensor) -> "TrainingLoss | None":
        """Make a copy that returns one value per example, shape (N,), for labels like these.

        The mean of these values must be the value of this loss. The default, None, means that
        there is no such copy, for instance because the loss depends on the batch as a whole.
        """
        return None


class LossWrapper(TrainingLoss):
    """Base class of losses that compute another `loss`, which is the default."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.loss = as_training_loss(loss)
        self.n_views = self.loss.n_views

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss."""
        return self.loss(logits, labels)

    def set_progress(self, share: float | Tensor) -> None:
        """Pass the share of training that is done on to the loss."""
        self.loss.set_progress(share)

    @property
    def needs_progress(self) -> bool:
        """Whether the loss depends on the progress of training."""
        return self.loss.needs_progress

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the held-out loss of the loss."""
        return self.loss.held_out(logits, labels)

    def log_scores(self, logits: Tensor) -> Tensor:
        """Compute the class scores of the loss."""
        return self.loss.log_scores(logits)

    @property
    def reads_softmax(self) -> bool:
        """Whether the class scores are the log-softmax of the logits."""
        return self.loss.reads_softmax


class _Plain(TrainingLoss):  # this name is part of the fingerprint in checkpoints
    """A callable, or a module of another package, as a loss with the default behaviour."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.loss(logits, labels)

    def __deepcopy__(self, memo: dict[int, object]) -> "_Plain":
        # other callables are shared, because they may have state that cannot be copied
        is_module = isinstance(self.loss, nn.Module)
        return _Plain(copy.deepcopy(self.loss, memo) if is_module else self.loss)


def as_training_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> TrainingLoss:
    """Convert a callable or a module of another package to a `TrainingLoss`.

    The parameters of a module are trained. A module that defines a name of `TrainingLoss` without
    deriving from it is refused, because its definition would have no effect.
    """
    if isinstance(loss, TrainingLoss):
        return loss
    if isinstance(loss, nn.Module) and (
        defined := [name for name in _DECLARED if hasattr(loss, name)]
    ):
        raise InvalidInput(
            f"A loss that defines {', '.join(defined)} must derive from "
            f"naysay.losses.TrainingLoss; {type(loss).__name__} does not. Make that its base class "
            "in place of torch.nn.Module."
        )
    return _Plain(loss)
