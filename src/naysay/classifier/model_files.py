"""Model files: a folder with ``model.safetensors`` and ``model.json``, never a pickle."""

import copy
import hashlib
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from scipy.sparse import csr_array
from torch import Tensor, nn

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidModelFile
from naysay._base.files import check_folder, check_ordinary, printable, replacing_folder, restored
from naysay.classifier.preparation import Preparation
from naysay.estimation import MistakeRate
from naysay.losses.protocol import as_training_loss
from naysay.methods import METHODS, Method, Setting
from naysay.networks import NETWORKS, Forest
from naysay.training.state import part_of
from naysay.transition import TransitionMatrix

if TYPE_CHECKING:
    from naysay.datasets.own.read import ImageRecipe, Recipe

_FORMAT = "naysay model"
_VERSION = 2
_READABLE = (1, 2)  # version 1 had no checksum, preprocessing or provenance
_FILES = {"model.json", "model.safetensors", "report.html", "sweep.html"}
_MOST_LAYERS = 1000
_ENTRIES = ("data", "indices", "indptr")  # arrays of a sparse matrix
_MOST_SAVED = 250_000  # entries of samples of the matrix, 1 MB; but at least 50 samples
# Errors that parts of a damaged file raise, if they do not fit together.
_MISFITS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# Parameters that are code, or of no use once the classifier is fitted.
_NOT_SAVED = {
    *("network", "augment", "optimiser", "schedule", "device", "classes", "checkpoint"),
    *("window", "progress"),
}
# Parts of a model that are attributes of the classifier, with a "_" at the end of their names.
ATTRIBUTES = (
    *("network", "classes", "transition", "transitions", "transition_samples"),
    *("input_shape", "preparation", "history", "provenance", "mistake_rate"),
)
NetworkFactory = Callable[[tuple[int, ...], int], nn.Module]


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """All parts of a fitted classifier; `parameters` and `history` are plain values for JSON."""

    network: nn.Module
    classes: NDArray[Any]
    transition: TransitionMatrix
    input_shape: tuple[int, ...]
    parameters: dict[str, Any]
    history: list[dict[str, float]]
    feature_names: list[str] | None = None
    transitions: dict[str, TransitionMatrix] = field(default_factory=dict)  # by annotator
    loss_state: dict[str, Tensor] = field(default_factory=dict)  # empty in older files
    preprocessing: dict[str, Any] | None = None  # how a file becomes inputs, from the recipe
    provenance: dict[str, Any] | None = None  # data, seed and command, as plain values
    transition_samples: NDArray[Any] | None = None  # (n, n_classes, n_classes)
    recipe_arrays: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # for text
    preparation: Preparation = field(default_factory=Preparation)  # older files have none
    mistake_rate: MistakeRate | None = None  # estimated with the matrix


def check_model_path(path: str | Path) -> Path:
    """Check that a model folder can be written there. Call this before training."""
    return check_folder(path, of=_is_model_folder, what="an earlier model")


def plain_parameters(parameters: dict[str, Any], method: Method) -> dict[str, Any]:
    """Select the parameters of a classifier that a file can contain."""
    plain = {name: value for name, value in parameters.items() if name not in _NOT_SAVED}
    plain["method"] = method.name
    if not isinstance(plain["random_state"], int | None):
        plain["random_state"] = None
    if not isinstance(plain["transition"], str):
        plain["transition"] = "uniform"  # the matrix itself is saved as transition_
    return plain


def state_of_loss(loss: nn.Module, method: Method) -> dict[str, Tensor]:
    """List the tensors of a trained loss, which is rebuilt by the name of its method."""
    if METHODS.get(method.name) is method:
        return loss.state_dict()
    if not as_training_loss(loss).reads_softmax:
        raise InvalidInput(
            f"A model file cannot contain the loss of the custom method {method.name!r}, whose "
            "log_scores are needed to predict. Save network_ and loss_ with torch.save."
        )
    return {}


def save_model(
    model: SavedModel,
    path: str | Path,
    *,
    version: str,
    report: str | None = None,
    sweep: str | None = None,
) -> None:
    """Write a model folder, completely or not at all. It replaces an older model folder.

    `report` and `sweep` are pages, which are written to ``report.html`` and ``sweep.html``.
    """
    with replacing_folder(path, of=_is_model_folder, what="an earlier model") as new:
        weights = save(_tensors(model))
        (new / "model.safetensors").write_bytes(weights)
        facts = {**_facts(model, version), "sha256": hashlib.sha256(weights).hexdigest()}
        (new / "model.json").write_text(json.dumps(facts, indent=1), "utf-8")
        for name, page in (("report.html", report), ("sweep.html", sweep)):
            if page is not None:
                (new / name).write_text(page, "utf-8", newline="\n")


def _is_model_folder(folder: Path) -> bool:
    """Check whether a folder contains a naysay model of any version, and nothing else."""
    if not folder.is_dir() or {file.name for file in folder.iterdir()} - _FILES:
        return False
    try:
        facts = json.loads(check_ordinary(folder / "model.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.get("format") == _FORMAT


def _tensors(model: SavedModel) -> dict[str, Tensor]:
    states = {
        "network": model.network.state_dict(),
        "loss": model.loss_state,
        "transition": _entries(model.transition),
        **{
            f"transitions.{index}": _entries(Q)
            for index, Q in enumerate(model.transitions.values())
        },
    }
    if model.transition_samples is not None:
        n = max(50, _MOST_SAVED // model.transition_samples[0].size)
        thinned = np.ascontiguousarray(model.transition_samples[:n], dtype=np.float32)
        states["transition_samples"] = {"values": torch.from_numpy(thinned)}
    arrays = {"recipe": model.recipe_arrays, "preparation": model.preparation.arrays}
    for part, named in arrays.items():
        states[part] = {name: torch.tensor(each) for name, each in named.items()}
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    return {
        f"{part}.{name}": value.cpu().clone(memory_format=torch.contiguous_format)
        for part, state in states.items()
        for name, value in state.items()
    }


def _entries(Q: TransitionMatrix) -> dict[str, Tensor]:
    if Q.is_uniform:
        return {}
    return {name: torch.tensor(getattr(Q.entries, name)) for name in _ENTRIES}


def _facts(model: SavedModel, version: str) -> dict[str, Any]:
    name = type(model.network).__name__
    is_known = NETWORKS.get(name) is type(model.network)
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "written_by": f"naysay {version}",
        "classes": model.classes.tolist(),
        "transition": _about(model.transition),
        "transitions": [{"annotator": name, **_about(Q)} for name, Q in model.transitions.items()],
        "network": {"name": name, "arguments": model.network.arguments} if is_known else None,
        "input_shape": list(model.input_shape),
        "feature_names": model.feature_names,
        "parameters": model.parameters,
        "history": model.history,
        "preprocessing": model.preprocessing,
        "provenance": model.provenance,
        "mistake_rate": None if model.mistake_rate is None else asdict(model.mistake_rate),
    }


def _about(Q: TransitionMatrix) -> dict[str, Any]:
    names = list(Q.classes)
    return {"names": names, "uniform": Q.is_uniform, "allow_diagonal": Q.allow_diagonal}


def load_model(
    path: str | Path, *, network: nn.Module | NetworkFactory | None = None
) -> SavedModel:
    """Read a model folder; `network` is needed unless it is one of `naysay.networks`."""
    folder = restored(path)
    facts = _read_facts(folder)
    tensors = _read_tensors(folder, facts.get("sha256"))
    try:
        transition = _rebuild_transition(facts["transition"], tensors, "transition.")
        transitions = {
            str(about["annotator"]): _rebuild_transition(about, tensors, f"transitions.{index}.")
            for index, about in enumerate(facts.get("transitions", []))  # older files have none
        }
        sizes = {len(facts["classes"]), *(Q.n_classes for Q in (transition, *transitions.values()))}
        if len(sizes) > 1:
            raise ValueError(f"classes and matrices have different sizes, {sorted(sizes)}")
        names = facts["feature_names"]
        if names is not None and list(map(type, names)) != [str] * facts["input_shape"][0]:
            raise TypeError("feature_names must contain one name per feature")
        shape = tuple(facts["input_shape"])
        preparation = Preparation.from_arrays(_arrays(tensors, "preparation"), shape)
        shape = preparation.shape_of_inputs(shape)
        network = _rebuild_network(facts, shape, folder, network, part_of(tensors, "network"))
        model = SavedModel(
            network=network.eval(),
            classes=np.array(facts["classes"]),
            transition=transition,
            input_shape=tuple(facts["input_shape"]),
            parameters=dict(facts["parameters"]),
            history=list(facts["history"]),
            feature_names=None if names is None else list(names),
            transitions=transitions,
            loss_state=part_of(tensors, "loss"),
            preprocessing=facts.get("preprocessing"),
            provenance=facts.get("provenance"),
            transition_samples=_rebuild_samples(tensors, transition.n_classes),
            recipe_arrays=_arrays(tensors, "recipe"),
            preparation=preparation,
            mistake_rate=_rebuild_rate(facts.get("mistake_rate")),
        )
    except InvalidModelFile:
        raise
    except _MISFITS as error:
        raise InvalidModelFile(
            f"{folder} must contain a whole model. Its parts do not fit together: "
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}. "
            "Save the model again."
        ) from error
    return model


def _rebuild_samples(tensors: dict[str, Tensor], n_classes: int) -> NDArray[np.float32] | None:
    """Read the samples of the matrix; older files and models with a given matrix have none."""
    samples = tensors.get("transition_samples.values")
    if samples is None:
        return None
    if samples.shape[1:] != (n_classes, n_classes) or not torch.isfinite(samples).all():
        raise ValueError(f"samples of the matrix have shape {tuple(samples.shape)}")
    return samples.float().numpy()


def _rebuild_rate(about: Any) -> MistakeRate | None:
    """Read the rate of mistakes; older files and models with a given matrix have none."""
    if about is None:
        return None
    low, high = map(float, about["interval"])
    return MistakeRate(value=float(about["value"]), interval=(low, high), level=about["level"])


def _read_facts(folder: Path) -> dict[str, Any]:
    try:
        facts = json.loads(check_ordinary(folder / "model.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidModelFile(
            f"{folder} must be a model folder with a readable model.json: {reason}."
        ) from None
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise InvalidModelFile(f"{folder / 'model.json'} must describe a naysay model.")
    if facts.get("version") not in _READABLE:
        raise InvalidModelFile(
            f"{folder} must be of format version {_VERSION} or older. It is of version "
            f"{shorten(facts.get('version'))}, written by {shorten(facts.get('written_by'))}. "
            "Install that version of naysay."
        )
    return facts


def _read_tensors(folder: Path, sha256: str | None) -> dict[str, Tensor]:
    """Read the weights, and compare their checksum, which reveals any other damage."""
    try:
        path = check_ordinary(folder / "model.safetensors")
        with path.open("rb") as content:
            if sha256 not in (None, hashlib.file_digest(content, "sha256").hexdigest()):
                raise OSError("its content is not what was written")
        if printable(path) != str(path):  # safetensors opens only paths in UTF-8
            return load(path.read_bytes())
        with safe_open(path, framework="pt") as file:  # mapped: a part is read when it is used
            names = file.keys()  # the file is not a dict and cannot be iterated over
            return {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise InvalidModelFile(
            f"{folder} must contain a whole model.safetensors: {error}. Save the model again."
        ) from None


def _arrays(tensors: dict[str, Tensor], part: str) -> dict[str, NDArray[Any]]:
    return {name: each.numpy() for name, each in part_of(tensors, part).items()}


def _rebuild_transition(
    about: dict[str, Any], tensors: dict[str, Tensor], prefix: str
) -> TransitionMatrix:
    names = about["names"]
    if about["uniform"]:
        return TransitionMatrix.uniform(len(names), classes=names)
    data, indices, indptr = (tensors[prefix + name].numpy() for name in _ENTRIES)
    entries = csr_array((data, indices, indptr), (len(names), len(names)))
    entries.check_format(full_check=True)
    return TransitionMatrix(entries, names, allow_diagonal=about["allow_diagonal"])


def _rebuild_network(
    facts: dict[str, Any],
    input_shape: tuple[int, ...],
    folder: Path,
    network: nn.Module | NetworkFactory | None,
    state: dict[str, Tensor],
) -> nn.Module:
    n_classes = len(facts["classes"])
    if network is not None:
        is_module = isinstance(network, nn.Module)
        rebuilt = copy.deepcopy(network) if is_module else network(input_shape, n_classes)
        rebuilt.load_state_dict(state)
        return rebuilt
    about = facts["network"]
    if about is None:
        raise InvalidModelFile(
            f"{folder} was trained with a network of your own, which a model file cannot contain. "
            "Pass it: load(path, network=…)."
        )
    arguments = dict(about["arguments"])
    # each layer takes time to make, even without weights
    longest, most = _longest_list(arguments), min(max(len(state), 3), _MOST_LAYERS)
    if longest > most:
        raise ValueError(f"an argument of the network has {longest} entries")
    positional = arguments.pop("input_shape"), arguments.pop("n_classes")
    with torch.device("meta"):  # shapes only: a damaged file cannot demand huge memory
        rebuilt = NETWORKS[about["name"]](*positional, **arguments).eval()
    expected = rebuilt.state_dict()
    for name in expected.keys() | state.keys():
        if name not in state or name not in expected:
            raise ValueError(f"the weights {name} are missing, or of another network")
        if state[name].shape != expected[name].shape or state[name].dtype != expected[name].dtype:
            raise ValueError(f"the weights {name} are of another shape or type than the network's")
    is_flat = len(input_shape) == 1
    if is_flat:  # as small as the weights; shapes alone would make torch load its compiler
        rebuilt.load_state_dict(state, assign=True)
    with torch.no_grad(), nullcontext() if is_flat else torch.device("meta"):
        scores = rebuilt(torch.zeros(()).expand((1, *input_shape)))
    if scores.shape != (1, len(facts["transition"]["names"])):
        raise ValueError(f"the network gives scores of shape {tuple(scores.shape)}")
    rebuilt.load_state_dict(state, assign=True)
    for part in rebuilt.modules():
        if isinstance(part, Forest):
            part.check()
    return rebuilt.requires_grad_(True)


def _longest_list(value: Any) -> int:
    """Find the length of the longest list, at any depth."""
    parts = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(parts, list):
        return 0
    length = 0 if isinstance(value, dict) else len(parts)
    return max([length, *map(_longest_list, parts)])


def rebuild_loss(method: str | Method, model: SavedModel, path: str | Path) -> nn.Module:
    """Rebuild the trained loss of a saved model; that of a custom method is not in its file."""
    known = METHODS.get(str(method))
    if known is None:
        return nn.Identity()
    n_classes = model.transition.n_classes
    prior = torch.full((n_classes,), 1 / n_classes, dtype=torch.float64)  # for older files
    loss = known.make_loss(Setting(Q=model.transition, prior=prior))
    if model.loss_state:
        try:
            loss.load_state_dict(model.loss_state)
        except RuntimeError as error:
            raise InvalidModelFile(
                f"{path} must contain the loss of {known.name!r}: {str(error).splitlines()[0]} "
                "Save the model again."
            ) from None
    return loss.eval()


def rebuild_recipe(model: SavedModel, path: str | Path) -> "Recipe | ImageRecipe | None":
    """Rebuild the recipe of a saved model; None if it was not made from a file."""
    from naysay.datasets.own import recipe_from_dict  # loads pyarrow

    if model.preprocessing is None:
        return None
    recipe = recipe_from_dict(model.preprocessing, model.recipe_arrays)
    if recipe.shape != model.input_shape:
        raise InvalidModelFile(
            f"{path} must contain a recipe that gives inputs of shape {model.input_shape}. Got "
            f"{recipe.shape}. Save the model again."
        )
    return recipe
