"""Measure tasks per second, overhead of a run, speed-up and lost workers with Ray.

    python benchmarks/bench_ray.py [--data FOLDER] [--only tasks groups table killed]

One line of JSON per part, in ``results/ray.jsonl``. Figures of this process and of Ray are measured
in alternating order. With --data, a folder with the data sets of Table 1, runs are trained too.
"""

import argparse
import os
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from naysay._base.cluster import InProcess, RayExecutor, connect
from naysay.experiments.records import RecordFile
from naysay.experiments.runner import run
from naysay.experiments.suite import make_plan
from naysay.experiments.suites import find_suites
from record import write_record

N_TASKS, N_REPEATS = 500, 3


def burn(seconds: float) -> float:
    """Use a core for some seconds of its time, and return how long that took."""
    start, before = time.perf_counter(), time.process_time()
    while time.process_time() - before < seconds:
        sum(range(10_000))
    return time.perf_counter() - start


def tasks() -> dict[str, float]:
    """Tasks that do nothing: how many a second."""
    list(RayExecutor().map(abs, range(20)))  # starts the workers
    start = time.perf_counter()
    list(RayExecutor().map(abs, range(N_TASKS)))
    return {"tasks_per_second": round(N_TASKS / (time.perf_counter() - start), 1)}


def groups(seconds: float = 10.0) -> dict[str, float]:
    """Cost of a group of runs: what a task takes beyond the time that it works."""
    executor = RayExecutor(cpus=2)  # one at a time
    list(executor.map(burn, [0.0]))
    beyond = []
    for _ in range(N_REPEATS):
        start = time.perf_counter()
        ((_, inside),) = executor.map(burn, [seconds])
        beyond.append(time.perf_counter() - start - inside)
    overhead = statistics.median(beyond)
    return {"overhead_seconds": round(overhead, 4), "share_of_10_s": round(overhead / seconds, 5)}


def table(data: Path, pattern: str = "*", repeats: int = 1) -> dict[str, object]:
    """Table 1, quick: seconds in this process and with two workers, in alternating order."""
    plan = make_plan(find_suites(["table1"]), "quick", trials=None, only=pattern)
    found: dict[str, list[float]] = {"one_process": [], "two_workers": []}
    list(RayExecutor().map(abs, range(20)))
    for repeat in range(repeats):
        order = (("one_process", InProcess()), ("two_workers", RayExecutor()))
        for name, executor in order if repeat % 2 == 0 else order[::-1]:
            with tempfile.TemporaryDirectory() as folder:
                file, start = RecordFile(Path(folder, "r.jsonl")), time.perf_counter()
                summary = run(plan.cells, file, device="cpu", data_dir=data, executor=executor)
                found[name].append(round(time.perf_counter() - start, 1))
                assert summary.n_done == len(plan.cells), summary
    ratio = statistics.median(found["one_process"]) / statistics.median(found["two_workers"])
    return {**found, "runs": len(plan.cells), "speed_up": round(ratio, 2)}


def kill_workers(stop: threading.Event, killed: list[int], n: int) -> None:
    """Kill a worker of this process's own Ray that is at a run, n times."""
    while not stop.is_set() and len(killed) < n:
        time.sleep(1.0)
        for child in psutil.Process().children(recursive=True):
            try:
                if child.cmdline()[:1] == ["ray::call"]:
                    os.kill(child.pid, signal.SIGKILL)
                    killed.append(child.pid)
                    break
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue


def killed(data: Path, pattern: str, n: int = 10) -> dict[str, object]:
    """Kill workers in the middle of runs: records that are lost or doubled."""
    plan = make_plan(find_suites(["table1"]), "quick", trials=None, only=pattern)
    stop, victims = threading.Event(), []
    with tempfile.TemporaryDirectory() as folder:
        file = RecordFile(Path(folder, "r.jsonl"))
        thread = threading.Thread(target=kill_workers, args=(stop, victims, n))
        thread.start()
        executor = RayExecutor(retries=20)
        summary = run(plan.cells, file, device="cpu", data_dir=data, executor=executor)
        stop.set()
        thread.join()
        counts = Counter(record.spec.hash for record in file.read())
    expected = {spec.hash for spec in plan.cells}
    return {
        "killed": len(victims),
        "runs": len(expected),
        "lost": len(expected - counts.keys()),
        "doubled": sum(count > 1 for count in counts.values()),
        "refused": sum(map(len, summary.refused.values())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pattern", default="*", help="cells of Table 1")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=["tasks", "groups", "table", "killed"])
    given = parser.parse_args()
    with connect("local"):
        parts = {"tasks": tasks, "groups": groups}
        if given.data is not None:
            parts["table"] = lambda: table(given.data, given.pattern, given.repeats)
            parts["killed"] = lambda: killed(given.data, given.pattern)
        for name in given.only:
            if name in parts:
                results = parts[name]()
                print(name, results, flush=True)
                write_record("ray", {name: results}, n_runs=1, cells=given.pattern)


if __name__ == "__main__":
    main()
