"""Run the command line on ten thousand randomly damaged files.

    python benchmarks/bench_damages.py

No traceback, no hang, no file outside --out: each fault is printed with its seed, and counted.
Appends one line to results/damages.jsonl. The tests run the first few of the same damages.
"""

import os
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from record import write_record

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from damages import KINDS, Kind, try_damage, write_whole

N_DAMAGES = 1000  # of each kind of file


def run(whole: Path, folder: Path, name: str, kind: Kind) -> dict[str, Any]:
    start = time.perf_counter()
    outcomes = []
    for seed in range(N_DAMAGES):
        outcomes.append(try_damage(whole, folder, kind, seed))
        for fault in outcomes[-1].faults:
            print(f"{name}, seed {seed}: {fault}", flush=True)
    n_refused = sum(each.is_refused for each in outcomes)
    figures = {
        "damaged": len(outcomes),
        "refused": n_refused,
        "no_matter": len(outcomes) - n_refused,
        "faults": sum(bool(each.faults) for each in outcomes),
        "seconds": round(time.perf_counter() - start, 1),
        "slowest_seconds": round(max(each.seconds for each in outcomes), 2),
    }
    print(f"{name}: {figures}", flush=True)
    return figures


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("error")  # what is only a warning here would be a line on the screen
    with tempfile.TemporaryDirectory() as scratch:
        whole, folder = Path(scratch, "whole"), Path(scratch, "damaged")
        whole.mkdir()
        write_whole(whole)
        shutil.copytree(whole, folder)
        os.chdir(folder)
        results = {name: run(whole, folder, name, kind) for name, kind in KINDS.items()}
        os.chdir(whole)
    total = {
        key: sum(each[key] for each in results.values())
        for key in ("damaged", "refused", "no_matter", "faults")
    }
    write_record("damages", {"all": total, **results}, threads=1)


if __name__ == "__main__":
    main()
