"""Serve a task on a port until it is stopped: socket, signals and the regular training."""

import asyncio
import errno
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from naysay._base.errors import InvalidInput
from naysay.annotation.server import Server, is_loopback
from naysay.annotation.store import Task


def serve(
    task: Task,
    *,
    host: str,
    port: int,
    name: str,
    learn_every: float = 0.0,
    announce: Callable[[str, str, bool], None],
    opens: bool = False,
) -> None:
    """Serve the pages of a task until Ctrl-C or SIGTERM.

    People on other machines need links with tokens. `announce` is called with the address of the
    page, the address of the overview, and whether only this machine can reach them.
    """
    sockets = _listen(host, port)
    port = sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    is_here = is_loopback(host)
    if host in ("0.0.0.0", "::"):
        shown = socket.gethostname()
    address = f"http://{shown}:{port}"
    task.remember(address)
    local = task.local_person(name)
    link = address
    if not is_here:
        link = f"{address}/?token={task.invite(name, is_owner=True)}"
    server = Server(task, local=local if is_here else None, port=port)
    overview = link.replace("/?", "/owner?") if "?" in link else f"{link}/owner"
    config = uvicorn.Config(
        server.app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        loop="asyncio",
        http="h11",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    running = uvicorn.Server(config)
    with _stopped_by_signals(running):
        announce(link, overview, is_here)
        if opens:
            webbrowser.open(link)
        asyncio.run(_run(running, sockets, server, learn_every))


@contextmanager
def _stopped_by_signals(running: uvicorn.Server) -> Generator[None]:
    """Stop the server cleanly on signals, which uvicorn would raise again after stopping."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        each: signal.signal(each, lambda *_: setattr(running, "should_exit", True))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


async def _run(
    running: uvicorn.Server, sockets: list[socket.socket], server: Server, learn_every: float
) -> None:
    schedule = asyncio.create_task(server.learner.every(learn_every)) if learn_every else None
    try:
        await running.serve(sockets)
    finally:
        if schedule is not None:
            schedule.cancel()
        await server.learner.stop()


def _listen(host: str, port: int) -> list[socket.socket]:
    """Open the port, or raise a clear error if another program uses it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, ValueError):  # or a name that is too long, for instance
        raise InvalidInput(
            f"host (--host) must be an address of this machine. Got {host!r}."
        ) from None
    family, kind, protocol, _, place = found[0]
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(place)
        opened.listen(1024)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(
                f"Port {port} is in use by another program, or by another naysay annotate. Choose "
                f"another one: --port {port + 1 if port < 65535 else 0}"
            ) from None
        raise InvalidInput(f"Cannot listen at {host}, port {port}: {error.strerror}.") from None
    opened.setblocking(False)
    return [opened]
