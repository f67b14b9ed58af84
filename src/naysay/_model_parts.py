"""Parts of a fitted classifier, built again from what its model file holds."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from naysay._errors import InvalidModelFile
from naysay.methods import METHODS, Method, Setting
from naysay.persistence import SavedModel

if TYPE_CHECKING:
    from naysay.datasets.own import ImageRecipe, Recipe


def rebuild_loss(method: str | Method, model: SavedModel, path: str | Path) -> nn.Module:
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


def rebuild_recipe(model: SavedModel, path: str | Path) -> "Recipe | ImageRecipe | None":
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
