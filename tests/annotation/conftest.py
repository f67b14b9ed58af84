"""Fixtures of the tests of annotation tasks: a server, a browser and PostgreSQL."""

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import threading
import time

import pytest
import uvicorn

from naysay._base import task_tables
from naysay.annotation.server import Server


@pytest.fixture(autouse=True)
def no_flush(monkeypatch):
    """Do not wait for the disk; that answers survive a kill does not need it."""
    monkeypatch.setattr(task_tables, "_SYNCHRONOUS", "OFF")


@contextlib.contextmanager
def running(task, port=0, local=True):
    """Serve a task in a thread; yield its address."""
    opened = socket.create_server(("127.0.0.1", port))
    # asyncio sets this for itself only where the protocol was named, as naysay annotate does
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = opened.getsockname()[1]
    app = Server(task, local=task.local_person("me") if local else None, port=port).app
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none", http="h11")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([opened])), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(timeout=10)
        opened.close()


@pytest.fixture
def serve():
    """Serve tasks, by a context manager."""
    return running


@pytest.fixture(scope="session")
def browser():
    """A real browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium with chromedriver on PATH")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The URL of a PostgreSQL server of its own, in a folder of its own."""
    found = shutil.which("initdb") or next(
        (
            f"{folder}/initdb"
            for folder in sorted(
                (f"/usr/lib/postgresql/{n}/bin" for n in range(30, 12, -1)), reverse=True
            )
            if os.path.exists(f"{folder}/initdb")
        ),
        None,
    )
    if found is None:
        pytest.skip("no PostgreSQL (initdb) on this machine")
    folder = tmp_path_factory.mktemp("postgres")
    prefix = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        user = next((name for name in ("postgres", "nobody") if _exists(name)), None)
        if user is None or shutil.which("setpriv") is None:
            pytest.skip("no user to run PostgreSQL as")
        shutil.chown(folder, user)
        for parent in folder.parents:
            if parent.stat().st_uid == 0 and parent.as_posix().startswith("/tmp/"):
                parent.chmod(0o755)
        ids = pwd.getpwnam(user)
        prefix = ["setpriv", f"--reuid={ids.pw_uid}", f"--regid={ids.pw_gid}", "--clear-groups"]
    binaries = os.path.dirname(os.path.realpath(found))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    data = str(folder / "data")
    run = {"check": True, "capture_output": True, "cwd": folder, "timeout": 120}
    subprocess.run([*prefix, found, "-D", data, "-U", "naysay", "-A", "trust", "-N"], **run)
    options = ["-p", str(port), "-k", str(folder), "-h", "127.0.0.1", "-F"]
    server = subprocess.Popen(
        [*prefix, f"{binaries}/postgres", "-D", data, *options],
        cwd=folder,
        stderr=subprocess.DEVNULL,
    )
    url = f"postgresql://naysay@127.0.0.1:{port}/postgres"
    import psycopg

    for _ in range(300):
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
            break
        time.sleep(0.1)
    yield url
    server.terminate()
    server.wait(timeout=30)


def _exists(name):
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name) is not None
    return False
