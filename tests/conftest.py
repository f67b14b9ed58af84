"""Settings and fixtures that all tests share."""

import contextlib
import functools
import gc
import http.server
import importlib
import os
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

# The tests' networks and tables are small, and several processes share the cores: with a second
# thread each, the libraries for linear algebra spend most of the time waiting for one another.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
from hypothesis import settings

import naysay
from naysay.datasets.official import text
from naysay.datasets.official.entry import Download, FoundFile, OfficialFile
from naysay.datasets.official.registry import REGISTRY
from places import SHARED
from small_table import FILES

# Hypothesis tries the same examples in every run, so that a test that fails in CI fails here too.
# With NAYSAY_EXPLORE=1 it draws new examples. No example has a deadline: machines may be busy.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile("exploring" if "NAYSAY_EXPLORE" in os.environ else "repeatable")

# Python imports it in the workers of a cluster, where it replaces a function.
collect_ignore = ["support/ray_workers"]

# A file of tests runs in one process, so that its fixtures are made once. The slowest come first,
# so that no process is left with one of them at the end.
SLOW_FILES = (
    *("test_ray.py", "test_docs.py", "test_wrapper.py", "test_transition_estimate.py"),
    *("test_export.py", "test_models.py", "test_annotators.py", "test_files_faults.py"),
    *("test_processes.py", "test_page.py", "test_compiled.py", "test_contributing.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_collection_finish() -> None:
    """Exempt what was imported from garbage collection, which would visit it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def pytest_runtest_setup() -> None:
    """Let tests that draw from the generators of numpy and torch draw the same in every run."""
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Let Python, and the processes that are started, run at full speed, unseen by coverage."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        with mock.patch.dict(os.environ):
            os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
            yield
    finally:
        sys.settrace(trace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Leave `unmeasured` tests, with the fixtures that are made for them, to themselves."""
    with unmeasured() if item.get_closest_marker("unmeasured") else contextlib.nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect at full speed, after coverage has seen all modules being imported."""
    if sys.gettrace() is not None:
        for module in pkgutil.walk_packages(naysay.__path__, "naysay."):
            importlib.import_module(module.name)
    with unmeasured():
        return (yield)


USERS_DATA = os.environ.get("NAYSAY_DATA")
SHARED_DATA = SHARED / "data"


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Leave files to the cache of the system: no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def no_data_of_the_user(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide the data folder of the user who runs the tests."""
    monkeypatch.setenv("NAYSAY_DATA", str(tmp_path_factory.mktemp("data-folder")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user-cache")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="session")
def users_data() -> Path | None:
    """The data folder of the user who runs the tests, if it is set."""
    return Path(USERS_DATA) if USERS_DATA else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real copies of data sets beside the repository."""
    if not (SHARED_DATA / "unpack.py").is_file():
        pytest.skip(f"real copies of the data sets are not at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def official_data(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the real MNIST, USPS and UCI files."""
    folder = tmp_path_factory.mktemp("official")
    command = [sys.executable, str(shared_data / "unpack.py"), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    for path in folder.rglob("*"):  # the copies are read-only, and pytest must remove them
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.fixture
def found() -> Callable[..., FoundFile]:
    """Make found files, for tests that call a reader directly."""

    def make(path: Path, **official: Any) -> FoundFile:
        return FoundFile("mnist", OfficialFile(path.name, **official), path)

    return make


@dataclass
class Server:
    """A web server for the files of a folder.

    `headers` are sent with every response. The connection breaks in the middle of a file under
    ``cut/``, whose size is stated if `states_size` is true.
    """

    folder: Path
    url: str = ""
    requests: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    states_size: bool = True


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve the folder `server.folder` on this machine."""
    served = Server(tmp_path / "served")
    (served.folder / "cut").mkdir(parents=True)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its own name)
            served.requests.append(self.path)

        def end_headers(self) -> None:
            for name, value in served.headers.items():
                self.send_header(name, value)
            super().end_headers()

        def do_GET(self) -> None:
            if not self.path.startswith("/cut/"):
                super().do_GET()
                return
            whole = Path(self.translate_path(self.path)).read_bytes()
            self.send_response(200)
            if served.states_size:
                self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole[: len(whole) // 2])

    handler = functools.partial(Handler, directory=os.fspath(served.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{running.server_address[1]}"
        yield served
        running.shutdown()
        thread.join(timeout=5)


@pytest.fixture
def files_under() -> Callable[[Path], list[str]]:
    """List all files below a folder, including hidden ones."""
    return lambda folder: sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data folder of a test, which does not exist yet."""
    return tmp_path / "data"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Register a small table as waveform1 with the given downloads."""

    def put(*downloads: Download, files: tuple[OfficialFile, ...] = FILES) -> None:
        layout = text.TextLayout(1, (0, 1, 2))
        entry = replace(
            REGISTRY["waveform1"],
            files=files,
            downloads=downloads,
            reader=functools.partial(text.read_tables, layout=layout),
        )
        monkeypatch.setitem(REGISTRY, "waveform1", entry)

    return put
