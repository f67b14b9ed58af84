"""Measure the training loop on a GPU: the captured step, its speed and its memory.

    python benchmarks/gpu_training.py

- A small network trained with the step captured in a CUDA graph ends like one trained as written.
- ResNet-18 on images of CIFAR-10's shape, batch 512, bfloat16: images per second and peak memory,
  as written, captured, and captured and compiled, through `training.fit`.

Appends to results/gpu_training.jsonl. CI has no GPU; run this by hand.
"""

import gc
from collections.abc import Callable, Iterable
from typing import Any

import torch

from naysay import TransitionMatrix
from naysay.losses import ForwardCrossEntropy
from naysay.networks import MLP, ResNet18
from naysay.training import Examples, Options, fit, seeded, sgd
from naysay.training.augmentation import compose, crop, flip
from naysay.training.schedules import one_cycle
from record import write_record

DEVICE = torch.device("cuda")
Q = TransitionMatrix.with_zeros(10, seed=0)
N_IMAGES = 45_000


def same_end() -> dict[str, Any]:
    """Train an MLP as written and captured; the weights must agree."""
    ends = []
    for capture in (False, True):
        with seeded(0, DEVICE):
            X = torch.randn(2_000, 20, device=DEVICE)
            labels = torch.randint(10, (2_000,), device=DEVICE)
            network = MLP((20,), 10, widths=(64,), dropout=0.2).to(DEVICE)
        options = Options(
            epochs=5, batch_size=100, lr=1e-2, weight_decay=1e-2, patience=5, capture=capture
        )
        examples = Examples(X, labels)
        history = fit(
            network, examples, ForwardCrossEntropy(Q), options, held_out=Examples(X, labels)
        )
        weights = torch.cat([p.detach().flatten() for p in network.parameters()])
        ends.append((weights, history[-1]["loss"]))
    distance = ((ends[0][0] - ends[1][0]).norm() / ends[0][0].norm()).item()
    if distance > 1e-3:
        raise SystemExit(f"captured and written steps end {distance:.2g} apart: {ends}")
    return {"relative distance of weights": distance}


def train_resnet(
    device: torch.device, n_images: int, on_epoch: Callable[[Any], None], **changes: Any
) -> list[dict[str, float]]:
    """Train ResNet-18 on random images of CIFAR-10's shape; return the history."""
    with seeded(0, device):
        X = torch.randint(256, (n_images, 3, 32, 32), dtype=torch.uint8, device=device)
        labels = torch.randint(10, (n_images,), device=device)
        network = ResNet18((3, 32, 32), 10).to(device)
        network.standardise(X[:10_000])
    settings: dict[str, Any] = {
        "epochs": 5,
        "batch_size": 512,
        "lr": 0.1,
        "weight_decay": 5e-4,
        "patience": 5,
        "optimiser": sgd,
        "schedule": one_cycle,
        "max_norm": 1.0,
        "bfloat16": device.type == "cuda",
        **changes,
    }
    loss = ForwardCrossEntropy(Q).to(device)
    return fit(
        network,
        Examples(X, labels),
        loss,
        Options(**settings),
        augment=compose(crop, flip),
        on_epoch=on_epoch,
    )


def speed(**changes: Any) -> dict[str, float]:
    """Return images per second after the first epoch, and peaks of memory, in it and later.

    The first epoch holds the warm-up and the capture. What is reserved is what others cannot have.
    """
    peaks: list[tuple[int, int]] = []

    def note_peaks(record: Any) -> None:
        peaks.append((torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()))
        torch.cuda.reset_peak_memory_stats()

    gc.collect()  # of the graph before
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    history = train_resnet(DEVICE, N_IMAGES, note_peaks, **changes)
    later = [record["samples_per_second"] for record in history[2:]]
    return {
        "images_per_second": round(max(later)),
        "first_epoch_seconds": round(history[0]["seconds"], 1),
        "peak_memory_gb": _gigabytes(allocated for allocated, _ in peaks),
        "peak_reserved_gb": _gigabytes(reserved for _, reserved in peaks),
        "later_memory_gb": _gigabytes(allocated for allocated, _ in peaks[1:]),
        "later_reserved_gb": _gigabytes(reserved for _, reserved in peaks[1:]),
    }


def _gigabytes(peaks: Iterable[int]) -> float:
    return round(max(peaks) / 1e9, 2)


def main() -> None:
    results: dict[str, Any] = {"same end": same_end()}
    print(results, flush=True)
    for name, changes in {
        "ResNet-18 as written": {"capture": False},
        "ResNet-18 captured": {},
        "ResNet-18 captured and compiled": {"compile": True},
    }.items():
        results[name] = speed(**changes)
        print(name, results[name], flush=True)
    write_record("gpu_training", results, n_runs=1, batch_size=512)


if __name__ == "__main__":
    main()
