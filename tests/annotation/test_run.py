"""The process of the server: where it listens, what it announces, how it ends, and its learner."""

import asyncio
import signal
import socket
import sys
import threading
import time

import httpx
import pytest

from naysay import InvalidInput
from naysay.annotation import retraining, run
from naysay.annotation.questions import Item, Settings
from naysay.annotation.retraining import Learner
from naysay.annotation.store import Task, create


@pytest.fixture
def task(tmp_path):
    items = [Item(str(n), {"x": n}) for n in range(1, 9)]
    create(tmp_path / "task.db", Settings.of(["ash", "elm", "fir"]), items)
    with Task(tmp_path / "task.db") as opened:
        yield opened


def serve_until(task, use, stop=signal.SIGTERM, **options):
    """Serve a task, call `use` with what was announced, and stop by a signal."""
    announced, problems = [], []

    def visit():
        try:
            use(*announced)
        except BaseException as problem:
            problems.append(problem)
        finally:
            signal.pthread_kill(threading.main_thread().ident, stop)

    def announce(*said):
        announced.extend(said)
        threading.Thread(target=visit).start()

    options = {"host": "127.0.0.1", "port": 0, "name": "me", **options}
    run.serve(task, announce=announce, **options)
    if problems:
        raise problems[0]
    return announced


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_orderly_and_it_opens_a_browser(task, monkeypatch, stop):
    opened = []
    monkeypatch.setattr(run.webbrowser, "open", opened.append)
    before = signal.getsignal(stop)

    def use(page, overview, is_here):
        assert is_here
        assert len(httpx.get(f"{page}/api/next").json()["questions"]) == 8
        assert "Overview" in httpx.get(overview).text

    page, _, _ = serve_until(task, use, stop, opens=True)
    assert opened == [page]
    assert task.address() == page
    assert signal.getsignal(stop) is before
    with pytest.raises(httpx.ConnectError):
        httpx.get(page)


def test_other_hosts_get_links_with_tokens(task):
    def use(page, overview, is_here):
        assert not is_here
        assert f"http://{socket.gethostname()}:" in page
        port, token = page.split(":")[2].split("/")[0], page.partition("token=")[2]
        here = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{here}/api/next").status_code == 403  # also from this machine
        with httpx.Client(base_url=here) as owner:
            assert owner.get("/owner", params={"token": token}).status_code == 200
            assert owner.get("/api/owner").json()["n_wanted"] == 8
        assert overview == page.replace("/?", "/owner?")

    serve_until(task, use, host="0.0.0.0")


def test_an_address_of_another_machine_and_a_used_port_are_refused(task):
    with pytest.raises(InvalidInput, match=r"must be an address of this machine.*nowhere"):
        serve_until(task, print, host="nowhere.invalid")
    with pytest.raises(InvalidInput, match=r"must be an address of this machine"):
        serve_until(task, print, host="x" * 70)
    with pytest.raises(InvalidInput, match=r"Cannot listen at 192.0.2.1, port 0"):
        serve_until(task, print, host="192.0.2.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"Port {port} is in use"):
            serve_until(task, print, port=port)


async def _until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


def test_the_problem_of_a_process_that_could_not_learn_is_shown(task, tmp_path):
    async def learn():
        learner = Learner(task)
        learner.task.target = str(tmp_path / "missing.db")
        await learner.start()
        process = learner.process
        assert learner.state() == {"runs": True, "problem": None}
        await learner.start()  # one at a time
        assert learner.process is process
        await _until(lambda: not learner.state()["runs"])
        return learner.state()["problem"]

    problem = asyncio.run(learn())
    assert problem.startswith("There is no database")
    assert "\n" not in problem


def test_it_learns_again_while_there_are_new_answers(task, monkeypatch):
    # A script in place of the command, which would load torch.
    monkeypatch.setattr(retraining, "_LEARN", ("-c", "pass"))
    starts = []

    class Counted(Learner):
        async def start(self):
            await super().start()
            starts.append(self.process)

    async def learn():
        learner = Counted(task)
        schedule = asyncio.create_task(learner.every(1e-4))
        who = task.local_person("me").id
        for n, question in enumerate(await asyncio.to_thread(task.deal, who, 2)):
            await asyncio.sleep(0.05)
            assert len(starts) == n  # no new answers
            given = {"id": f"1234567{n}", "deal": question.deal, "said": "unknown"}
            await asyncio.to_thread(task.answer, who, given)
            await _until(lambda n=n: len(starts) == n + 1 and learner.process is None)
        schedule.cancel()
        assert learner.problem is None

    asyncio.run(learn())


def test_the_button_learns_and_a_server_that_ends_takes_its_process_along(task, monkeypatch):
    monkeypatch.setattr(retraining, "_LEARN", ("-c", "import time; time.sleep(60)"))
    processes = []
    start = asyncio.create_subprocess_exec

    async def noted(*command, **options):
        assert command == (sys.executable, "-c", "import time; time.sleep(60)", task.target)
        processes.append(await start(*command, **options))
        return processes[0]

    monkeypatch.setattr(retraining.asyncio, "create_subprocess_exec", noted)

    def use(page, overview, is_here):
        said = httpx.post(f"{page}/api/owner/learn", json={}, headers={"x-naysay": "1"}).json()
        assert said == {"runs": True, "problem": None}
        assert httpx.get(f"{page}/api/owner").json()["learning"]["runs"]

    serve_until(task, use, learn_every=1000)
    assert processes[0].returncode == -signal.SIGTERM
