"""Check that networks and augmentations give the same results captured, compiled and eagerly.

    python benchmarks/gpu_networks.py

Prints milliseconds per training step of 512 images (bfloat16, channels_last) and fails if the
losses differ. CI has no GPU; run this by hand. It appends to results/gpu_networks.jsonl.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from naysay.networks import LeNet5, ResNet18, ResNet34
from naysay.training.augmentation import compose, crop, cutout, flip
from record import write_record

BATCH = 512
N_STEPS = 20
NETWORKS = {
    "LeNet5 28x28": (LeNet5, (1, 28, 28), 10),
    "ResNet18 32x32": (ResNet18, (3, 32, 32), 10),
    "ResNet34 32x32": (ResNet34, (3, 32, 32), 100),
    "ResNet18 64x64, stem_padding=0": (partial(ResNet18, stem_padding=0), (3, 64, 64), 200),
}


def main() -> None:
    torch.manual_seed(0)
    results: dict[str, Any] = {"augmentation": time_augmentation()}
    print(results["augmentation"])
    for name, (make, shape, n_classes) in NETWORKS.items():
        X = torch.randint(256, (BATCH, *shape), dtype=torch.uint8, device="cuda")
        X = X.contiguous(memory_format=torch.channels_last)
        labels = torch.randint(n_classes, (BATCH,), device="cuda")
        network = make(shape, n_classes).cuda().to(memory_format=torch.channels_last)
        network.standardise(X)
        results[name] = {}
        ends: dict[str, float] = {}
        for way, prepare in {"eager": eager, "graph": graph, "compiled": compiled}.items():
            step = prepare(copy.deepcopy(network), X, labels)
            ends[way] = [step().item() for _ in range(N_STEPS)][-1]
            results[name][f"{way}_ms"] = round(milliseconds(step), 3)
        results[name]["loss_after_steps"] = {way: round(end, 4) for way, end in ends.items()}
        print(name, results[name])
        for way in ("graph", "compiled"):
            if abs(ends[way] - ends["eager"]) > 0.1 * ends["eager"] + 0.05:
                raise SystemExit(f"{name}: loss {ends[way]} {way}, {ends['eager']} eager")
    write_record("gpu_networks", results, n_runs=50, statistic="mean", batch=BATCH)


def make_step(
    model: Callable[..., Tensor], optimiser: torch.optim.Optimizer, X: Tensor, labels: Tensor
) -> Callable[[], Tensor]:
    def step() -> Tensor:
        optimiser.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            logits = model(X)
        loss = cross_entropy(logits.float(), labels)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def make_optimiser(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9, fused=True)


def eager(network: nn.Module, X: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    return make_step(network, make_optimiser(network), X, labels)


def compiled(network: nn.Module, X: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    model = torch.compile(network, fullgraph=True)
    return make_step(model, make_optimiser(network), X, labels)


def graph(network: nn.Module, X: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    """Capture one step; the steps taken to warm up are undone, so that losses can be compared."""
    optimiser = make_optimiser(network)
    start = {name: value.clone() for name, value in network.state_dict().items()}

    def undo() -> None:
        network.load_state_dict(start)
        for state in optimiser.state.values():
            state["momentum_buffer"].zero_()

    return captured(make_step(network, optimiser, X, labels), undo)


def captured(step: Callable[[], Tensor], undo: Callable[[], Any]) -> Callable[[], Tensor]:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        result = step()
    undo()

    def replay() -> Tensor:
        recording.replay()
        return result

    return replay


def time_augmentation() -> dict[str, float]:
    """Return milliseconds for 512 colour images of 32 x 32 bytes; a graph must draw anew."""
    X = torch.randint(256, (BATCH, 3, 32, 32), dtype=torch.uint8, device="cuda")
    X = X.contiguous(memory_format=torch.channels_last)
    times = {}
    ways = {"crop": partial(crop, padding=4), "flip": flip, "cutout": cutout}
    for name, augment in {**ways, "all": compose(*ways.values())}.items():
        replay = captured(lambda augment=augment: augment(X), lambda: None)
        if torch.equal(replay().clone(), replay()):
            raise SystemExit(f"{name}: a graph of it gives the same view twice")
        times[f"{name}_eager_ms"] = round(milliseconds(lambda augment=augment: augment(X)), 4)
        times[f"{name}_graph_ms"] = round(milliseconds(replay), 4)
    return times


def milliseconds(step: Callable[[], Tensor], n: int = 50) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(5):
        step()
    start.record()
    for _ in range(n):
        step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / n


if __name__ == "__main__":
    main()
