"""The database of a task: deal questions, keep answers, and give them out again.

Questions are leased: a question that was dealt to a person is reserved for some minutes, and no
example gets more answers than wanted. One thread writes. It commits many requests at once, so that
each answer is on disk when it is acknowledged, at the price of one flush for all of them.
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
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from naysay import __version__
from naysay._base.errors import InvalidData, InvalidInput, NaysayError
from naysay._base.task_tables import (
    ANSWERED,
    APPLICATION_ID,
    IS_VALID,
    LATER,
    LEASED,
    RELEASED,
    VERSION,
    answer_table,
    clear_errors,
    connect,
    database_url,
    deal_table,
    estimate_table,
    item_table,
    name_of,
    person_table,
    read_settings,
    tables,
    task_table,
)
from naysay.annotation.questions import Item, Settings, item_rows

T = TypeVar("T")
item, person, deal, answer = item_table.c, person_table.c, deal_table.c, answer_table.c
_BATCH = 5000  # rows inserted or copied at a time
_MOST_AT_ONCE = 200  # requests committed together
_SWEEP = 2.0  # seconds between searches for leases that ended
_REST = 2.0  # seconds before the queue of a person is searched again, when it was empty
_RETRIES = 5  # of a transaction that another process disturbed


class LostDatabase(NaysayError, OSError):
    """The database is gone while the server runs: nothing more is acknowledged."""


class Person(NamedTuple):
    """Who answers."""

    id: int
    name: str
    is_owner: bool


class Question(NamedTuple):
    """A question that was dealt to a person."""

    deal: int
    item: int
    name: str
    cells: str | None  # JSON
    question: str
    offered: list[int]


def create(target: str | Path, settings: Settings, items: Sequence[Item]) -> None:
    """Create the database of a task, whole or not at all."""
    url = database_url(target)
    path = Path(str(url.database)) if url.get_backend_name() == "sqlite" else None
    if path is not None and path.exists():
        raise InvalidInput(f"{path} exists already. Name another file.")
    if path is not None and not path.parent.is_dir():
        raise InvalidInput(f"There is no folder {path.parent}: create it first.")
    values = {"version": VERSION, "settings": {**settings.to_dict(), "written_by": __version__}}
    # A file is written under another name first, so that a killed process leaves no half of it.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}") if path is not None else target
    engine = connect(part, writes=True, creates=True)
    try:
        with clear_errors(name_of(url)), engine.begin() as connection:
            if sa.inspect(connection).has_table(task_table.name):
                raise InvalidInput(
                    f"{name_of(url)} has a task already. To go on with it, leave out DATA: "
                    f"naysay annotate {name_of(url)}"
                )
            tables.create_all(connection)
            connection.execute(
                task_table.insert(),
                [{"key": key, "value": json.dumps(value)} for key, value in values.items()],
            )
            rows = item_rows(items, settings)
            while batch := list(islice(rows, _BATCH)):
                connection.execute(item_table.insert(), batch)
            if path is not None:
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        engine.dispose()
        if path is not None:
            os.rename(part, path)
    finally:
        engine.dispose()
        if path is not None:
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{part}{suffix}")


def has_task(target: str | Path) -> bool:
    """Check whether a database exists and has a task; one of another program is refused."""
    url = database_url(target)
    if url.get_backend_name() == "sqlite":
        if not Path(str(url.database)).exists():
            return False
        Task(target).close()
        return True
    engine = connect(target)
    try:
        with clear_errors(name_of(url)), engine.connect() as connection:
            return sa.inspect(connection).has_table(task_table.name)
    finally:
        engine.dispose()


class Task:
    """An annotation task in a database.

    Methods that write take part in a transaction that one thread commits for all; they return when
    their result is on disk. ``submit`` gives a future instead, for the server.
    """

    def __init__(self, target: str | Path) -> None:
        self.url = database_url(target)
        self.target, self.name = str(target), name_of(self.url)
        self.is_file = self.url.get_backend_name() == "sqlite"
        self._reader = connect(target)
        with clear_errors(self.name), self._reader.connect() as connection:
            self.settings = Settings.from_dict(read_settings(connection, self.name))
        self._writer = connect(target, writes=True)
        with clear_errors(self.name), self._writer.begin() as connection:
            connection.execute(task_table.update().where(task_table.c.key == "").values(value=""))
        self._present = self._files()
        self._jobs: queue.SimpleQueue[tuple[Callable[..., Any], Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True, name="naysay-writer")
        self._thread.start()
        self._rng = random.Random()
        self._cursors: dict[tuple[int, int], int] = {}  # how far each person is in each pool
        self._resting: dict[int, float] = {}  # when the queue of a person was found empty
        self._swept = 0.0
        self._estimate: int | None = None  # the latest one
        self._n_known: int | None = None

    def __enter__(self) -> "Task":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what was submitted, and close the database."""
        self._jobs.put(None)
        self._thread.join(timeout=60)
        self._writer.dispose()
        self._reader.dispose()

    # The thread that writes.

    def submit(self, work: Callable[..., T], *args: Any) -> "Future[T]":
        """Submit ``work(connection, *args)`` to the thread that writes."""
        future: Future[T] = Future()
        self._jobs.put((lambda connection: work(connection, *args), future))
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

    def _commit(self, jobs: list[tuple[Callable[..., Any], Future[Any]]]) -> None:
        """Run jobs in one transaction, each in a savepoint, and report once it is committed."""
        results: list[tuple[Future[Any], Any, BaseException | None]] = []
        for attempt in range(_RETRIES):
            results.clear()
            try:
                self._check_present()
                with self._writer.begin() as connection:
                    for work, future in jobs:
                        results.append((future, *_in_savepoint(connection, work)))
                    self._check_present()
            except OperationalError as error:
                if attempt + 1 < _RETRIES:
                    time.sleep(0.05 * 2**attempt * (1 + self._rng.random()))
                    continue
                problem = LostDatabase(f"The database {self.name} cannot be used: {error.orig}")
                results = [(future, None, problem) for _, future in jobs]
            except Exception as error:
                results = [(future, None, error) for _, future in jobs]
            break
        for future, value, error in results:
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def _files(self) -> list[int]:
        """Identify the files of an SQLite database: data and latest changes."""
        if not self.is_file:
            return []
        try:
            return [os.stat(f"{self.name}{suffix}").st_ino for suffix in ("", "-wal")]
        except OSError:
            return [-1]

    def _check_present(self) -> None:
        """Check that the file is still the one that was opened: another one would lose answers."""
        if self._files() != self._present:
            raise LostDatabase(
                f"The database {self.name} was moved or removed while the server runs. Put it back "
                "and start the server again. Nothing was acknowledged since."
            )

    # Dealing questions.

    def deal(self, who: int, want: int = 6, *, now: float | None = None) -> list[Question]:
        """Lease questions to a person until they have `want`, and list all that they have."""
        return self.submit(self.deal_in, who, want, now).result()

    def deal_in(
        self, connection: sa.Connection, who: int, want: int, now: float | None = None
    ) -> list[Question]:
        """Deal in a transaction."""
        now = time.time() if now is None else now
        if now - self._swept >= _SWEEP or now < self._swept:
            self._sweep(connection, now)
        until = now + self.settings.lease
        held = connection.execute(_HELD, {"who": who, "state": LEASED, "most": 50}).all()
        if held and min(row.until for row in held) < until - self.settings.lease / 4:
            connection.execute(_RENEW, [{"deal_id": row.deal, "until_": until} for row in held])
        missing = want - len(held)
        if missing > 0 and now - self._resting.get(who, -_REST) >= _REST:
            held = [*held, *self._deal_more(connection, who, missing, now)]
            if len(held) < want:
                self._resting[who] = now
            else:
                self._resting.pop(who, None)
        return [
            Question(row.deal, row.item, row.name, row.cells, row.question, json.loads(row.offered))
            for row in held
        ]

    def _deal_more(self, connection: sa.Connection, who: int, want: int, now: float) -> list[Any]:
        found = self._lease_again(connection, who, want, RELEASED, now)
        n_known = sum(self._rng.random() < self._known_rate(connection) for _ in range(want))
        chosen: list[tuple[Any, str]] = []
        if len(found) < want and n_known:
            rows = connection.execute(_KNOWN, {"who": who, "most": min(n_known, want - len(found))})
            chosen += [(row, "known") for row in rows]
        lacking = want - len(found) - len(chosen)
        n_random = sum(self._rng.random() < self.settings.random_share for _ in range(lacking))
        for pool, most in (
            (0, n_random),
            (1, lacking),
            (0, lacking),
        ):  # one stands in for the other
            taken = {row.item for row, _ in chosen}
            most = min(most, want - len(found) - len(chosen))
            rows = self._from_pool(connection, who, pool, most + len(taken)) if most else []
            rows = [row for row in rows if row.item not in taken][:most]
            chosen += [(row, "model" if row.chosen else "random") for row in rows]
        if chosen:
            found += self._lease(connection, who, chosen, now)
        if len(found) < want:
            found += self._lease_again(connection, who, want - len(found), LATER, now)
        return found

    def _known_rate(self, connection: sa.Connection) -> float:
        if self._n_known is None:
            known = sa.select(sa.func.count()).where(item.known.is_not(None))
            self._n_known = connection.execute(known).scalar_one()
        return self.settings.known_rate if self._n_known else 0.0

    def _from_pool(
        self, connection: sa.Connection, who: int, pool: int, most: int
    ) -> Sequence[Any]:
        """Find examples that need answers and were never dealt to this person."""
        if most <= 0:
            return []
        after = self._cursors.get((who, pool), -(2**62))
        facts = {"who": who, "pool": pool, "most": most}
        rows = connection.execute(_FRESH, {**facts, "after": after}).all()
        if len(rows) < most and after > -(2**62):  # leases that ended may be before the cursor
            rows = connection.execute(_FRESH, {**facts, "after": -(2**62)}).all()
        if rows:
            self._cursors[who, pool] = max(after, rows[0].place - 1)
        return rows

    def _lease(
        self, connection: sa.Connection, who: int, chosen: list[tuple[Any, str]], now: float
    ) -> list[Any]:
        rows = []
        for row, asked_by in chosen:
            question, offered = self.settings.draw(row.item, who)
            rows.append(
                {
                    "item": row.item,
                    "person": who,
                    "question": question,
                    "offered": json.dumps(offered),
                    "asked_by": asked_by,
                    "dealt": now,
                    "until": now + self.settings.lease,
                    "state": LEASED,
                }
            )
        ids = connection.execute(_INSERT_DEALS, rows).scalars().all()
        taken = [row.item for row, asked_by in chosen if asked_by != "known"]
        if taken:
            connection.execute(_TAKE, [{"item_id": each} for each in taken])
        return [
            _Held(number, each["item"], row.name, row.cells, each["question"], each["offered"])
            for number, each, (row, _) in zip(ids, rows, chosen, strict=True)
        ]

    def _lease_again(
        self, connection: sa.Connection, who: int, most: int, state: int, now: float
    ) -> list[Any]:
        """Lease questions again that this person had: those whose lease ended, or put off."""
        rows = connection.execute(_HELD, {"who": who, "state": state, "most": most}).all()
        leased = []
        for row in rows:
            if row.known is None and not _take(connection, row.item):
                continue  # others have answered it since
            connection.execute(
                _SET_STATE,
                {"deal_id": row.deal, "to": LEASED, "until_": now + self.settings.lease},
            )
            leased.append(row)
        return leased

    def _sweep(self, connection: sa.Connection, now: float) -> None:
        """Give back the questions whose leases have ended."""
        self._swept = now
        latest = connection.execute(sa.select(sa.func.max(estimate_table.c.id))).scalar()
        if latest != self._estimate:  # a new model has ranked the items
            self._estimate = latest
            self._cursors.clear()
        ended = connection.execute(_ENDED, {"now": now, "most": 1000}).all()
        if ended:
            connection.execute(
                _SET_STATE, [{"deal_id": row.id, "to": RELEASED, "until_": 0.0} for row in ended]
            )
            back = [{"item_id": row.item} for row in ended if row.known is None]
            if back:
                connection.execute(_GIVE_BACK, back)
            self._resting.clear()

    # Answers.

    def answer(self, who: int, given: dict[str, Any], *, now: float | None = None) -> str:
        """Save an answer once, whatever happens: see `answer_in`."""
        return self.submit(self.answer_in, who, given, now).result()

    def answer_in(
        self, connection: sa.Connection, who: int, given: dict[str, Any], now: float | None = None
    ) -> str:
        """Save an answer in a transaction: "saved", or why not.

        `given` has ``id`` (drawn by the page: the same id is saved once), ``deal``, ``said``,
        ``label`` and ``seconds``. "taken" means that the lease had ended and others have answered
        since; "answered", that this question has another answer.
        """
        row = connection.execute(_TO_ANSWER, {"deal_id": given["deal"], "key": given["id"]}).first()
        if row is None or row.person != who:
            raise InvalidInput("There is no such question for this person.")
        if row.same is not None:
            if row.same != given["deal"]:
                raise InvalidInput("This id belongs to the answer to another question.")
            return "saved"
        label = check_answer(given, row.question, json.loads(row.offered), self.settings)
        if row.state == ANSWERED:
            return "answered"
        if row.state != LEASED and row.known is None and not _take(connection, row.item):
            return "taken"
        connection.execute(
            _INSERT_ANSWER,
            {
                "id": given["id"],
                "deal": given["deal"],
                "said": given["said"],
                "label": label,
                "seconds": given.get("seconds"),
                "answered": time.time() if now is None else now,
            },
        )
        connection.execute(_SET_STATE, {"deal_id": given["deal"], "to": ANSWERED, "until_": 0.0})
        return "saved"

    def undo(self, who: int, key: str, *, now: float | None = None) -> Question | None:
        """Withdraw an answer of this person, and lease them the question again."""
        return self.submit(self.undo_in, who, key, now).result()

    def undo_in(
        self, connection: sa.Connection, who: int, key: str, now: float | None = None
    ) -> Question | None:
        """Withdraw an answer in a transaction; None if there is no such answer."""
        now = time.time() if now is None else now
        row = connection.execute(_ANSWERED, {"key": key}).first()
        if row is None or row.person != who:
            return None
        if row.withdrawn is None:
            connection.execute(_WITHDRAW, {"key": key, "now": now})
            until = now + self.settings.lease
            connection.execute(_SET_STATE, {"deal_id": row.deal, "to": LEASED, "until_": until})
        return Question(
            row.deal, row.item, row.name, row.cells, row.question, json.loads(row.offered)
        )

    def later(self, who: int, number: int) -> bool:
        """Put a question off: nothing is recorded, and it comes again when no other is left."""
        return self.submit(self.later_in, who, number).result()

    def later_in(self, connection: sa.Connection, who: int, number: int) -> bool:
        """Put a question off in a transaction."""
        row = connection.execute(_TO_ANSWER, {"deal_id": number, "key": ""}).first()
        if row is None or row.person != who or row.state != LEASED:
            return False
        connection.execute(_PUT_OFF, {"deal_id": number, "now": time.time()})
        if row.known is None:
            connection.execute(_GIVE_BACK, {"item_id": row.item})
        return True

    def reopen(self, keys: Sequence[str]) -> int:
        """Withdraw answers that look wrong; their questions are asked again. Return how many."""

        def work(connection: sa.Connection) -> int:
            n_reopened = 0
            for key in keys:
                row = connection.execute(_ANSWERED, {"key": key}).first()
                if row is None or row.withdrawn is not None:
                    continue
                connection.execute(_WITHDRAW, {"key": key, "now": time.time()})
                connection.execute(_SET_STATE, {"deal_id": row.deal, "to": RELEASED, "until_": 0.0})
                if row.known is None:
                    connection.execute(_GIVE_BACK, {"item_id": row.item})
                n_reopened += 1
            self._resting.clear()
            return n_reopened

        return self.submit(work).result()

    # People.

    def invite(self, name: str, *, is_owner: bool = False) -> str:
        """Add a person, or give one a new link, and return the token of the link."""
        name = name.strip()
        if not name or len(name) > 100 or not name.isprintable():
            raise InvalidInput("The name of a person must have 1 to 100 printable characters.")
        token = secrets.token_urlsafe(24)

        def work(connection: sa.Connection) -> None:
            known = connection.execute(sa.select(person_table).where(person.name == name)).first()
            values = {"token": _digest(token), "is_owner": is_owner}
            if known is None:
                row = {"name": name, "joined": time.time(), **values}
                connection.execute(person_table.insert(), row)
            else:
                values["is_owner"] = bool(known.is_owner or is_owner)
                changed = person_table.update().where(person.id == known.id)
                connection.execute(changed.values(**values))

        self.submit(work).result()
        return token

    def local_person(self, name: str) -> Person:
        """Find or add the owner who works at this machine, without a token."""

        def work(connection: sa.Connection) -> Person:
            found = connection.execute(sa.select(person_table).where(person.name == name)).first()
            if found is None:
                row = {"name": name, "is_owner": True, "joined": time.time()}
                connection.execute(person_table.insert(), row)
                found = connection.execute(sa.select(person_table).where(person.name == name)).one()
            return Person(found.id, found.name, True)

        return self.submit(work).result()

    def remember(self, address: str) -> None:
        """Remember where the server runs, for links."""

        def work(connection: sa.Connection) -> None:
            connection.execute(task_table.delete().where(task_table.c.key == "address"))
            row = {"key": "address", "value": json.dumps(address)}
            connection.execute(task_table.insert(), row)

        self.submit(work).result()

    def address(self) -> str | None:
        """Look up where the server last ran."""
        query = sa.select(task_table.c.value).where(task_table.c.key == "address")
        found = self.read(lambda connection: connection.execute(query).scalar())
        return None if found is None else json.loads(found)

    def find_person(self, token: str) -> Person | None:
        """Find the person whose link has this token."""
        with self._reader.connect() as connection:
            found = connection.execute(
                sa.select(person_table).where(person.token == _digest(token))
            ).first()
        return None if found is None else Person(found.id, found.name, bool(found.is_owner))

    # Reading.

    def read(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(connection, *args)`` in a transaction that only reads."""
        with self._reader.connect() as connection:
            return work(connection, *args)

    def path_of(self, number: int) -> str | None:
        """Find the path of the image of an item, below the folder of images."""
        if self.settings.kind != "images":
            return None
        query = sa.select(item.name).where(item.id == number)
        return self.read(lambda connection: connection.execute(query).scalar())

    def progress(self, who: int) -> dict[str, int]:
        """Count the answers of a person, those of all, and those that are wanted."""

        def work(connection: sa.Connection) -> dict[str, int]:
            mine = sa.select(sa.func.count()).where(
                deal.person == who, deal.state == ANSWERED, deal.asked_by != "known"
            )
            done = sa.select(sa.func.count()).where(
                deal.state == ANSWERED, deal.asked_by != "known"
            )
            items = sa.select(sa.func.count()).where(item.known.is_(None))
            n_items = connection.execute(items).scalar_one()
            return {
                "mine": connection.execute(mine).scalar_one(),
                "all": connection.execute(done).scalar_one(),
                "items": n_items,
                "wanted": n_items * self.settings.n_answers,
            }

        return self.read(work)

    def save_estimate(self, report: dict[str, Any], ranked: Sequence[int]) -> None:
        """Save what a model found, and the order in which it asks about the items of its pool."""
        order = [{"item_id": number, "to": place} for place, number in enumerate(ranked)]

        def first(connection: sa.Connection) -> None:
            row = {"made": time.time(), "n_answers": report["n_answers"]}
            connection.execute(
                estimate_table.insert(), {**row, "report": json.dumps(report, allow_nan=False)}
            )

        self.submit(first).result()
        for start in range(0, len(order), _BATCH):  # in parts, so that answers need not wait
            part = order[start : start + _BATCH]
            self.submit(lambda connection, part=part: connection.execute(_RANK, part)).result()

    def unasked(self) -> list[tuple[int, str, str | None]]:
        """List the items of the pool of the model that need answers: id, name and cells."""
        query = sa.select(item.id, item.name, item.cells).where(item.pool == 1, item.room > 0)
        rows = self.read(lambda connection: connection.execute(query).all())
        return [(row.id, row.name, row.cells) for row in rows]

    def items(self) -> Iterator[tuple[int, str, str | None]]:
        """Yield all items, a batch at a time: id, name and cells."""
        query = sa.select(item.id, item.name, item.cells).order_by(item.id)
        with self._reader.connect().execution_options(yield_per=10_000) as connection:
            for row in connection.execute(query):
                yield row.id, row.name, row.cells

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield all valid answers, a batch at a time, with everything about them."""
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
        query = (
            sa.select(*columns)
            .select_from(
                answer_table.join(deal_table, answer.deal == deal.id)
                .join(item_table, deal.item == item.id)
                .join(person_table, deal.person == person.id)
            )
            .where(IS_VALID)
        )
        lists: dict[str, str] = {}
        with self._reader.connect().execution_options(yield_per=10_000) as connection:
            for name, who, question, raw, said, label, known, *rest in connection.execute(
                query.order_by(deal.id)
            ):
                offered = lists.get(raw)
                if offered is None:
                    offered = "|".join(str(classes[each]) for each in json.loads(raw))
                    lists[raw] = offered
                asked_by, seconds, answered, key = rest
                yield {
                    "item": name,
                    "annotator": who,
                    "question": question,
                    "offered": offered,
                    "answer": said,
                    "label": classes[-1 if label is None else label],
                    "true_label": classes[-1 if known is None else known],
                    "asked_by": asked_by,
                    "seconds": seconds,
                    "answered": answered,
                    "id": key,
                }

    def copy_to(self, target: str | Path) -> dict[str, int]:
        """Copy the whole task to another database, in one transaction; count the rows."""
        url = database_url(target)
        is_file = url.get_backend_name() == "sqlite"
        if is_file and Path(str(url.database)).exists():
            raise InvalidInput(f"{url.database} exists already. Name another file.")
        engine, counts = connect(target, writes=True, creates=True), {}
        try:
            with clear_errors(name_of(url)), engine.begin() as new:
                if sa.inspect(new).has_table(task_table.name):
                    raise InvalidInput(f"{name_of(url)} has a task already. Name another database.")
                tables.create_all(new)
                with self._reader.connect().execution_options(yield_per=_BATCH) as old:
                    for table in tables.sorted_tables:
                        counts[table.name] = 0
                        for rows in old.execute(sa.select(table)).mappings().partitions():
                            new.execute(table.insert(), [dict(row) for row in rows])
                            counts[table.name] += len(rows)
                        n_copied = new.execute(sa.select(sa.func.count()).select_from(table))
                        if n_copied.scalar_one() != counts[table.name]:
                            raise InvalidData(f"The copy of {table.name} is not complete.")
                        if not is_file and "id" in table.c and table.c.id.type.python_type is int:
                            new.execute(sa.text(_NEXT_ID.format(table.name)))
                if is_file:
                    new.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        finally:
            engine.dispose()
        return counts


# The numbers that PostgreSQL gives to new rows go on after those that were copied.
_NEXT_ID = (
    "SELECT setval(pg_get_serial_sequence('{0}', 'id'), (SELECT max(id) FROM {0}) + 1, false) "
    "FROM {0} LIMIT 1"
)


def check_answer(
    given: dict[str, Any], question: str, offered: list[int], settings: Settings
) -> int | None:
    """Check that an answer fits its question, and return the class that it is about."""
    said, label, seconds = given.get("said"), given.get("label"), given.get("seconds")
    allowed = {"unknown", "yes", "no"} if question == "yes-no" else {"unknown", "not"}
    if settings.none_of_these and question != "yes-no":
        allowed.add("none")
    if said not in allowed:
        raise InvalidInput(f"The answer must be one of {', '.join(sorted(allowed))}.")
    if seconds is not None and not (isinstance(seconds, int | float) and 0 <= seconds < 1e9):
        raise InvalidInput("seconds must be a number that is not negative.")
    key = given.get("id")
    if not (isinstance(key, str) and 8 <= len(key) <= 64):
        raise InvalidInput("id must be a text of 8 to 64 characters.")
    if said == "not":
        if isinstance(label, bool) or label not in offered:
            raise InvalidInput("The label must be one of the classes that were offered.")
        return label
    return offered[0] if question == "yes-no" and said != "unknown" else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _in_savepoint(
    connection: sa.Connection, work: Callable[..., Any]
) -> tuple[Any, BaseException | None]:
    try:
        with connection.begin_nested():
            return work(connection), None
    except (NaysayError, IntegrityError) as error:
        return None, error
    except DBAPIError:
        raise
    except Exception as error:
        return None, error


def _take(connection: sa.Connection, number: int) -> bool:
    """Take one of the answers wanted about an item, if there is one left."""
    return connection.execute(_TAKE, {"item_id": number}).rowcount == 1


# The statements, made once.
class _Held(NamedTuple):
    deal: int
    item: int
    name: str
    cells: str | None
    question: str
    offered: str


_who, _most = sa.bindparam("who"), sa.bindparam("most")
_HELD = (
    sa.select(
        deal.id.label("deal"),
        deal.item,
        item.name,
        item.cells,
        deal.question,
        deal.offered,
        deal.until,
        item.known,
    )
    .join_from(deal_table, item_table, deal.item == item.id)
    .where(deal.person == _who, deal.state == sa.bindparam("state"), deal.state != ANSWERED)
    .order_by(deal.dealt, deal.id)
    .limit(_most)
)
_was_dealt = sa.exists().where(deal.item == item.id, deal.person == _who)
_FRESH = (
    sa.select(item.id.label("item"), item.name, item.cells, item.chosen, item.place)
    .where(
        item.room > 0,
        item.pool == sa.bindparam("pool"),
        item.place > sa.bindparam("after"),
        ~_was_dealt,
    )
    .order_by(item.place)
    .limit(_most)
    .with_for_update(skip_locked=True)
)
_KNOWN = (
    sa.select(item.id.label("item"), item.name, item.cells, item.chosen, item.place)
    .where(item.known.is_not(None), ~_was_dealt)
    .order_by(item.place)
    .limit(_most)
)
_INSERT_DEALS = deal_table.insert().returning(deal.id, sort_by_parameter_order=True)
_TAKE = (
    item_table.update()
    .where(item.id == sa.bindparam("item_id"), item.room > 0)
    .values(room=item.room - 1)
)
_GIVE_BACK = (
    item_table.update().where(item.id == sa.bindparam("item_id")).values(room=item.room + 1)
)
_RANK = (
    item_table.update()
    .where(item.id == sa.bindparam("item_id"), item.pool == 1)
    .values(place=sa.bindparam("to"), chosen=1)
)
_RENEW = (
    deal_table.update()
    .where(deal.id == sa.bindparam("deal_id"))
    .values(until=sa.bindparam("until_"))
)
_SET_STATE = (
    deal_table.update()
    .where(deal.id == sa.bindparam("deal_id"))
    .values(state=sa.bindparam("to"), until=sa.bindparam("until_"))
)
_PUT_OFF = (
    deal_table.update()
    .where(deal.id == sa.bindparam("deal_id"))
    .values(state=LATER, until=0.0, dealt=sa.bindparam("now"))
)
_ENDED = (
    sa.select(deal.id, deal.item, item.known)
    .join_from(deal_table, item_table, deal.item == item.id)
    .where(deal.state == LEASED, deal.until < sa.bindparam("now"))
    .limit(_most)
    .with_for_update(skip_locked=True, of=deal_table)
)
_same = sa.select(answer_table.c.deal).where(answer.id == sa.bindparam("key")).scalar_subquery()
_TO_ANSWER = (
    sa.select(
        deal.person,
        deal.item,
        deal.state,
        deal.question,
        deal.offered,
        item.known,
        _same.label("same"),
    )
    .join_from(deal_table, item_table, deal.item == item.id)
    .where(deal.id == sa.bindparam("deal_id"))
    .with_for_update(of=deal_table)
)
_INSERT_ANSWER = answer_table.insert()
_ANSWERED = (
    sa.select(
        deal.person,
        deal.id.label("deal"),
        deal.item,
        item.name,
        item.cells,
        item.known,
        deal.question,
        deal.offered,
        answer.withdrawn,
    )
    .select_from(
        answer_table.join(deal_table, answer.deal == deal.id).join(item_table, deal.item == item.id)
    )
    .where(answer.id == sa.bindparam("key"))
    .with_for_update(of=deal_table)
)
_WITHDRAW = (
    answer_table.update()
    .where(answer.id == sa.bindparam("key"))
    .values(withdrawn=sa.bindparam("now"))
)
