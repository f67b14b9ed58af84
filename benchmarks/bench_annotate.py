"""An annotation task under load: answers per second, kills, the first page, and a large export.

    python benchmarks/bench_annotate.py [load|kills|first|export] [--database URL] [--seconds 60]

Without a word, all four are measured. ``load`` answers as 50 annotators over HTTP, each with the
next question as soon as the answer is acknowledged. ``kills`` ends the server with SIGKILL while 10
annotators answer. With a URL of an empty PostgreSQL database, load and kills run there.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from naysay.annotation.questions import Item, Settings
from naysay.annotation.store import Task, create
from record import write_record

CLASSES = ("cat", "dog", "owl", "fox", "hen")


class Annotator:
    """A person who answers over one connection, as the page does."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.acknowledged: dict[str, int] = {}  # answer id: deal
        self.seconds: list[float] = []
        self.seen: list[int] = []
        self.errors: list[str] = []
        self.reader: Any = None

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = b"" if body is None else json.dumps(body).encode()
        cookie = f"cookie: naysay_{self.port}={self.token}\r\n"
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nx-naysay: 1\r\n{cookie}"
            f"content-length: {len(data)}\r\n\r\n".encode()
            + data
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.splitlines()
            if line.lower().startswith(b"content-length")
        )
        answer = await self.reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head.splitlines()[0]!r} {answer[:200]!r}")
        return json.loads(answer)

    async def answer(self, until: float, *, retries: bool = False) -> None:
        questions: list[Any] = []
        while time.monotonic() < until:
            try:
                if not questions:
                    found = (await self.request("GET", "/api/next"))["questions"]
                    questions = [each for each in found if each["deal"] not in self.seen]
                    if not questions:
                        await asyncio.sleep(0.2)
                        continue
                question = questions.pop(0)
                body = {"id": str(uuid.uuid4()), "deal": question["deal"], "said": "not"}
                body |= {"label": question["offered"][0], "seconds": 1.0}
                body["want"] = 0 if len(questions) > 4 else 10
                start = time.monotonic()
                said = await self.request("POST", "/api/answer", body)
                self.seconds.append(time.monotonic() - start)
                if said["status"] == "saved":
                    self.acknowledged[body["id"]] = question["deal"]
                self.seen.append(question["deal"])
                have = {each["deal"] for each in questions} | set(self.seen[-60:])
                questions += [each for each in said["questions"] if each["deal"] not in have]
            except (OSError, asyncio.IncompleteReadError, RuntimeError) as error:
                self.reader = None
                if not retries:
                    self.errors.append(repr(error))
                await asyncio.sleep(0.05)


def start_server(target: str, *words: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "naysay", "annotate", target, "--port", "0", *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("Answer questions"):
            return server, int(line.strip().rpartition(":")[2])
    raise RuntimeError("the server did not start")


def make_task(target: str, n_items: int) -> None:
    items = [Item(str(n), {"x": n}) for n in range(n_items)]
    create(target, Settings.of(CLASSES, known_rate=0.0), items)


def check(target: str, people: list[Annotator]) -> dict[str, int]:
    """Compare what was acknowledged with what is in the database."""
    acknowledged = {key for each in people for key in each.acknowledged}
    with Task(target) as task:
        rows = list(task.answers())
    saved = Counter(row["id"] for row in rows)
    per_item = Counter(row["item"] for row in rows)
    return {
        "acknowledged": len(acknowledged),
        "lost": len(acknowledged - saved.keys()),
        "doubled": sum(n - 1 for n in saved.values()),
        "dealt_twice": sum(n - 1 for n in per_item.values()),
    }


def measure_load(target: str, seconds: float, n_people: int = 50) -> dict[str, Any]:
    make_task(target, 100_000)
    with Task(target) as task:
        tokens = [task.invite(f"p{n}") for n in range(n_people)]
    server, port = start_server(target)
    people = [Annotator(port, token) for token in tokens]

    async def run() -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(each.answer(until) for each in people))

    asyncio.run(run())
    server.send_signal(signal.SIGINT)
    server.wait()
    times = np.array([value for each in people for value in each.seconds])
    return {
        "annotators": n_people,
        "seconds": seconds,
        "answers_per_second": round(len(times) / seconds, 1),
        "p50_ms": round(1000 * float(np.quantile(times, 0.5)), 1),
        "p99_ms": round(1000 * float(np.quantile(times, 0.99)), 1),
        "errors": sum(len(each.errors) for each in people),
        **check(target, people),
    }


def measure_kills(target: str, n_kills: int, n_people: int = 10) -> dict[str, Any]:
    make_task(target, 50_000)
    with Task(target) as task:
        tokens = [task.invite(f"p{n}") for n in range(n_people)]
    people = [Annotator(0, token) for token in tokens]
    rng = np.random.default_rng(0)
    for _ in range(n_kills):
        server, port = start_server(target)
        for each in people:
            each.port, each.reader = port, None
        wait = 0.2 + float(rng.random())

        async def run(server: Any = server, wait: float = wait) -> None:
            async def kill() -> None:
                await asyncio.sleep(wait)
                os.kill(server.pid, signal.SIGKILL)

            until = time.monotonic() + wait + 0.1
            await asyncio.gather(kill(), *(each.answer(until, retries=True) for each in people))

        asyncio.run(run())
        server.wait()
    return {"kills": n_kills, "annotators": n_people, **check(target, people)}


def measure_first_page(folder: Path) -> dict[str, Any]:
    from PIL import Image

    photos = folder / "photos"
    photos.mkdir()
    Image.new("RGB", (64, 64), (9, 99, 199)).save(folder / "one.png")
    content = (folder / "one.png").read_bytes()
    for n in range(10_000):
        (photos / f"{n:05}.png").write_bytes(content)
    taken = []
    for n in range(3):
        start = time.perf_counter()
        words = ("--classes", "cat,dog,owl", "--out", str(folder / f"first{n}.db"))
        server, port = start_server(str(photos), *words)
        url = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(url).read()
        found = json.load(urllib.request.urlopen(f"{url}/api/next"))
        urllib.request.urlopen(f"{url}/api/image/{found['questions'][0]['item']}").read()
        taken.append(time.perf_counter() - start)
        server.kill()
        server.wait()
    return {"images": 10_000, "seconds": round(float(np.median(taken)), 2)}


def measure_export(folder: Path, n_answers: int = 1_000_000) -> dict[str, Any]:
    import sqlite3

    path = folder / "million.db"
    make_task(str(path), n_answers)
    with Task(path) as task:
        task.local_person("me")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        numbers = range(1, n_answers + 1)
        rows = ((n, n, 1, "which", "[0,1,2,3,4]", "random", 1.0, 0.0, 1) for n in numbers)
        connection.executemany("INSERT INTO naysay_deal VALUES (?,?,?,?,?,?,?,?,?)", rows)
        rows = ((str(uuid.uuid4()), n, "not", n % 5, 1.5, 1.7e9 + n, None) for n in numbers)
        connection.executemany("INSERT INTO naysay_answer VALUES (?,?,?,?,?,?,?)", rows)
    found: dict[str, Any] = {"answers": n_answers}
    for kind in ("csv", "jsonl", "parquet"):
        code = (
            "import sys, time; from naysay.annotation.store import Task; "
            "from naysay.annotation.exports import export; start = time.perf_counter(); "
            "n = export(Task(sys.argv[1]), sys.argv[2]); "
            "seconds = time.perf_counter() - start; "  # ru_maxrss would be that of this process
            "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]; "
            "print(n, seconds, int(peak) / 1000)"
        )
        command = [sys.executable, "-c", code, str(path), str(folder / f"answers.{kind}")]
        n, seconds, megabytes = subprocess.check_output(command, text=True).split()
        assert int(n) == n_answers
        found[kind] = {"seconds": round(float(seconds), 1), "megabytes": round(float(megabytes))}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["load", "kills", "first", "export"])
    parser.add_argument("--database", help="URL of an empty PostgreSQL database")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=100)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.what in (None, "load"):
            results["load"] = measure_load(given.database or str(folder / "load.db"), given.seconds)
        if given.what in (None, "kills"):
            results["kills"] = measure_kills(
                given.database or str(folder / "kills.db"), given.kills
            )
        if given.what in (None, "first"):
            results["first_page"] = measure_first_page(folder)
        if given.what in (None, "export"):
            results["export"] = measure_export(folder)
    print(json.dumps(results, indent=1))
    write_record("annotate", results, database="PostgreSQL" if given.database else "SQLite")


if __name__ == "__main__":
    main()
