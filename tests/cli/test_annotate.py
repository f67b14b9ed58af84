"""``naysay annotate``: tasks from the command line, and what is refused."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import uuid

import pytest
from typer.testing import CliRunner

from naysay.annotation.store import Task
from naysay.cli import app


def run(*words, code=0):
    done = CliRunner().invoke(app, ["annotate", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def served(monkeypatch):
    """Do not serve; note what would be."""
    noted = []
    from naysay.annotation import serving

    monkeypatch.setattr(serving, "serve", lambda task, **options: noted.append((task, options)))
    return noted


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "flowers.csv"
    rows = (f"{n},{n % 4},{'ash' if n < 3 else ''}" for n in range(1, 31))
    path.write_text("x,y,is\n" + "\n".join(rows) + "\n")
    return path


def test_a_task_is_created_gone_on_with_exported_and_copied(served, table, tmp_path):
    out = tmp_path / "task.db"
    words = (table, "--classes", "ash,elm,fir", "--out", out, "--true-label", "is")
    assert "30 examples, 2 of them known" in run(*words)
    assert "going on with it" in run(*words)
    run(out)
    assert len(served) == 3
    with Task(out) as task:
        who = task.local_person("me").id
        for question in task.deal(who, 5):
            given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": "not"}
            task.answer(who, {**given, "label": question.offered[0]})
    link = run("invite", "Ann", "--task", out, "--url", "https://team.example")
    assert link.startswith("https://team.example/?token=")
    assert json.loads(run("invite", "Ann", "--task", out, "--json"))["name"] == "Ann"
    assert "5 answers" in run("export", out, tmp_path / "answers.csv")
    assert "5 answers" in run("copy", out, tmp_path / "copy.db")
    assert json.loads(run("export", out, tmp_path / "ls.json", "--json"))["answers"] == 5
    assert "were there already" in run("import", out, tmp_path / "ls.json")


@pytest.mark.parametrize(
    "words, match",
    [
        (["{empty}", "--classes", "a,b,c", "--out", "{out}"], "must contain images"),
        (["{table}", "--classes", "a,b", "--out", "{out}"], "at least 3 classes"),
        (["{table}", "--out", "{out}"], "--classes must list all classes"),
        (["{table}", "--classes", "a,b,c"], "Say where to keep the answers"),
        (["{table}", "--classes", "a,b,c", "--out", "{out}", "--database", "x"], "not both"),
        (["{table}", "--classes", "a,b,c", "--out", "{other}"], "It was not changed"),
        (["{other}"], "must be the database of an annotation task"),
        (["{out}"], "There is no database"),
        (
            ["{table}", "--classes", "a,b,c", "--out", "{out}", "--true-label", "is"],
            "Known classes",
        ),
        (["{table}", "--classes", "a,b,c", "--out", "{out}", "--ask", "x"], "must be one of"),
    ],
)
def test_bad_input_is_one_clear_line(served, table, tmp_path, words, match):
    (tmp_path / "empty").mkdir()
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE songs (title)")
    places = {"empty": tmp_path / "empty", "table": table, "out": tmp_path / "task.db"}
    filled = [word.format(**places, other=tmp_path / "other.db") for word in words]
    printed = run(*filled, code=1)
    assert match in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "task.db").exists()
    assert not served


def test_a_killed_server_has_lost_nothing_and_a_used_port_is_said(table, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--classes", "ash,elm,fir", "--out", str(tmp_path / "task.db")]
        printed = run(table, *words, "--port", port, code=1)
        assert f"Port {port} is in use" in printed
    command = [sys.executable, "-m", "naysay", "annotate", str(tmp_path / "task.db")]
    server = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().split()[-1]
    saved = []
    for _ in range(100):
        try:
            questions = json.load(urllib.request.urlopen(f"{url}/api/next"))["questions"]
            break
        except OSError:
            time.sleep(0.1)
    for question in questions:
        body = {"id": str(uuid.uuid4()), "deal": question["deal"], "said": "unknown"}
        headers = {"x-naysay": "1", "content-type": "application/json"}
        request = urllib.request.Request(f"{url}/api/answer", json.dumps(body).encode(), headers)
        assert json.load(urllib.request.urlopen(request))["status"] == "saved"
        saved.append(body["id"])
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server.stdout.close()
    with Task(tmp_path / "task.db") as task:
        assert sorted(row["id"] for row in task.answers()) == sorted(saved)
