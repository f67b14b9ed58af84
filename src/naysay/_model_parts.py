"""What a model file holds of a fitted classifier, and the classifier built again from it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from naysay._base.errors import InvalidInput, InvalidModelFile
from naysay._trainer import find_device
from naysay.methods import METHODS, Method, Setting, find_method
from naysay.persistence import SavedModel

if TYPE_CHECKING:
    from naysay.datasets.own.read import ImageRecipe, Recipe


_NOT_SAVED = (  # code, and what is of no use once fitted
    "network",
    "augment",
    "optimiser",
    "schedule",
    "device",
    "classes",
    "checkpoint",
    "progress",
)


def to_saved(clf: Any) -> SavedModel:
    """Return what a model file holds of a fitted `ComplementaryClassifier`."""
    method = find_method(clf.method)
    is_known = METHODS.get(method.name) is method
    if hasattr(clf.loss_, "log_scores") and not is_known:
        raise InvalidInput(
            f"A model file cannot hold how the loss of your own method {method.name!r} reads "
            "logits. Save network_ and loss_ with torch.save."
        )
    names = getattr(clf, "feature_names_in_", None)
    return SavedModel(
        network=clf.network_,
        classes=clf.classes_,
        transition=clf.transition_,
        transitions=clf.transitions_,
        input_shape=clf.input_shape_,
        parameters=_plain_parameters(clf, method),
        history=clf.history_,
        feature_names=None if names is None else names.tolist(),
        loss_state=clf.loss_.state_dict() if is_known else {},
        preprocessing=None if clf.recipe_ is None else clf.recipe_.to_dict(),
        provenance=clf.provenance_,
    )


def _plain_parameters(clf: Any, method: Method) -> dict[str, Any]:
    """Return the constructor's arguments that a model file can hold."""
    parameters = clf.get_params(deep=False)
    for name in _NOT_SAVED:
        parameters.pop(name)
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None
    parameters["method"] = method.name
    if not isinstance(clf.transition, str):
        parameters["transition"] = "uniform"  # the matrix itself is saved as transition_
    return parameters


def fill_from_saved(clf: Any, model: SavedModel, path: str | Path) -> None:
    """Give a classifier made of a model's parameters all that `fit` had given it."""
    device = find_device(clf.device)
    clf.classes_ = model.classes
    clf.transition_ = model.transition
    clf.transitions_ = model.transitions
    clf.input_shape_ = model.input_shape
    clf.history_ = model.history
    clf.network_ = model.network.to(device)
    clf.loss_ = _rebuild_loss(clf.method, model, path).to(device)
    clf.n_features_in_ = model.input_shape[0]
    if model.feature_names is not None:
        clf.feature_names_in_ = np.array(model.feature_names, dtype=object)
    clf.recipe_ = _rebuild_recipe(model, path)
    clf.provenance_ = model.provenance


def _rebuild_loss(method: str | Method, model: SavedModel, path: str | Path) -> nn.Module:
    """Return the trained loss of a saved model; a method of one's own has left none."""
    known = METHODS.get(str(method))
    if known is None:
        return nn.Identity()
    n_classes = model.transition.n_classes
    prior = torch.full((n_classes,), 1 / n_classes, dtype=torch.float64)  # that of older files
    loss = known.make_loss(Setting(Q=model.transition, prior=prior))
    if model.loss_state:
        try:
            loss.load_state_dict(model.loss_state)
        except RuntimeError as error:
            raise InvalidModelFile(
                f"{path} must hold the loss of {known.name!r}: {str(error).splitlines()[0]} "
                "Save the model again."
            ) from None
    return loss.eval()


def _rebuild_recipe(model: SavedModel, path: str | Path) -> "Recipe | ImageRecipe | None":
    from naysay.datasets.own import recipe_from_dict  # loads pyarrow, for models of files only

    if model.preprocessing is None:
        return None
    recipe = recipe_from_dict(model.preprocessing)
    if recipe.shape != model.input_shape:
        raise InvalidModelFile(
            f"{path} must hold a recipe that gives inputs of shape {model.input_shape}. It gives "
            f"{recipe.shape}. Save the model again."
        )
    return recipe
