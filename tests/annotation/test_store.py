"""The queue of questions, and the answers: leased, never doubled, never lost."""

import os
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from naysay import InvalidData, InvalidInput
from naysay._base.task_tables import answer_table, clear_errors, deal_table, item_table
from naysay.annotation import store
from naysay.annotation.questions import Item, Settings
from naysay.annotation.store import LostDatabase, Task, create

CLASSES = ("cat", "dog", "owl", "fox")


def make_task(folder, n_items=6, known=(), **options):
    options = {"n_offered": 4, "known_rate": 0.0, **options}
    items = [Item(str(n), {"x": n}, known=dict(known).get(n)) for n in range(1, n_items + 1)]
    path = folder / f"{uuid.uuid4().hex}.db"
    create(path, Settings.of(CLASSES, **options), items)
    return Task(path)


def people(task, n):
    return [task.local_person(f"p{number}").id for number in range(n)]


def new_answer(question, said="not", **more):
    label = question.offered[0] if said == "not" else None
    given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": said, "label": label}
    return {**given, "seconds": 1.5, **more}


def rows(task, table, *where):
    query = sa.select(table).where(*where)
    return task.read(lambda connection: connection.execute(query).all())


def valid(task):
    return rows(task, answer_table, answer_table.c.withdrawn.is_(None))


ACTIONS = st.sampled_from(
    ["deal", "deal", "deal to all", "answer", "answer", "again", "undo", "later", "wait"]
)


@pytest.mark.unmeasured
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(ACTIONS, st.integers(0, 2), st.integers(0, 3)), min_size=10, max_size=60),
    st.integers(1, 3),
)
def test_no_example_gets_more_answers_than_wanted_and_nobody_gets_one_twice(
    tmp_path_factory, actions, n_answers
):
    folder = tmp_path_factory.mktemp("queue")
    with make_task(folder, 5, n_answers=n_answers, lease=10.0) as task:
        who = people(task, 3)
        now, held = 1000.0, {each: [] for each in who}
        saved: dict[str, dict] = {}
        for action, number, which in actions:
            one = who[number]
            if action == "deal":
                held[one] = task.deal(one, which + 1, now=now)
                items = [each.item for each in held[one]]
                assert len(set(items)) == len(items)
            elif action == "deal to all":
                wants = {each: (number + which + place) % 4 for place, each in enumerate(who)}
                held = task.submit(task.queue.deal, wants, now).result()
            elif action == "wait":
                now += 4.0 * which
            elif action == "answer" and held[one]:
                sent = new_answer(held[one][which % len(held[one])])
                if task.answer(one, sent, now=now) == "saved":
                    saved[sent["id"]] = {"who": one, **sent}
            elif action == "later" and held[one]:
                task.later(one, held[one].pop().deal)
            elif saved:
                key = sorted(saved)[which % len(saved)]
                if action == "again":  # the network repeats a request
                    sent = {k: v for k, v in saved[key].items() if k != "who"}
                    assert task.answer(saved[key]["who"], sent, now=now) == "saved"
                elif action == "undo":
                    assert task.undo(saved[key]["who"], key, now=now) is not None
                    del saved[key]
        kept = valid(task)
        assert {row.id for row in kept} == set(saved)  # none lost, none doubled
        deals = {row.id: row for row in rows(task, deal_table)}
        pairs = [(deal.person, deal.item) for deal in deals.values()]
        assert len(set(pairs)) == len(pairs)
        per_item = Counter(deals[row.deal].item for row in kept)
        assert max(per_item.values(), default=0) <= n_answers
        leased = Counter(deal.item for deal in deals.values() if deal.state == 0)
        for item in rows(task, item_table):
            assert item.room == n_answers - per_item[item.id] - leased[item.id] >= 0


def test_all_examples_are_asked_as_often_as_wanted(tmp_path):
    with make_task(tmp_path, 12, n_answers=2) as task:
        who = people(task, 3)
        answered = Counter()
        for _ in range(40):
            for one in who:
                for question in task.deal(one, 2):
                    assert task.answer(one, new_answer(question)) == "saved"
                    answered[question.item] += 1
            task.queue._resting.clear()
        assert set(answered.values()) == {2}
        assert len(answered) == 12
        assert all(task.deal(one, 3) == [] for one in who)


def test_many_threads_never_share_an_example(tmp_path):
    with make_task(tmp_path, 120) as task:
        who = people(task, 8)

        def work(one):
            seen = []
            while questions := task.deal(one, 3):
                for question in questions:
                    assert task.answer(one, new_answer(question)) == "saved"
                    seen.append(question.item)
            return seen

        with ThreadPoolExecutor(8) as pool:
            seen = [item for each in pool.map(work, who) for item in each]
        assert sorted(seen) == sorted({row.id for row in rows(task, item_table)})


def test_a_lease_ends_and_the_late_answer_is_not_lost_unless_another_took_the_place(tmp_path):
    with make_task(tmp_path, 1, lease=10.0) as task:
        first, second = people(task, 2)
        question = task.deal(first, 1, now=0.0)[0]
        assert task.deal(second, 1, now=5.0) == []
        late = task.deal(second, 1, now=20.0)
        assert [each.item for each in late] == [question.item]
        assert task.answer(first, new_answer(question), now=21.0) == "taken"
        assert task.answer(second, new_answer(late[0]), now=21.0) == "saved"
    with make_task(tmp_path, 1, lease=10.0) as task:
        (first,) = people(task, 1)
        question = task.deal(first, 1, now=0.0)[0]
        assert task.deal(first, 1, now=30.0) == [question]  # the same question, not a new one
        assert task.answer(first, new_answer(question), now=60.0) == "saved"


def test_later_comes_again_last_and_is_not_recorded(tmp_path):
    with make_task(tmp_path, 3) as task:
        (one,) = people(task, 1)
        put_off = task.deal(one, 1)[0]
        assert task.later(one, put_off.deal)
        assert not task.later(one, put_off.deal)
        seen = []
        for _ in range(3):
            question = task.deal(one, 1)[0]
            seen.append(question.deal)
            task.answer(one, new_answer(question, "unknown"))
        assert seen[-1] == put_off.deal
        assert [row.said for row in valid(task)] == ["unknown"] * 3


def test_known_examples_are_mixed_in_at_their_rate_and_asked_of_everyone(tmp_path):
    known = dict.fromkeys(range(1, 101), "cat")
    with make_task(tmp_path, 400, known=known, known_rate=0.2) as task:
        one, two = people(task, 2)
        for who in (one, two):
            for _ in range(20):
                for question in task.deal(who, 6):
                    task.answer(who, new_answer(question))
        deals = rows(task, deal_table)
        shares = Counter(deal.asked_by for deal in deals)
        assert 0.1 < shares["known"] / len(deals) < 0.3
        of_both = Counter(deal.item for deal in deals if deal.asked_by == "known")
        assert max(of_both.values()) == 2


def test_a_model_ranks_its_pool_only_and_it_is_recorded(tmp_path):
    with make_task(tmp_path, 60, random_share=0.5) as task:
        (one,) = people(task, 1)
        ids = [number for number, _, _ in task.unasked()]
        assert 15 < len(ids) < 45
        task.save_estimate({"n_answers": 0}, ids[::-1])
        by = {}
        for _ in range(8):
            for question in task.deal(one, 5):
                task.answer(one, new_answer(question))
        for deal in rows(task, deal_table):
            by.setdefault(deal.asked_by, []).append(deal.item)
        assert set(by["model"]) <= set(ids)
        assert not set(by["random"]) & set(ids)
        assert by["model"] == ids[::-1][: len(by["model"])]


def test_who_answers_while_a_model_ranks_gets_what_it_chose_next(tmp_path):
    with make_task(tmp_path, 40, random_share=0.05) as task:
        (one,) = people(task, 1)
        dealt = {each.item for each in task.deal(one, 4)}
        ranked = [number for number, *_ in task.unasked()][::-1]
        rank = task.queue.rank

        def deal_and_rank(connection, places):
            task.queue._swept = 0.0
            dealt.update(each.item for each in task.queue.deal(connection, {one: 6})[one])
            rank(connection, places)

        task.queue.rank = deal_and_rank
        task.save_estimate({"n_answers": 0}, ranked)
        task.queue._swept = 0.0
        new = [each.item for each in task.deal(one, 12) if each.item not in dealt]
        best = [number for number in ranked if number not in dealt]
        assert set(best[:2]) <= set(new)


def test_reopened_answers_are_asked_again_and_kept(tmp_path):
    with make_task(tmp_path, 2) as task:
        (one,) = people(task, 1)
        question = task.deal(one, 1)[0]
        sent = new_answer(question)
        task.answer(one, sent)
        assert task.reopen([sent["id"], "no such answer"]) == 1
        assert task.reopen([sent["id"]]) == 0
        assert task.deal(one, 1) == [question]
        assert valid(task) == []
        assert len(rows(task, answer_table)) == 1


@pytest.mark.parametrize(
    "change, match",
    [
        ({"said": "maybe"}, "must be one of"),
        ({"said": "none"}, "must be one of"),
        ({"label": 7}, "one of the offered classes"),
        ({"label": True}, "one of the offered classes"),
        ({"label": None}, "one of the offered classes"),
        ({"seconds": -1}, "seconds"),
        ({"seconds": "1"}, "seconds"),
        ({"id": "short"}, "id must"),
    ],
)
def test_answers_that_do_not_fit_the_question_are_refused(tmp_path, change, match):
    with make_task(tmp_path) as task:
        one, two = people(task, 2)
        question = task.deal(one, 1)[0]
        with pytest.raises(InvalidInput, match=match):
            task.answer(one, {**new_answer(question), **change})
        with pytest.raises(InvalidInput, match="not assigned to this person"):
            task.answer(two, new_answer(question))
        sent = new_answer(question)
        assert task.answer(one, sent) == "saved"
        assert task.answer(one, new_answer(question)) == "answered"
        assert task.undo(two, sent["id"]) is None


def test_a_link_finds_its_person_and_a_new_link_replaces_it(tmp_path):
    with make_task(tmp_path) as task:
        token = task.invite("Ann")
        assert task.find_person(token).name == "Ann"
        again = task.invite("Ann")
        assert task.find_person(token) is None
        assert task.find_person(again).name == "Ann"
        assert token not in str(rows(task, sa.table("naysay_person", sa.column("token"))))
        with pytest.raises(InvalidInput, match="name of a person"):
            task.invite(" \n")


def test_databases_of_others_of_newer_versions_and_lost_ones_are_refused(tmp_path):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE songs (title)")
    before = other.read_bytes()
    with pytest.raises(InvalidData, match=r"must be the database of an annotation task.*none"):
        Task(other)
    assert other.read_bytes() == before
    noise = tmp_path / "noise.db"
    noise.write_bytes(b"not a database")
    with pytest.raises(InvalidData, match="not an SQLite database"):
        Task(noise)
    with pytest.raises(FileNotFoundError, match="There is no database"):
        Task(tmp_path / "missing.db")
    with make_task(tmp_path) as task:
        path = task.name
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE naysay_task SET value = '9' WHERE key = 'version'")
    with pytest.raises(InvalidData, match=r"newer version of naysay.*not changed"):
        Task(path)
    with pytest.raises(InvalidInput, match="exists already"):
        create(path, Settings.of(CLASSES), [Item("1")])


def test_nothing_is_acknowledged_once_the_database_is_gone(tmp_path):
    with make_task(tmp_path) as task:
        (one,) = people(task, 1)
        question = task.deal(one, 1)[0]
        path = tmp_path / task.name
        path.rename(tmp_path / "moved.db")
        with pytest.raises(LostDatabase, match="moved or removed"):
            task.answer(one, new_answer(question))
        (tmp_path / "moved.db").rename(path)
        assert task.answer(one, new_answer(question)) == "saved"


def test_other_processes_come_and_go_while_answers_are_saved(tmp_path):
    # Whoever closes a database last removes its log; the locks of this process must prevent it.
    with make_task(tmp_path) as task:
        (one,) = people(task, 1)
        code = "import sys; from naysay.annotation.store import Task; Task(sys.argv[1]).close()"
        subprocess.run([sys.executable, "-c", code, task.name], check=True)
        for question in task.deal(one, 6):
            assert task.answer(one, new_answer(question)) == "saved"
        with closing(sqlite3.connect(task.name)) as other:
            assert other.execute("SELECT count(*) FROM naysay_answer").fetchone() == (6,)


def test_a_copy_has_all_and_goes_on_by_itself(tmp_path):
    with make_task(tmp_path) as task:
        (one,) = people(task, 1)
        question = task.deal(one, 1)[0]
        task.answer(one, new_answer(question))
        counts = task.copy_to(tmp_path / "copy.db")
        assert counts["naysay_item"] == 6
        assert counts["naysay_answer"] == 1
        with Task(tmp_path / "copy.db") as copy:
            assert list(copy.answers()) == list(task.answers())
            for question in copy.deal(one, 3):
                assert copy.answer(one, new_answer(question)) == "saved"
        with pytest.raises(InvalidInput, match="exists already"):
            task.copy_to(tmp_path / "copy.db")


def test_a_value_that_a_column_cannot_hold_is_one_line(tmp_path):
    with make_task(tmp_path) as task:
        people(task, 1)
        with closing(sqlite3.connect(task.name)) as other, other:
            other.execute("UPDATE naysay_person SET joined = 'unknown'")
        with (
            pytest.raises(InvalidData, match="cannot be used: could not convert"),
            clear_errors(task.name),
        ):
            task.copy_to(tmp_path / "copy.db")
        assert not list(tmp_path.glob("copy.db*"))


def test_a_copy_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    with make_task(tmp_path) as task:
        before = sorted(os.listdir(tmp_path))

        def fail(engine):
            raise KeyboardInterrupt

        monkeypatch.setattr(sa, "inspect", fail)
        with pytest.raises(KeyboardInterrupt):
            task.copy_to(tmp_path / "copy.db")
        monkeypatch.undo()
        assert sorted(os.listdir(tmp_path)) == before
        assert task.copy_to(tmp_path / "copy.db")["naysay_item"] == 6
        assert not list(tmp_path.glob("copy.db-*"))


def test_a_task_of_many_items_has_all_of_them(tmp_path):
    names = [str(number) for number in range(12_000)]  # more than are inserted at a time
    create(tmp_path / "many.db", Settings.of(CLASSES), [Item(name, {"x": 1}) for name in names])
    with Task(tmp_path / "many.db") as task, task._reader.connect() as connection:
        found = connection.execute(sa.text("SELECT name FROM naysay_item ORDER BY id")).scalars()
        assert list(found) == names


def test_answers_that_are_saved_together_do_not_disturb_each_other(tmp_path):
    with make_task(tmp_path, 8) as task:
        one, two = people(task, 2)
        first, second, third, *_ = task.deal(one, 4)
        sent = new_answer(first)
        gate = threading.Event()
        blocked = task.submit(lambda connection: gate.wait(10))
        together = [
            task.submit_answer(one, sent, 5),
            task.submit_answer(one, sent),
            task.submit_answer(one, new_answer(first)),
            task.submit_answer(one, {**sent, "deal": second.deal}),
            task.submit_answer(two, new_answer(second)),
            task.submit(lambda connection: 1 / 0),
            task.submit_answer(one, new_answer(third)),
            task.submit(task.queue.undo, one, "no\0such answer"),
        ]
        gate.set()
        assert blocked.result()
        status, questions = together[0].result()
        assert status == "saved"
        assert len(questions) == 5
        assert first not in questions
        assert [together[n].result()[0] for n in (1, 2, 6)] == ["saved", "answered", "saved"]
        for place, error, match in (
            (3, InvalidInput, "another question"),
            (4, InvalidInput, "not assigned to this person"),
            (5, ZeroDivisionError, "zero"),
        ):
            with pytest.raises(error, match=match):
                together[place].result()
        assert together[7].result() is None
        assert sorted(row.deal for row in valid(task)) == sorted([first.deal, third.deal])


def test_questions_for_all_who_answer_at_once_take_few_statements(tmp_path):
    with make_task(tmp_path, 200, n_answers=2) as task:
        who = people(task, 8)
        first = {one: task.deal(one, 1)[0] for one in who}
        made = []
        sa.event.listen(task._writer, "before_cursor_execute", lambda *given: made.append(given[2]))
        jobs: list[store._Job] = [
            store._Answer(Future(), one, new_answer(first[one]), 6, 1.0) for one in who
        ]
        task._commit(jobs)
        dealt = [job.future.result() for job in jobs]
    assert [status for status, _ in dealt] == ["saved"] * 8
    assert {len(questions) for _, questions in dealt} == {6}
    assert max(Counter(each.item for _, more in dealt for each in more).values()) == 2
    assert len(made) <= 20  # each is a round trip to PostgreSQL; one person's take 8
