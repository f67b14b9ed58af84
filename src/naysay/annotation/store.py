"""The database of a task: its people, questions and answers.

A single thread writes. It commits many requests in one transaction, so that every answer is on disk
when it is acknowledged, at the cost of one flush for all of them.
"""

import hashlib
import json
import os
import queue
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from naysay import __version__
from naysay._base import task_tables as db
from naysay._base.errors import InvalidData, InvalidInput, NaysayError
from naysay._base.files import replacing
from naysay.annotation.questions import Item, Settings
from naysay.annotation.queue import Question, Queue, item_rows

T = TypeVar("T")
item, person, deal, answer = db.item_table.c, db.person_table.c, db.deal_table.c, db.answer_table.c
#: Facts about an answer, in the order of `Task.answers`.
COLUMNS = (
    *("item", "annotator", "question", "offered", "answer", "label", "true_label"),
    *("asked_by", "seconds", "answered", "id"),
)
_BATCH = 5000  # rows inserted or copied at a time
_MOST_AT_ONCE = 200  # requests committed together
_RETRIES = 5  # of a transaction that conflicts with another process


class LostDatabase(NaysayError, OSError):
    """The database disappeared while the server runs, and no further answer is acknowledged."""


class Person(NamedTuple):
    """A person who answers questions."""

    id: int
    name: str
    is_owner: bool


class _Work(NamedTuple):
    """A function to call in a transaction."""

    future: "Future[Any]"
    work: Callable[[sa.Connection], Any]


class _Answer(NamedTuple):
    """An answer to save. Saving several of them together is cheaper."""

    future: "Future[Any]"
    who: int
    given: dict[str, Any]
    want: int  # number of questions that the person should have afterwards
    now: float


_Job = _Work | _Answer


def create(target: str | Path, settings: Settings, items: Sequence[Item]) -> None:
    """Create the database of a task, completely or not at all."""
    values = {"version": db.VERSION, "settings": {**settings.to_dict(), "written_by": __version__}}
    with _new_database(target, "To continue it, leave out DATA: naysay annotate {}") as connection:
        connection.execute(
            db.task_table.insert(),
            [{"key": key, "value": json.dumps(value)} for key, value in values.items()],
        )
        rows = item_rows(items, settings)
        while batch := list(islice(rows, _BATCH)):
            connection.execute(db.item_table.insert(), batch)


@contextmanager
def _new_database(target: str | Path, remedy: str) -> Iterator[sa.Connection]:
    """Create the tables of a task, and fill them in the block, completely or not at all.

    The database must have no task yet; `remedy` completes the error, with its name for ``{}``.
    """
    url = db.database_url(target)
    name, path = db.name_of(url), Path(str(url.database))
    is_file = url.get_backend_name() == "sqlite"
    if is_file and path.exists():
        raise InvalidInput(f"{path} exists already. Name another file.")
    if is_file and not path.parent.is_dir():
        raise InvalidInput(f"There is no folder {path.parent}: create it first.")
    with replacing(path, usual="task.db") if is_file else nullcontext(target) as part:
        engine = db.connect(part, writes=True, creates=True)
        try:
            with db.clear_errors(name), engine.begin() as connection:
                if sa.inspect(connection).has_table(db.task_table.name):
                    raise InvalidInput(f"{name} already contains a task. {remedy.format(name)}")
                db.tables.create_all(connection)
                yield connection
                if is_file:
                    connection.exec_driver_sql(f"PRAGMA application_id = {db.APPLICATION_ID}")
        finally:
            engine.dispose()


def has_task(target: str | Path) -> bool:
    """Check whether a database exists and contains a task; others are an error."""
    url = db.database_url(target)
    if url.get_backend_name() == "sqlite":
        if not Path(str(url.database)).exists():
            return False
        Task(target).close()
        return True
    engine = db.connect(target)
    try:
        with db.clear_errors(db.name_of(url)), engine.connect() as connection:
            return sa.inspect(connection).has_table(db.task_table.name)
    finally:
        engine.dispose()


class Task:
    """An annotation task in a database.

    A method that writes returns when its result is on disk. One thread commits the writes of all
    callers together. `submit` returns a future instead, which the server uses.
    """

    def __init__(self, target: str | Path) -> None:
        self.url = db.database_url(target)
        self.target, self.name = str(target), db.name_of(self.url)
        self.is_file = self.url.get_backend_name() == "sqlite"
        self._reader, self._writer = db.connect(target), db.connect(target, writes=True)
        try:
            with db.clear_errors(self.name), self._reader.connect() as connection:
                self.settings = Settings.from_dict(db.read_settings(connection, self.name))
            probe = db.task_table.update().where(db.task_table.c.key == "").values(value="")
            with db.clear_errors(self.name), self._writer.begin() as connection:
                connection.execute(probe)
        except BaseException:
            self._reader.dispose()
            self._writer.dispose()
            raise
        self._present = self._files()
        self.queue = Queue(self.settings)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True, name="naysay-writer")
        self._thread.start()

    def __enter__(self) -> "Task":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write all submitted changes, and close the database."""
        self._jobs.put(None)
        self._thread.join(timeout=60)
        self._writer.dispose()
        self._reader.dispose()

    # The writing thread.

    def submit(self, work: Callable[..., T], *args: Any) -> "Future[T]":
        """Submit ``work(connection, *args)`` to the writing thread."""
        future: Future[T] = Future()
        self._jobs.put(_Work(future, lambda connection: work(connection, *args)))
        return future

    def submit_answer(
        self, who: int, given: dict[str, Any], want: int = 0, *, now: float | None = None
    ) -> "Future[tuple[str, list[Question]]]":
        """Submit an answer: its status, and the questions of the person if they want some."""
        future: Future[tuple[str, list[Question]]] = Future()
        self._jobs.put(_Answer(future, who, given, want, time.time() if now is None else now))
        return future

    def _write(self) -> None:
        is_open = True
        while is_open:
            jobs = [self._jobs.get()]
            with suppress(queue.Empty):
                while len(jobs) < _MOST_AT_ONCE:
                    jobs.append(self._jobs.get_nowait())
            is_open = None not in jobs
            self._commit([job for job in jobs if job is not None])

    def _commit(self, jobs: list[_Job]) -> None:
        """Run jobs in one transaction, and report once it is committed.

        If one fails, all are run again, each in a savepoint of its own.
        """
        results: list[Any] = []
        run = self._run
        for attempt in range(_RETRIES):
            try:
                self._check_present()
                with self._writer.begin() as connection:
                    results = run(connection, jobs)
                    self._check_present()
            except OperationalError as error:
                if attempt + 1 < _RETRIES:
                    time.sleep(0.05 * 2**attempt * (1 + random.random()))
                    continue
                results = [self._lost(error)] * len(jobs)
            except Exception as error:
                if run == self._run and len(jobs) > 1 and not isinstance(error, LostDatabase):
                    run = self._run_apart
                    continue
                results = [error] * len(jobs)
            break
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

    def _run(self, connection: sa.Connection, jobs: list[_Job]) -> list[Any]:
        """Run jobs in order; consecutive answers are saved together."""
        results: list[Any] = []
        for kind, group in groupby(jobs, type):
            if kind is _Answer:
                results += self._save(connection, cast("list[_Answer]", [*group]))
            else:
                results += [job.work(connection) for job in cast("list[_Work]", [*group])]
        return results

    def _run_apart(self, connection: sa.Connection, jobs: list[_Job]) -> list[Any]:
        """Run each job in a savepoint of its own; the result of a job may be an error."""
        results: list[Any] = []
        for job in jobs:
            try:
                with connection.begin_nested():
                    results += self._run(connection, [job])
            except OperationalError:
                raise  # the connection failed, not the job
            except Exception as error:
                results.append(error)
        return results

    def _save(self, connection: sa.Connection, answers: list[_Answer]) -> list[Any]:
        """Save answers, and lease further questions to the people who want some."""
        given = [(each.who, each.given, each.now) for each in answers]
        found = list(zip(answers, self.queue.answer(connection, given), strict=True))
        wants: dict[int, int] = {}
        for job, status in found:
            if job.want > 0 and not isinstance(status, Exception):
                wants[job.who] = max(job.want, wants.get(job.who, 0))
        dealt = self.queue.deal(connection, wants) if wants else {}
        return [
            status
            if isinstance(status, Exception)
            else (status, dealt[job.who] if job.want > 0 else [])
            for job, status in found
        ]

    def _files(self) -> list[int]:
        """Identify the files of an SQLite database: data and latest changes."""
        if not self.is_file:
            return []
        try:
            return [os.stat(f"{self.name}{suffix}").st_ino for suffix in ("", "-wal")]
        except OSError:
            return [-1]

    def _check_present(self) -> None:
        """Check that the file is still the one that was opened; otherwise answers would be lost."""
        if self._files() != self._present:
            raise LostDatabase(
                f"The database {self.name} was moved or removed while the server was running. "
                "Put it back and restart the server. No answer was acknowledged since then."
            )

    # Questions and answers, which `Queue` handles.

    def deal(self, who: int, want: int = 6, *, now: float | None = None) -> list[Question]:
        """Lease questions to a person until they have `want`, and return all of their questions."""
        return self.submit(self.queue.deal, {who: want}, now).result()[who]

    def answer(self, who: int, given: dict[str, Any], *, now: float | None = None) -> str:
        """Save an answer exactly once, and return its status: see `Queue.answer`."""
        return self.submit_answer(who, given, now=now).result()[0]

    def undo(self, who: int, key: str, *, now: float | None = None) -> Question | None:
        """Withdraw an answer of a person, and lease the question to them again."""
        return self.submit(self.queue.undo, who, key, now).result()

    def later(self, who: int, number: int) -> bool:
        """Put a question off: nothing is recorded, and it is asked again after all others."""
        return self.submit(self.queue.later, who, number).result()

    def reopen(self, keys: Sequence[str]) -> int:
        """Withdraw answers so that their questions are asked again; return the number withdrawn."""
        return self.submit(self.queue.reopen, keys).result()

    # People.

    def invite(self, name: str, *, is_owner: bool = False) -> str:
        """Add a person, or renew the link of a person, and return the token of the link."""
        name = name.strip()
        if not name or len(name) > 100 or not name.isprintable():
            raise InvalidInput("The name of a person must have 1 to 100 printable characters.")
        token = secrets.token_urlsafe(24)

        def work(connection: sa.Connection) -> None:
            number = find_or_add_person(connection, name)
            values: dict[str, Any] = {"token": _digest(token)}
            if is_owner:  # a new link does not take the right away
                values["is_owner"] = True
            connection.execute(db.person_table.update().where(person.id == number).values(**values))

        self.submit(work).result()
        return token

    def local_person(self, name: str) -> Person:
        """Find or add the owner, who needs no token on this machine."""
        return Person(self.submit(find_or_add_person, name, True).result(), name, True)

    def remember(self, address: str) -> None:
        """Store the address of the server, which links need."""

        def work(connection: sa.Connection) -> None:
            connection.execute(db.task_table.delete().where(db.task_table.c.key == "address"))
            row = {"key": "address", "value": json.dumps(address)}
            connection.execute(db.task_table.insert(), row)

        self.submit(work).result()

    def address(self) -> str | None:
        """Look up the address at which the server last ran; None if it never ran."""
        query = sa.select(db.task_table.c.value).where(db.task_table.c.key == "address")
        found = self.read(lambda connection: connection.execute(query).scalar())
        return None if found is None else json.loads(found)

    def find_person(self, token: str) -> Person | None:
        """Find the person whose link contains this token; None if there is no such person."""
        query = sa.select(db.person_table).where(person.token == _digest(token))
        found = self.read(lambda connection: connection.execute(query).first())
        return None if found is None else Person(found.id, found.name, bool(found.is_owner))

    # Reading.

    def read(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(connection, *args)`` in a transaction that only reads."""
        try:
            with self._reader.connect() as connection:
                return work(connection, *args)
        except OperationalError as error:
            raise self._lost(error) from None

    def _lost(self, error: OperationalError) -> LostDatabase:
        reason = str(error.orig).strip().splitlines()[0]
        return LostDatabase(f"The database {self.name} cannot be used: {reason}")

    def path_of(self, number: int) -> str | None:
        """Look up the path of the image of an item, relative to the folder of images."""
        if self.settings.kind != "images":
            return None
        query = sa.select(item.name).where(item.id == number)
        return self.read(lambda connection: connection.execute(query).scalar())

    def progress(self, who: int) -> dict[str, int]:
        """Count the answers of a person, the answers of all people, and the answers wanted."""
        n_rows = sa.func.count()
        answered = sa.select(n_rows.filter(deal.person == who), n_rows).where(
            deal.state == db.ANSWERED, deal.asked_by != "known"
        )
        items = sa.select(n_rows).where(item.known.is_(None))

        def work(connection: sa.Connection) -> dict[str, int]:
            n_mine, n_all = connection.execute(answered).one()
            n_items = connection.execute(items).scalar_one()
            wanted = n_items * self.settings.n_answers
            return {"mine": n_mine, "all": n_all, "items": n_items, "wanted": wanted}

        return self.read(work)

    def save_estimate(self, report: dict[str, Any], ranked: Sequence[int]) -> None:
        """Save the report of a model, and the order in which it asks about its items."""
        order = [(number, place) for place, number in enumerate(ranked)]

        def save(connection: sa.Connection) -> None:
            row = {"made": time.time(), "n_answers": report["n_answers"]}
            connection.execute(
                db.estimate_table.insert(), {**row, "report": json.dumps(report, allow_nan=False)}
            )

        for start in range(0, len(order), _BATCH):  # in batches, so that answers do not wait long
            self.submit(self.queue.rank, order[start : start + _BATCH]).result()
        self.submit(save).result()  # last, because servers then search the pool from its start

    def unasked(self) -> list[tuple[int, str, str | None]]:
        """List the items that a model may choose and that need answers: id, name and cells."""
        query = sa.select(item.id, item.name, item.cells).where(item.pool == 1, item.room > 0)
        rows = self.read(lambda connection: connection.execute(query).all())
        return [(row.id, row.name, row.cells) for row in rows]

    def items(self) -> Iterator[tuple[int, str, str | None]]:
        """Yield the id, name and cells of all items, read in batches."""
        query = sa.select(item.id, item.name, item.cells).order_by(item.id)
        with self._reader.connect().execution_options(yield_per=10_000) as connection:
            for row in connection.execute(query):
                yield row.id, row.name, row.cells

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield all valid answers with all facts about them, read in batches."""
        classes = [*self.settings.classes, None]
        columns = (
            item.name.label("item"),
            person.name.label("annotator"),
            deal.question,
            deal.offered,
            answer.said,
            answer.label,
            item.known,
            deal.asked_by,
            answer.seconds,
            answer.answered,
            answer.id,
        )
        query = sa.select(*columns).select_from(db.EVERY_ANSWER).where(db.IS_VALID)

        @cache
        def names(offered: str) -> str:
            return "|".join(str(classes[each]) for each in json.loads(offered))

        with self._reader.connect().execution_options(yield_per=10_000) as connection:
            for name, who, question, offered, said, label, known, *rest in connection.execute(
                query.order_by(deal.id)
            ):
                named = (classes[-1 if each is None else each] for each in (label, known))
                values = (name, who, question, names(offered), said, *named, *rest)
                yield dict(zip(COLUMNS, values, strict=True))

    def copy_to(self, target: str | Path) -> dict[str, int]:
        """Copy the task to another database in one transaction; return the rows of each table."""
        counts: dict[str, int] = {}
        with (
            _new_database(target, "Choose another database.") as new,
            self._reader.connect().execution_options(yield_per=_BATCH) as old,
        ):
            for table in db.tables.sorted_tables:
                counts[table.name] = 0
                for rows in old.execute(sa.select(table)).mappings().partitions():
                    new.execute(table.insert(), [dict(row) for row in rows])
                    counts[table.name] += len(rows)
                n_copied = new.execute(sa.select(sa.func.count()).select_from(table))
                if n_copied.scalar_one() != counts[table.name]:
                    raise InvalidData(f"The copy of {table.name} is incomplete.")
                is_numbered = "id" in table.c and table.c.id.type.python_type is int
                if is_numbered and new.dialect.name != "sqlite":
                    new.execute(sa.text(_NEXT_ID.format(table.name)))
        return counts


# PostgreSQL must number new rows from the last copied row onwards.
_NEXT_ID = (
    "SELECT setval(pg_get_serial_sequence('{0}', 'id'), (SELECT max(id) FROM {0}) + 1, false) "
    "FROM {0} LIMIT 1"
)


def find_or_add_person(connection: sa.Connection, name: str, is_owner: bool = False) -> int:
    """Find the number of a person, or add the person without a link."""
    query = sa.select(person.id).where(person.name == name)
    found = connection.execute(query).scalar()
    if found is None:
        row = {"name": name, "is_owner": is_owner, "joined": time.time()}
        connection.execute(db.person_table.insert(), row)
        found = connection.execute(query).scalar_one()
    return found


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
