"""Run a list of commands, several at a time, on a machine that is available for some time.

    setsid nohup python benchmarks/gpu_queue.py JOBS LOG [--workers 3] [--until 1500] &

JOBS has a shell command on each line; lines may be added while it runs. ``90: command`` is not
started with less than 90 s left before the end, `--until` seconds after the start. The folder LOG
receives the output of each line, and ``queue.txt``: which worker started and ended what, and when.
A line that was started is not started again, so that another queue on the same LOG continues where
this one was stopped. With `setsid` it outlives the call that started it. Needs the standard library
only.
"""

import argparse
import re
import subprocess
import threading
import time
from pathlib import Path

PAUSE = 1.0  # seconds before a look for new lines


class Queue:
    """Lines of a file, each handed out once."""

    def __init__(self, jobs: Path, log: Path, until: float) -> None:
        self.jobs = jobs
        self.log = log
        self.until = until
        self.start = time.monotonic()
        self.lock = threading.Lock()

    def now(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.start

    def write(self, line: str) -> None:
        """Say what happens, with the time."""
        with self.lock, (self.log / "queue.txt").open("a", encoding="utf-8") as file:
            file.write(f"{self.now():.0f} s: {line}\n")

    def claim(self) -> tuple[int, str] | None:
        """Return the number and the command of the next line that can still be done."""
        with self.lock:
            lines = self.jobs.read_text("utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                needed, command = split(line)
                if not command or self.now() + needed > self.until:
                    continue
                try:
                    (self.log / f"claim.{number}").mkdir()
                except FileExistsError:
                    continue
                return number, command
        return None

    def work(self, worker: int) -> None:
        """Do what is to be done until the end."""
        while self.now() < self.until:
            job = self.claim()
            if job is None:
                time.sleep(PAUSE)
                continue
            number, command = job
            self.write(f"w{worker} begins {number}: {command}")
            began = self.now()
            with (self.log / f"{number}.txt").open("wb") as printed:
                done = subprocess.run(
                    command, shell=True, stdout=printed, stderr=subprocess.STDOUT, check=False
                )
            took = self.now() - began
            self.write(f"w{worker} ended {number} rc {done.returncode} after {took:.0f} s")


def split(line: str) -> tuple[float, str]:
    """Return the seconds that a line needs, and its command.

    >>> split("90: sleep 80"), split("sleep 80"), split("# later")
    ((90.0, 'sleep 80'), (0.0, 'sleep 80'), (0.0, ''))
    """
    if line.startswith("#"):
        return 0.0, ""
    match = re.match(r"(\d+):\s*(.*)", line)
    return (float(match[1]), match[2]) if match else (0.0, line.strip())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--until", type=float, default=1e9, help="seconds after the start")
    given = parser.parse_args()
    given.log.mkdir(parents=True, exist_ok=True)
    queue = Queue(given.jobs, given.log, given.until)
    workers = [
        threading.Thread(target=queue.work, args=(number,))
        for number in range(1, given.workers + 1)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
