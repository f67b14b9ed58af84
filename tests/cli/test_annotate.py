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
from contextlib import closing

import pytest
from typer.testing import CliRunner

from naysay.annotation.overview import describe
from naysay.annotation.store import Task
from naysay.cli import app
from naysay.design import Scheme


def run(*words, code=0):
    done = CliRunner().invoke(app, ["annotate", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def served(monkeypatch):
    """Do not serve; note what would be."""
    noted = []
    from naysay.annotation import run

    monkeypatch.setattr(run, "serve", lambda task, **options: noted.append((task, options)))
    return noted


@pytest.mark.parametrize("minutes", ["nan", "inf"])
def test_an_interval_that_is_no_number_of_minutes_is_refused_before_the_task_is_created(
    served, table, tmp_path, minutes
):
    words = (table, "--classes", "ash,elm,fir", "--out", tmp_path / "t.db")
    words = ["annotate", *map(str, words), "--learn-every", minutes]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (1, 2), done.output  # later versions of Typer refuse nan themselves
    assert "--learn-every" in done.output
    assert not (tmp_path / "t.db").exists()
    assert not served


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
    assert "It continues with its own settings" in run(*words)
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
    assert "Copied 30 examples, 5 answers." in run("copy", out, tmp_path / "copy.db")
    assert json.loads(run("copy", out, tmp_path / "two.db", "--json"))["naysay_answer"] == 5
    assert json.loads(run("export", out, tmp_path / "ls.json", "--json"))["answers"] == 5
    said = run("import", out, tmp_path / "ls.json")
    assert said == "0 answers added, 5 existed already, 0 left out.\n"
    assert json.loads(run("import", out, tmp_path / "ls.json", "--json"))["known"] == 5


def test_the_lists_of_a_scheme_are_offered(served, table, tmp_path):
    scheme = tmp_path / "scheme"
    words = ["design", "--classes", "ash,elm,fir,oak", "--in-order", "--out", str(scheme)]
    assert CliRunner().invoke(app, words).exit_code == 0
    data = (table, "--out", tmp_path / "task.db", "--scheme", scheme)
    assert "must be those of the scheme" in run(*data, "--classes", "ash,elm,fir", code=1)
    run(*data, "--classes", "oak,fir,elm,ash")
    found = Scheme.read(scheme)
    with Task(tmp_path / "task.db") as task:
        names = task.settings.classes
        lists = [tuple(names[each] for each in row) for row in task.settings.lists]
        assert lists == [tuple(found.classes[each] for each in row) for row in found.lists]
        assert task.settings.shares == tuple(found.shares)
        question = task.deal(task.local_person("me").id, 1)[0]
        assert question.question == "in order"
        assert tuple(question.offered) in task.settings.lists


def test_what_is_announced(served, table, tmp_path, capsys):
    words = (table, "--classes", "ash,elm,fir", "--out", tmp_path / "my task.db")
    run(*words, "--host", "0.0.0.0", "--name", "Eve")
    (task, options), *_ = served
    assert options["name"] == "Eve"
    page, overview = "http://team:8000/?token=x", "http://team:8000/owner?token=x"
    options["announce"](page, overview, False)
    said = capsys.readouterr().out
    assert f"Answer questions: {page}\nOverview: {overview}\n" in said
    assert f"naysay annotate invite NAME --task '{task.name}'" in said
    assert "HTTPS" in said
    run(*words, "--json")
    served[1][1]["announce"](page, overview, False)
    assert json.loads(capsys.readouterr().out)["page"] == page


def test_a_model_is_learned_and_said(served, table, tmp_path):
    out = tmp_path / "task.db"
    run(table, "--classes", "ash,elm,fir", "--out", out, "--random-share", 0.6)
    assert "must have answers to learn from" in run("learn", out, code=1)
    with Task(out) as task:
        who = task.local_person("me").id
        for question in task.deal(who, 20):
            given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": "not"}
            task.answer(who, {**given, "label": (question.item + 1) % 3})
        said = run("learn", out, "--learner", "network")
        assert "Accuracy: " in said
        assert "ranked to ask about next" in said
        words = ["annotate", "learn", str(out), "--learner", "network", "--json"]
        latest = json.loads(CliRunner().invoke(app, words).stdout)
        assert latest["n_answers"] == 20
        saved = task.read(describe, task.settings)
        assert [each["n_answers"] for each in saved["growth"]] == [20, 20]
        assert saved["latest"]["n_ranked"] == latest["n_ranked"] > 0


def test_it_says_why_the_accuracy_of_a_model_is_unknown(served, tmp_path):
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(str(n % 3) for n in range(400)) + "\n")
    run(tmp_path / "t.csv", "--classes", "ash,elm,fir", "--out", tmp_path / "t.db")
    with Task(tmp_path / "t.db") as task:
        who = task.local_person("me").id
        while questions := task.deal(who, 50):
            for question in questions:  # always the next class, which is not uniform
                given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": "not"}
                task.answer(who, {**given, "label": question.item % 3})
    said = run("learn", tmp_path / "t.db", "--learner", "network")
    assert "Accuracy: unknown, because the labels refute the transition matrix" in said
    assert "warning: The labels refute the transition matrix" in said


@pytest.mark.parametrize(
    "words, match",
    [
        (["{empty}", "--classes", "a,b,c", "--out", "{out}"], "must contain images"),
        (["{table}", "--classes", "a,b", "--out", "{out}"], "at least 3 classes"),
        (["{table}", "--out", "{out}"], "--classes must list all classes"),
        (["{table}", "--classes", "a,b,c"], "A new task needs --out"),
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
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE songs (title)")
    places = {"empty": tmp_path / "empty", "table": table, "out": tmp_path / "task.db"}
    filled = [word.format(**places, other=tmp_path / "other.db") for word in words]
    printed = run(*filled, code=1)
    assert match in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "task.db").exists()
    assert not served


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE naysay_task SET value = '\"1\"' WHERE key = 'version'",
        "UPDATE naysay_task SET value = '5' WHERE key = 'settings'",
        "UPDATE naysay_task SET value = replace(hex(zeroblob(50000)), '00', '[')",
        "UPDATE naysay_task SET value = replace(value, 'classes', 'names')",
        "UPDATE naysay_deal SET offered = '{'",
        "UPDATE naysay_deal SET offered = '[99]'",
        "UPDATE naysay_answer SET label = 'elm'",
        "UPDATE naysay_item SET cells = x'ff00'",
        "ALTER TABLE naysay_answer RENAME TO lost",
    ],
)
def test_a_damaged_database_is_one_clear_line(served, table, tmp_path, damage):
    out = tmp_path / "task.db"
    run(table, "--classes", "ash,elm,fir", "--out", out)
    with Task(out) as task:
        who = task.local_person("me").id
        for question in task.deal(who, 12):
            given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": "not"}
            task.answer(who, {**given, "label": question.offered[0]})
    with closing(sqlite3.connect(out)) as connection:
        connection.execute(damage)
        connection.commit()
    for words in (["annotate", "export", out, tmp_path / "ls.json"], ["data", "info", out]):
        done = CliRunner().invoke(app, [*map(str, words)])
        assert isinstance(done.exception, SystemExit | None), done.exception
        if "offered" not in damage or words[0] == "annotate":
            assert done.exit_code == 1
            assert done.stderr.startswith("error: ")
            assert done.stderr.count("\n") == 1
    assert not (tmp_path / "ls.json").exists()


def test_an_output_that_cannot_be_written_is_found_before_the_data_are_read(served, tmp_path):
    words = (tmp_path / "missing.csv", "--classes", "a,b,c", "--out")
    assert "there is no folder" in run(*words, tmp_path / "none/task.db", code=1)
    printed = run(*words, tmp_path / f"{'x' * 300}.db", code=1)
    assert "File name too long" in printed


def start_server(task):
    command = [sys.executable, "-m", "naysay", "annotate", str(task), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, **pipes)
    return server, server.stdout.readline().split()[-1]


def test_a_killed_server_has_lost_nothing_and_a_used_port_is_said(table, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--classes", "ash,elm,fir", "--out", str(tmp_path / "task.db")]
        printed = run(table, *words, "--port", port, code=1)
        assert f"Port {port} is in use" in printed
    server, url = start_server(tmp_path / "task.db")
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
    server.communicate()
    with Task(tmp_path / "task.db") as task:
        assert sorted(row["id"] for row in task.answers()) == sorted(saved)
    server, url = start_server(tmp_path / "task.db")
    server.send_signal(signal.SIGINT)  # Ctrl-C
    printed, problem = server.communicate(timeout=30)
    assert (server.returncode, problem) == (0, "")
    assert f"To continue: naysay annotate {tmp_path / 'task.db'}" in printed
