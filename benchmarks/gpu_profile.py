"""Profile a training step: kernels, an idle GPU, or the program between them.

    python benchmarks/gpu_profile.py [--device cpu] [--steps 200] [--compile]

Trains five LeNet-5 at once (batch 128) and ResNet-18 (batch 512), in bfloat16 on a GPU, for three
epochs of so many steps, on random images: the first warms up and captures, the second is timed, the
third is profiled. Writes a page for each to results/profile_<device>.txt.
"""

import argparse
import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from bench_ensemble import make_members
from gpu_training import train_resnet
from naysay.ensemble import fit_many
from naysay.experiments.runner import cpu_name, now, used_versions
from naysay.networks import LeNet5
from naysay.training import seeded

RESULTS = Path(__file__).parent / "results"
N_LISTED = 12
#: In these the program waits for the GPU; all else that it does keeps the GPU waiting.
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")

OnEpoch = Callable[[Any], None]


class Watch:
    """Called after each epoch: times the second and profiles the third."""

    def __init__(self, device: torch.device) -> None:
        kinds = [ProfilerActivity.CPU]
        kinds += [ProfilerActivity.CUDA] if device.type == "cuda" else []
        self.device = device
        self.profile = profile(activities=kinds)
        self.times: list[float] = []

    def __call__(self, record: Any) -> None:
        """Take in that an epoch is over."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        if len(self.times) == 2:
            self.times.append(time.perf_counter())
            self.profile.__exit__(None, None, None)
            return
        if len(self.times) == 1:
            self.profile.__enter__()
        self.times.append(time.perf_counter())

    def page(self, n_steps: int) -> str:
        """Return what was seen, in microseconds a step."""
        plain, profiled = (
            1e6 * (end - start) / n_steps
            for start, end in zip(self.times, self.times[1:], strict=False)
        )
        lines = [
            f"a step                       {plain:10.1f} µs",
            f"  while profiled             {profiled:10.1f} µs",
        ]
        events: list[Any] = [e for e in self.profile.events() or [] if not e.is_user_annotation]
        on_gpu = [event for event in events if event.device_type == DeviceType.CUDA]
        called = [event for event in events if event.device_type == DeviceType.CPU]
        if self.device.type == "cuda":
            busy = covered((e.time_range.start, e.time_range.end) for e in on_gpu) / n_steps
            waits = _total(called, lambda name: name in WAITS) / n_steps
            launches = _total(called, lambda name: "GraphLaunch" in name) / n_steps
            n_kernels = len(on_gpu) / n_steps
            lines += [
                f"  the GPU works              {busy:10.1f} µs, {n_kernels:.0f} kernels",
                f"  the GPU is idle            {1 - busy / profiled:10.0%}",
                f"  the program waits for it   {waits:10.1f} µs",
                f"  the program launches graphs{launches:10.1f} µs",
                f"  the program does the rest  {profiled - waits - launches:10.1f} µs",
            ]
        lines += ["", f"{'µs a step':>10} {'calls':>6}  kernel"]
        taken: Counter[str] = Counter()
        calls: Counter[str] = Counter()
        for event in on_gpu or called:
            spent = event.time_range.elapsed_us() if on_gpu else event.self_cpu_time_total
            taken[event.name] += spent
            calls[event.name] += 1
        for name, spent in taken.most_common(N_LISTED):
            lines.append(f"{spent / n_steps:10.1f} {calls[name] / n_steps:6.1f}  {name[:100]}")
        return "\n".join(lines)


def covered(ranges: Iterable[tuple[float, float]]) -> float:
    """Return for how long at least one of the ranges lasts.

    >>> covered([(0, 2), (5, 6), (1, 3)])
    4
    """
    total = last = 0
    for start, end in sorted(ranges):
        total += max(0, end - max(start, last))
        last = max(last, end)
    return total


def _total(events: list[Any], is_meant: Callable[[str], bool]) -> float:
    return sum(event.time_range.elapsed_us() for event in events if is_meant(event.name))


def lenets(
    device: torch.device, n_steps: int, size: int, on_epoch: OnEpoch, *, compiled: bool
) -> None:
    n = n_steps * size
    X = torch.randint(256, (n, 1, 28, 28), dtype=torch.uint8, device=device)
    true = torch.randint(10, (n,)).numpy()
    members = make_members(
        partial(LeNet5, (1, 28, 28), 10),
        X,
        true,
        n_trials=5,
        settings=[(1e-3, 1e-4)],
        n_held_out=0,
        epochs=3,
        batch_size=size,
        bfloat16=device.type == "cuda",
        compile=compiled,
    )
    fit_many([replace(each, held_out=None) for each in members], on_epoch=on_epoch)


def resnet(
    device: torch.device, n_steps: int, size: int, on_epoch: OnEpoch, *, compiled: bool
) -> None:
    options = {"epochs": 3, "batch_size": size, "compile": compiled}
    train_resnet(device, n_steps * size, on_epoch, **options)


def main(arguments: list[str] | None = None) -> Path:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, help="of both, for a try on a CPU")
    parser.add_argument("--compile", action="store_true", help="the networks first")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    device = torch.device(given.device)
    on_gpu = device.type == "cuda"
    machine = torch.cuda.get_device_name(device) if on_gpu else cpu_name()
    pages = [f"{now()}, {machine}, torch {used_versions(('torch',))['torch']}, {given.steps} steps"]
    compiled = ", compiled" if given.compile else ""
    for name, work, size in (
        (f"5 LeNet-5 at once{compiled}", lenets, given.batch_size or 128),
        (f"ResNet-18{compiled}", resnet, given.batch_size or 512),
    ):
        watch = Watch(device)
        if on_gpu:
            gc.collect()  # of the graph before
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        with seeded(0, device):
            work(device, given.steps, size, watch, compiled=given.compile)
        memory = ""
        if on_gpu:
            peaks = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
            memory = "\npeak memory: {:.2f} GB allocated, {:.2f} GB reserved".format(
                *(each / 1e9 for each in peaks)
            )
        pages.append(f"{name}, batches of {size}{memory}\n{watch.page(given.steps)}")
    text = "\n\n".join(pages) + "\n"
    print(text)
    path = given.folder / f"profile_{device.type}.txt"
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
