"""Run independent jobs on the processes and machines of a Ray cluster.

Ray is an extra, ``naysay[ray]``, and only this module imports it.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import Any, Protocol, TypeVar

from naysay._base.errors import InvalidInput, NaysayError, WorkerLost

Job = TypeVar("Job")
Result = TypeVar("Result")

_PATIENCE = 1.0  # seconds after which nodes that joined or left are counted again
_CONNECTED_WITHIN = 10.0  # seconds
_ends_soon = threading.Event()  # whether `connect` has started this cluster, which it will end


class Executor(Protocol):
    """Interface of classes that run independent jobs, in this process or elsewhere."""

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | NaysayError]]:
        """Call the function with each job, and yield job and result as they are done."""
        ...


class InProcess:
    """Runs one job after the other in this process."""

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | NaysayError]]:
        """Call the function with each job, and yield job and result."""
        return ((job, function(job)) for job in jobs)


class RayExecutor:
    """Runs jobs as tasks of the Ray cluster that this process is connected to.

    Jobs are taken one by one, so that several drivers can share them: as many at a time as the
    cluster has room for, and one that waits, so that no worker is idle while a result is recorded.
    If a worker is lost, because its process or its machine dies, its job is run again elsewhere.

    Parameters
    ----------
    cpus, gpus : float, default=1, 0
        What each job needs. Ray starts only as many jobs as there are free, shows a job only its
        own GPUs, and limits the threads of numerical libraries to its CPUs.
    retries : int, default=3
        How often a job whose worker was lost is run again. After that, its result is `WorkerLost`.
    on_lost : callable, optional
        Receives a sentence for each job that is run again.

    Examples
    --------
    >>> import ray  # doctest: +SKIP
    >>> ray.init()  # doctest: +SKIP
    >>> dict(RayExecutor().map(abs, [-1, 2]))  # doctest: +SKIP
    {-1: 1, 2: 2}
    """

    def __init__(
        self,
        *,
        cpus: float = 1,
        gpus: float = 0,
        retries: int = 3,
        on_lost: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.cpus, self.gpus, self.retries, self.on_lost = cpus, gpus, retries, on_lost

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | NaysayError]]:
        """Call the function with each job, and yield job and result as they are done.

        An error of the function is raised here, and the jobs that are running are cancelled.
        """
        ray = _import_ray()
        if not ray.is_initialized():
            raise InvalidInput("To run jobs on Ray, connect to it first, by ray.init().")
        total = ray.cluster_resources()
        for name, wanted in (("CPU", self.cpus), ("GPU", self.gpus)):
            if wanted > total.get(name, 0):
                raise InvalidInput(
                    f"The Ray cluster must have {wanted:g} {name}s for each job. It has "
                    f"{total.get(name, 0):g}."
                )

        def call(function: Callable[[Job], Result], job: Job) -> Result:
            return function(job)

        kept = ray.put(function)  # with its data, which each machine receives once
        # Ray's own retries have no limit for a worker that took too much memory.
        task: Any = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)(call)
        waiting = iter(jobs)
        running: dict[Any, tuple[Job, int]] = {}  # each with the number of its retries
        try:
            while True:
                for job in islice(waiting, max(self.n_slots + 1 - len(running), 0)):
                    running[task.remote(kept, job)] = job, 0
                if not running:
                    return
                for reference in ray.wait(list(running), timeout=_PATIENCE)[0]:
                    job, n_retries = running.pop(reference)
                    try:
                        result = ray.get(reference)
                    except ray.exceptions.RayTaskError as error:
                        raise error.cause or error from None
                    except ray.exceptions.RayError as error:
                        says = f"Ray says: {_first_sentence(error)}."
                        if isinstance(error, ray.exceptions.LocalRayletDiedError):
                            raise WorkerLost(
                                f"Ray on this machine was lost. {says} Run the command again."
                            ) from None
                        if n_retries < self.retries:
                            self.on_lost(f"A worker was lost, and its job is run again. {says}")
                            running[task.remote(kept, job)] = job, n_retries + 1
                            continue
                        result = WorkerLost(
                            f"The worker of this job was lost {1 + self.retries} times. {says} "
                            "Does the job need more memory than the machine has?"
                        )
                    yield job, result
        finally:
            # Ray crashes if a task is cancelled whose worker has received Ctrl-C from the terminal.
            for reference in () if _ends_soon.is_set() else running:
                ray.cancel(reference, force=True)

    @property
    def n_slots(self) -> int:
        """Number of jobs that the cluster has room for, at least 1."""
        total = _import_ray().cluster_resources()
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        shares = [total.get(name, 0) / wanted for name, wanted in needs.items() if wanted]
        return max(1, int(min(shares, default=1)))


@contextmanager
def connect(address: str) -> Generator[None]:
    """Connect to a Ray cluster for the length of a block, unless this process is connected.

    Parameters
    ----------
    address : str
        As in ``ray.init``: ``"local"`` starts Ray on this machine, for as long as the block lasts;
        ``"auto"`` finds the cluster of this machine; or ``"host:port"``.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray prints what happens to workers on standard output; RayExecutor says what matters.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    ray = _import_ray()
    if ray.is_initialized():
        yield
        return
    local = {"num_cpus": os.cpu_count(), "include_dashboard": False} if address == "local" else {}
    try:
        with _interrupted_later():
            try:
                _check_reachable(address)
                ray.init(address, log_to_driver=False, logging_level="ERROR", **local)
            except Exception as error:  # those of Ray have no common class
                rule = "must be 'local', 'auto' or the address host:port of a Ray cluster that runs"
                if address == "local":
                    rule = "could not be started on this machine; if it is very busy, try again"
                raise InvalidInput(
                    f"ray (--ray) {rule}. Got {address!r}: {_first_sentence(error)}."
                ) from None
        if address == "local":
            _ends_soon.set()
        yield
    finally:
        _ends_soon.clear()
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Check that a machine answers at host:port; Ray itself waits minutes for one."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECTED_WITHIN).close()


@contextmanager
def _interrupted_later() -> Generator[None]:
    """Hold back the first Ctrl-C until the end of a block: Ray may crash if it cannot start up."""
    if threading.current_thread() is not threading.main_thread():  # which receives it
        yield
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def has_gpus() -> bool:
    """Check whether the cluster that this process is connected to has GPUs."""
    return _import_ray().cluster_resources().get("GPU", 0) > 0


def _first_sentence(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")


def _import_ray() -> Any:
    try:
        import ray  # an extra
        import ray.exceptions  # pyright: ignore[reportUnusedImport] - used as ray.exceptions
    except ModuleNotFoundError:
        raise InvalidInput(
            'To use a Ray cluster, install Ray: pip install "naysay[ray]".'
        ) from None
    return ray
