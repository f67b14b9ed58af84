"""Measure the wheel of `make dist`: its size, and how long the first import and command take.

``python benchmarks/bench_package.py dist/naysay-….whl`` imports the package that is installed.
"""

import statistics
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from record import write_record

N_RUNS = 11
TIMED = {
    "python alone": ["-c", "pass"],
    "import naysay": ["-c", "import naysay"],
    "import of the classifier": ["-c", "from naysay import ComplementaryClassifier"],
    "naysay --version": ["-m", "naysay", "--version"],
    "naysay fit --help": ["-m", "naysay", "fit", "--help"],
}


def seconds(arguments):
    """Return the median over fresh processes; the first run, which fills caches, does not count."""
    times = []
    for _ in range(N_RUNS + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return round(statistics.median(times[1:]), 3)


if __name__ == "__main__":
    wheel = Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as opened:
        sizes = [each.file_size for each in opened.infolist()]
    results = {
        "wheel_kb": round(wheel.stat().st_size / 1000),
        "files": len(sizes),
        "unpacked_kb": round(sum(sizes) / 1000),
        "seconds": {name: seconds(arguments) for name, arguments in TIMED.items()},
    }
    print(results)
    write_record("package", results, n_runs=N_RUNS, statistic="median")
