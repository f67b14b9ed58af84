"""Train a model on the answers of a task, in a process beside the server."""

import asyncio
import sys
from typing import Any

from naysay.annotation.store import Task

_LEARN = ("-m", "naysay", "annotate", "learn")  # the command, followed by the task


class Learner:
    """Runs a process that trains a model on the current answers."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.process: asyncio.subprocess.Process | None = None
        self.problem: str | None = None
        self.starting = asyncio.Lock()
        self.watcher: asyncio.Task[None] | None = None

    def state(self) -> dict[str, Any]:
        """Describe the process: whether it is running, and the error of the last run."""
        return {"runs": self.process is not None, "problem": self.problem}

    async def start(self) -> None:
        """Start the process unless it is running."""
        async with self.starting:
            if self.process is not None:
                return
            self.problem = None
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_LEARN,
                self.task.target,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            self.watcher = asyncio.create_task(self._watch(self.process))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        _, errors = await process.communicate()
        if process.returncode:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            self.problem = (lines or ["the process ended"])[-1].removeprefix("error: ")
        self.process = None

    async def every(self, minutes: float) -> None:
        """Start the process at regular intervals if there are new answers."""
        n_before = 0
        while True:
            await asyncio.sleep(60 * minutes)
            n_now = await asyncio.to_thread(lambda: self.task.progress(-1)["all"])
            if n_now > n_before:
                n_before = n_now
                await self.start()

    async def stop(self) -> None:
        """Terminate the process when the server stops."""
        if self.process is not None and self.watcher is not None:
            self.process.terminate()
            await self.watcher
