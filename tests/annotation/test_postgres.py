"""The same task in PostgreSQL, and its way there from SQLite."""

import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from naysay import InvalidData, InvalidInput
from naysay.annotation import store
from naysay.annotation.questions import Item, Settings
from naysay.annotation.store import Task, create, has_task

CLASSES = ("cat", "dog", "owl", "fox")


@pytest.fixture
def database(postgres):
    import psycopg

    name = f"task_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.removesuffix("postgres") + name


def answer_all(task, who):
    seen = []
    while questions := task.deal(who, 4):
        for question in questions:
            given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": "not"}
            assert task.answer(who, {**given, "label": question.offered[0]}) == "saved"
            assert task.answer(who, {**given, "label": question.offered[0]}) == "saved"
            seen.append(question.item)
    return seen


def test_two_servers_on_one_database_share_the_questions(database):
    items = [Item(str(n), {"x": n}) for n in range(60)]
    assert not has_task(database)
    create(database, Settings.of(CLASSES, n_answers=2, known_rate=0), items)
    assert has_task(database)
    with Task(database) as one, Task(database) as two:
        people = [(task, task.local_person(f"p{n}").id) for n, task in enumerate([one, two] * 2)]
        with ThreadPoolExecutor(4) as pool:
            seen = list(pool.map(lambda pair: answer_all(*pair), people))
        assert all(len(set(each)) == len(each) for each in seen)
        assert set(Counter(item for each in seen for item in each).values()) == {2}
        assert len(list(one.answers())) == 120
    with pytest.raises(InvalidInput, match="already contains a task"):
        create(database, Settings.of(CLASSES), items)


def test_a_task_moves_from_sqlite_and_goes_on(database, tmp_path):
    create(tmp_path / "task.db", Settings.of(CLASSES), [Item(str(n), {"x": n}) for n in range(20)])
    with Task(tmp_path / "task.db") as old:
        token = old.invite("Ann")
        ann = old.find_person(token)
        question = old.deal(ann.id, 1)[0]
        key = str(uuid.uuid4())
        old.answer(ann.id, {"id": key, "deal": question.deal, "said": "unknown"})
        old.copy_to(database)
        before = list(old.answers())
    with Task(database) as new:
        assert list(new.answers()) == before
        assert new.find_person(token).name == "Ann"
        new.invite("Bob")
        assert new.undo(ann.id, key).deal == question.deal
        assert len(answer_all(new, ann.id)) == 20


def test_a_database_that_is_lost_while_it_serves_comes_back(database, postgres, monkeypatch):
    import psycopg

    create(database, Settings.of(CLASSES), [Item(str(n), {"x": n}) for n in range(4)])
    monkeypatch.setattr(store, "_RETRIES", 2)
    name = database.rpartition("/")[2]
    allow = f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS"
    with Task(database) as task, psycopg.connect(postgres, autocommit=True) as admin:
        who = task.local_person("me").id
        question = task.deal(who, 1)[0]
        admin.execute(f"{allow} false")
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": "unknown"}
        for ask in (lambda: task.answer(who, given), lambda: task.progress(who)):
            with pytest.raises(store.LostDatabase, match=f"{name} cannot be used") as problem:
                ask()
            assert "\n" not in str(problem.value)
        admin.execute(f"{allow} true")
        assert task.answer(who, given) == "saved"
        assert task.progress(who)["mine"] == 1


def test_a_server_that_cannot_be_reached_is_one_clear_line():
    with pytest.raises(InvalidData, match=r"postgresql://me:\*\*\*@127.0.0.1:1/x cannot be used"):
        Task("postgresql://me:secret@127.0.0.1:1/x")
