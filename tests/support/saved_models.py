"""A small model to save, and ways to change what was saved, for the tests of model files."""

import hashlib
import json

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from naysay import TransitionMatrix
from naysay.classifier.model_files import SavedModel, save_model
from naysay.networks import MLP

X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
NAMED = TransitionMatrix([[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]], ["cat", 'd"og', "öwl,\n"])


class Tied(nn.Module):
    """A network of the user's own, two of whose layers share a weight."""

    def __init__(self, n_inputs=6, n_classes=3):
        super().__init__()
        self.first = nn.Linear(n_inputs, n_inputs)
        self.second = nn.Linear(n_inputs, n_inputs)
        self.second.weight = self.first.weight
        self.last = nn.Linear(n_inputs, n_classes)
        self.register_buffer("steps", torch.tensor(7))

    def forward(self, inputs):
        return self.last(self.second(self.first(inputs).relu()))


def make_model(**changes):
    torch.manual_seed(0)
    transition = changes.get("transition", NAMED)
    network = MLP((6,), transition.n_classes, widths=(4,))
    nn.init.normal_(network.layers[-1].weight)
    network.standardise(X)
    facts = {
        "network": network.eval(),
        "classes": np.array([f"class {i}" for i in range(transition.n_classes)]),
        "transition": transition,
        "input_shape": (6,),
        "parameters": {"lr": 0.001, "classes": None, "method": "forward"},
        "history": [{"epoch": 1, "loss": 0.5, "seconds": 0.1}],
        "feature_names": ["a", "b", "c", "d", "e", "f"],
    }
    return SavedModel(**{**facts, **changes})


def save(folder, **changes):
    model = make_model(**changes)
    save_model(model, folder, version="0.1.0")
    return model


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def change_facts(folder, change):
    file = folder / "model.json"
    facts = json.loads(file.read_text("utf-8"))
    change(facts)
    file.write_text(json.dumps(facts), "utf-8")


def change_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: value.clone() for name, value in tensors.items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    change_facts(folder, lambda facts: facts.update(sha256=digest))
