"""Export models to ONNX and torch.export files, which run without naysay.

The exported model takes raw inputs: images as bytes, or the columns of a table as numbers, with NaN
for missing values and the index of the category for text. It returns log-probabilities and
probabilities. The file contains a description of its inputs.
"""

import copy
import io
import json
import logging
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from naysay._base.errors import InvalidInput
from naysay._base.files import replacing
from naysay._base.terminal import quiet
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.preparation import Preparation
from naysay.datasets.own.images import ImageRecipe
from naysay.datasets.own.recipe import CategoricalColumn, Column, NumericColumn, Recipe
from naysay.losses.protocol import as_training_loss


class TableEncoder(nn.Module):
    """The recipe of a table as a module: columns (N, n_columns) to features (N, n_features)."""

    source: Tensor
    kind: Tensor
    fill: Tensor
    center: Tensor
    scale: Tensor

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        rows: list[tuple[float, ...]] = []
        for index, column in enumerate(recipe.columns):
            rows += [(index, *row) for row in _feature_rows(column)]
        table = torch.tensor(rows, dtype=torch.float64)
        self.register_buffer("source", table[:, 0].long())
        self.register_buffer("kind", table[:, 1].long())
        for index, name in enumerate(("fill", "center", "scale"), start=2):
            self.register_buffer(name, table[:, index].float())

    def forward(self, columns: Tensor) -> Tensor:
        """Compute the features of the recipe."""
        cells = columns[:, self.source]
        gap = cells.isnan()
        number = (torch.where(gap, self.fill, cells) - self.center) / self.scale
        is_listed = (cells >= 0) & (cells < self.fill)
        other = (~gap & ~is_listed) | (gap & (self.center > 0))
        # As numbers, because onnxruntime has no `where` for booleans.
        features = torch.where(self.kind == _GAP, gap.float(), (cells == self.fill).float())
        features = torch.where(self.kind == _OTHER, other.float(), features)
        return torch.where(self.kind == _NUMBER, number, features)


class PreparedInputs(nn.Module):
    """The preparation of X as a module: fill missing values, and reduce what was sparse in fit."""

    def __init__(self, preparation: Preparation) -> None:
        super().__init__()
        for name, array in preparation.arrays.items():
            self.register_buffer(name, torch.tensor(array))

    def forward(self, X: Tensor) -> Tensor:
        """Compute the inputs of the network."""
        arrays = dict(self.named_buffers())
        if "components" in arrays:
            return X[:, arrays["columns"]] @ arrays["components"].T
        if "median" not in arrays:
            return X
        is_missing = X.isnan()
        filled = torch.where(is_missing, arrays["median"], X)
        if not len(arrays["indicated"]):
            return filled
        return torch.cat([filled, is_missing[:, arrays["indicated"]].float()], 1)


# Kinds of features. `fill` is the median, the index of the category, or the number of categories;
# for _OTHER, `center` is 1 if a missing value counts as another category too.
_NUMBER, _GAP, _CATEGORY, _OTHER = range(4)


def _feature_rows(column: Column) -> list[tuple[float, ...]]:
    """List kind, fill, center and scale of each feature of a column."""
    if isinstance(column, NumericColumn):
        rows = [(_NUMBER, column.median, column.center, column.scale)]
    elif not isinstance(column, CategoricalColumn):
        raise InvalidInput(
            f"A model with a column of text, {column.name!r}, cannot be exported: its input must "
            "be numbers. Use naysay predict, or fit a model without it (--ignore)."
        )
    else:
        n_categories = len(column.categories)
        rows = [(_CATEGORY, place, 0.0, 1.0) for place in range(n_categories)]
        if column.has_other:
            rows.append((_OTHER, n_categories, float(not column.n_missing), 1.0))
    return [*rows, (_GAP, 0.0, 0.0, 1.0)] if column.n_missing else rows


class ExportedModel(nn.Module):
    """A module from raw inputs to log-probabilities and probabilities, both (N, n_classes)."""

    def __init__(self, model: ComplementaryClassifier) -> None:
        super().__init__()
        recipe = model.recipe_
        self.encoder = PreparedInputs(model.preparation_) if recipe is None else nn.Identity()
        if isinstance(recipe, Recipe):
            self.encoder = TableEncoder(recipe)
        self.network = copy.deepcopy(model.network_)  # the model itself stays on its device
        self.loss = as_training_loss(copy.deepcopy(model.loss_))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Compute log P(Y | x) and P(Y | x)."""
        logits = self.network(self.encoder(inputs).float())
        log_probs = self.loss.log_scores(logits)
        return log_probs, log_probs.exp()


def describe_input(model: ComplementaryClassifier) -> dict[str, Any]:
    """Describe the inputs and outputs of an exported model, as plain values for JSON."""
    about: dict[str, Any] = {
        "classes": model.classes_.tolist(),
        "outputs": ["log_probabilities", "probabilities"],
    }
    recipe = model.recipe_
    if isinstance(recipe, ImageRecipe):
        form = "images, uint8, (N, channels, height, width)"
        return {**about, "input": form, "mode": recipe.mode}
    if recipe is None:
        return {**about, "input": f"features, float32, (N, {model.n_features_in_})"}
    columns = [
        {"name": column.name, "categories": list(column.categories)}
        if isinstance(column, CategoricalColumn)
        else {"name": column.name}
        for column in recipe.columns
    ]
    form = "columns, float32, (N, columns): numbers, positions of categories, NaN where missing"
    return {**about, "input": form, "columns": columns}


def export(model: ComplementaryClassifier, path: str | Path) -> None:
    """Write a model as ``.onnx`` or ``.pt2`` (torch.export), completely or not at all.

    The suffix decides the format. ONNX needs the packages of ``naysay[export]``.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".onnx", ".pt2"):
        raise InvalidInput(f"out must end in .onnx or .pt2. Got {str(path)!r}.")
    recipe, about = model.recipe_, json.dumps(describe_input(model))
    module = ExportedModel(model).cpu().eval()
    if suffix == ".onnx" and find_spec("onnxscript") is None:
        raise InvalidInput(
            "To write ONNX the packages onnx and onnxscript must be installed: "
            "pip install 'naysay[export]'. A .pt2 file needs neither."
        )
    shape = (len(recipe.columns),) if isinstance(recipe, Recipe) else model.input_shape_
    dtype = torch.uint8 if isinstance(recipe, ImageRecipe) else torch.float32
    example = torch.zeros((2, *shape), dtype=dtype)
    shapes = ({0: torch.export.Dim("n", min=1)},)
    with replacing(path, usual="model.onnx") as part, torch.no_grad():
        with quiet(logging.getLogger("torch.export")), warnings.catch_warnings(action="ignore"):
            program = torch.export.export(module, (example,), dynamic_shapes=shapes)
        if suffix == ".pt2":
            content = io.BytesIO()  # a full disk would be a RuntimeError of the writer in C++
            torch.export.save(program, content, extra_files={"naysay.json": about})
            part.write_bytes(content.getvalue())
            return
        with (
            quiet(logging.getLogger("torch.onnx")),
            warnings.catch_warnings(action="ignore"),
        ):  # of deprecations
            exported = torch.onnx.export(
                program,
                (example,),
                input_names=["inputs"],
                output_names=["log_probabilities", "probabilities"],
                dynamo=True,
                verbose=False,
            )
        assert exported is not None  # because dynamo=True
        exported.model.metadata_props["naysay"] = about
        exported.save(part, external_data=False)
