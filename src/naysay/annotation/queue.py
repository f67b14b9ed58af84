"""The queue of a task: it assigns questions to people and saves their answers.

Questions are leased: a question that was assigned ("dealt") to a person stays reserved for that
person for some minutes, so that no example gets more answers than wanted. All methods run inside a
transaction of the caller.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from naysay._base import task_tables as db
from naysay._base.errors import InvalidData, InvalidInput
from naysay.annotation.questions import Item, Settings

item, deal, answer = db.item_table.c, db.deal_table.c, db.answer_table.c
AHEAD = 8  # questions that the page fetches in advance
MOST_AHEAD = 50  # that a page can ask for
_SWEEP = 2.0  # seconds between two searches for expired leases
_REST = 2.0  # seconds to wait after the queue of a person was found empty
_START = -(2**62)  # a place before the first one


_Rows = dict[int, list[Any]]  # rows of the database by person


class Question(NamedTuple):
    """A question that was assigned to a person."""

    deal: int
    item: int
    name: str
    cells: str | None  # JSON
    question: str
    offered: list[int]


class Queue:
    """Assigns questions and saves answers. Each process that serves a task has one such object."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._rng = random.Random()
        self._cursors: dict[tuple[int, int], int] = {}  # the position of each person in each pool
        self._resting: dict[int, float] = {}  # when the queue of a person was found empty
        self._swept = 0.0
        self._estimate: int | None = None  # the number of the latest estimate
        self._n_known: int | None = None

    def deal(
        self, connection: sa.Connection, wants: Mapping[int, int], now: float | None = None
    ) -> dict[int, list[Question]]:
        """Lease questions until each person has the wanted number; return the questions of each.

        All people are handled together, because each statement is a round trip to the database.
        """
        now = time.time() if now is None else now
        if now - self._swept >= _SWEEP or now < self._swept:
            self._sweep(connection, now)
        leased, others = self._held(connection, wants)
        until, soon = now + self.settings.lease, now + 0.75 * self.settings.lease
        ending = [rows for rows in leased.values() if any(row.until < soon for row in rows)]
        if ending:
            numbers = [row.deal for rows in ending for row in rows]
            connection.execute(_RENEW, {"deals": _padded(numbers), "until_": until})
        lacking = {
            who: want - len(leased[who])
            for who, want in wants.items()
            if want > len(leased[who]) and now - self._resting.get(who, -_REST) >= _REST
        }
        if lacking:
            self._deal_more(connection, lacking, others, now)
            leased, _ = self._held(connection, wants)
            for who in lacking:
                if len(leased[who]) < wants[who]:
                    self._resting[who] = now
                else:
                    self._resting.pop(who, None)
        return {who: [_question(row) for row in rows] for who, rows in leased.items()}

    def _held(self, connection: sa.Connection, people: Iterable[int]) -> tuple[_Rows, list[Any]]:
        """Find the questions that are leased to each person, and those that can be leased again."""
        rows = connection.execute(_HELD, {"people": _padded(people)}).all()
        leased: _Rows = {who: [] for who in people}
        for row in rows:
            if row.state == db.LEASED:
                leased[row.person].append(row)
        return leased, [row for row in rows if row.state != db.LEASED]

    def _deal_more(
        self, connection: sa.Connection, wants: dict[int, int], others: list[Any], now: float
    ) -> None:
        """Lease up to the given number of further questions to each person."""
        wants = self._lease_again(connection, others, db.RELEASED, wants, now)
        chosen: _Rows = {who: [] for who in wants}

        def lacking() -> dict[int, int]:
            return {who: want - len(chosen[who]) for who, want in wants.items()}

        if known_rate := self._known_rate(connection):
            self._choose(connection, _KNOWN, self._draw(wants, known_rate), chosen)
        draw = self._draw(lacking(), self.settings.random_share)
        self._choose(connection, 0, draw, chosen)
        for pool in (1, 0):  # each pool fills up what the other lacks
            self._choose(connection, pool, lacking(), chosen)
        if any(chosen.values()):
            self._lease(connection, chosen, now)
        self._lease_again(connection, others, db.LATER, lacking(), now)

    def _draw(self, numbers: dict[int, int], rate: float) -> dict[int, int]:
        """Draw for each person how many of the questions are of a kind that occurs at this rate."""
        return {who: sum(self._rng.random() < rate for _ in range(n)) for who, n in numbers.items()}

    def _known_rate(self, connection: sa.Connection) -> float:
        if self._n_known is None:
            known = sa.select(sa.func.count()).where(item.known.is_not(None))
            self._n_known = connection.execute(known).scalar_one()
        return self.settings.known_rate if self._n_known else 0.0

    def _choose(
        self, connection: sa.Connection, pool: int, numbers: dict[int, int], chosen: _Rows
    ) -> None:
        """Choose the given number of examples of a pool for each person to whom they are new.

        The pool is searched for all people together, then for each person who still lacks some,
        and finally from its start, where examples with expired leases may be found.
        """
        numbers = {who: n + len(chosen[who]) for who, n in numbers.items() if n}
        here = {who: self._cursors.get((who, pool), _START) for who in numbers}
        searches = [([who], after) for who, after in here.items()]
        searches += [([who], _START) for who, after in here.items() if after > _START]
        if len(here) > 1:
            searches.insert(0, ([*here], min(here.values())))
        for people, after in searches:
            lacking = {who: n for who in people if (n := numbers[who] - len(chosen[who])) > 0}
            if not lacking:
                continue
            taken = Counter(row.item for rows in chosen.values() for row in rows)
            facts = {"after": after, "most": sum(lacking.values()) + len(taken)}
            dealt: set[tuple[int, int]] = set()
            if len(people) > 1:
                rows = connection.execute(_FRESH[pool], facts).all()
                items = [row.item for row in rows]
                pairs = {"people": _padded(people), "items": _padded(items)}
                dealt = {(row.person, row.item) for row in connection.execute(_DEALT, pairs)}
            else:
                rows = connection.execute(_FRESH_TO_ONE[pool], {**facts, "who": people[0]}).all()
            for who, n in lacking.items():
                new = [row for row in rows if (who, row.item) not in dealt]
                if new:
                    self._cursors[who, pool] = max(here[who], new[0].place - 1)
                mine = {row.item for row in chosen[who]}
                free = [
                    row
                    for row in new
                    if row.item not in mine and (pool == _KNOWN or row.room > taken[row.item])
                ]
                chosen[who] += free[:n]
                taken.update(row.item for row in free[:n])

    def _lease(self, connection: sa.Connection, chosen: _Rows, now: float) -> None:
        new = []
        for who, rows in chosen.items():
            for row in rows:
                question, offered = self.settings.draw(row.item, who)
                by = "known" if row.known is not None else "model" if row.chosen else "random"
                new.append(
                    {
                        "item": row.item,
                        "person": who,
                        "question": question,
                        "offered": json.dumps(offered),
                        "asked_by": by,
                        "dealt": now,
                        "until": now + self.settings.lease,
                        "state": db.LEASED,
                    }
                )
        connection.execute(_INSERT_DEALS, new)
        taken = Counter(row.item for rows in chosen.values() for row in rows if row.known is None)
        while taken:  # several people may have got the same example
            connection.execute(_TAKE_ALL, {"items": _padded(taken)})
            taken = Counter({number: n - 1 for number, n in taken.items() if n > 1})

    def _lease_again(
        self,
        connection: sa.Connection,
        rows: list[Any],
        state: int,
        wants: dict[int, int],
        now: float,
    ) -> dict[int, int]:
        """Lease questions again whose lease expired or that were put off.

        Returns how many questions each person still lacks.
        """
        wants = dict(wants)
        for row in rows:
            if row.state != state or wants.get(row.person, 0) <= 0:
                continue
            until = now + self.settings.lease
            leased = {"deal_id": row.deal, "was": state, "until_": until}
            if not connection.execute(_LEASE_AGAIN, leased).rowcount:
                continue  # another server has leased it to this person already
            # others may have answered it since
            if row.known is None and not _take(connection, row.item):
                back = {"deal_id": row.deal, "to": state, "until_": 0.0}
                connection.execute(_SET_STATE, back)
                continue
            wants[row.person] -= 1
        return wants

    def _sweep(self, connection: sa.Connection, now: float) -> None:
        """Release the questions whose leases have expired."""
        self._swept = now
        latest = connection.execute(sa.select(sa.func.max(db.estimate_table.c.id))).scalar()
        if latest != self._estimate:  # a new model has ranked the items
            self._estimate = latest
            self._cursors.clear()
        ended = connection.execute(_ENDED, {"now": now, "most": 1000}).all()
        if ended:
            connection.execute(
                _SET_STATE, [{"deal_id": row.id, "to": db.RELEASED, "until_": 0.0} for row in ended]
            )
            back = [{"item_id": row.item} for row in ended if row.known is None]
            if back:
                connection.execute(_GIVE_BACK, back)
            self._resting.clear()

    def answer(
        self,
        connection: sa.Connection,
        given: Sequence[tuple[int, dict[str, Any], float]],
    ) -> list[str | InvalidInput]:
        """Save answers, each given with its person and time, and return the status of each.

        An answer has ``id`` (drawn by the page; an answer that arrives twice with the same id is
        saved once), ``deal``, ``said``, ``label`` and ``seconds``. The status is "saved"; "taken"
        if the lease had expired and other people have answered since; "answered" if the question
        has another answer already; or an error if the answer does not fit its question.
        """
        deals = sorted({each["deal"] for _, each, _ in given})
        rows = {row.id: row for row in connection.execute(_TO_ANSWER, {"deals": _padded(deals)})}
        states = {number: row.state for number, row in rows.items()}
        keys = _padded(each["id"] for _, each, _ in given if _is_key(each["id"]))
        saved = {row.id: row.deal for row in connection.execute(_SAVED, {"keys": keys})}
        found: list[str | InvalidInput] = []
        new: list[dict[str, Any]] = []
        for who, each, now in given:
            row = rows.get(each["deal"])
            try:
                status, label = self._check(row, who, each, saved)
            except InvalidInput as problem:
                found.append(problem)
                continue
            number = each["deal"]
            if status is None and states[number] == db.ANSWERED:
                status = "answered"
            if (
                status is None
                and states[number] != db.LEASED
                and rows[number].known is None
                and not _take(connection, rows[number].item)
            ):
                status = "taken"
            if status is None:
                status, states[number], saved[each["id"]] = "saved", db.ANSWERED, number
                facts = {"id": each["id"], "deal": number, "said": each["said"], "label": label}
                new.append({**facts, "seconds": each.get("seconds"), "answered": now})
            found.append(status)
        if new:
            connection.execute(_INSERT_ANSWER, new)
            answered = _padded(each["deal"] for each in new)
            connection.execute(_ARE_ANSWERED, {"deals": answered})
        return found

    def _check(
        self, row: Any, who: int, given: dict[str, Any], saved: dict[str, int]
    ) -> tuple[str | None, int | None]:
        """Check an answer; return "saved" if it is known already, and the class it is about."""
        if row is None or row.person != who:
            raise InvalidInput("This question was not assigned to this person.")
        if given["id"] in saved:
            if saved[given["id"]] != given["deal"]:
                raise InvalidInput("This id belongs to an answer to another question.")
            return "saved", None
        return None, check_answer(given, row.question, json.loads(row.offered), self.settings)

    def undo(
        self, connection: sa.Connection, who: int, key: str, now: float | None = None
    ) -> Question | None:
        """Withdraw an answer and lease its question to the person again; None if there is none."""
        now = time.time() if now is None else now
        row = connection.execute(_ANSWERED, {"key": key}).first() if _is_key(key) else None
        if row is None or row.person != who:
            return None
        if row.withdrawn is None:
            connection.execute(_WITHDRAW, {"key": key, "now": now})
            until = now + self.settings.lease
            connection.execute(_SET_STATE, {"deal_id": row.deal, "to": db.LEASED, "until_": until})
        return _question(row)

    def later(self, connection: sa.Connection, who: int, number: int) -> bool:
        """Put a question off: nothing is recorded, and it is asked again after all others."""
        row = connection.execute(_TO_ANSWER, {"deals": [number]}).first()
        if row is None or row.person != who or row.state != db.LEASED:
            return False
        connection.execute(_PUT_OFF, {"deal_id": number, "now": time.time()})
        if row.known is None:
            connection.execute(_GIVE_BACK, {"item_id": row.item})
        return True

    def reopen(self, connection: sa.Connection, keys: Sequence[str]) -> int:
        """Withdraw answers so that their questions are asked again; return the number withdrawn."""
        n_reopened = 0
        for key in filter(_is_key, keys):
            row = connection.execute(_ANSWERED, {"key": key}).first()
            facts = {"key": key, "now": time.time()}
            if row is None or not connection.execute(_WITHDRAW, facts).rowcount:
                continue
            connection.execute(_SET_STATE, {"deal_id": row.deal, "to": db.RELEASED, "until_": 0.0})
            if row.known is None:
                connection.execute(_GIVE_BACK, {"item_id": row.item})
            n_reopened += 1
        self._resting.clear()
        return n_reopened

    def rank(self, connection: sa.Connection, places: Sequence[tuple[int, int]]) -> None:
        """Set the places, in the order of questions, of items that a model may choose."""
        order = [{"item_id": number, "to": place} for number, place in places]
        connection.execute(_RANK, order)


def _padded(values: Iterable[Any]) -> list[Any]:
    """Repeat the last value until the length is a power of 2.

    Then few different statements occur, and the database keeps all of them prepared.
    """
    found = list(values)
    return found + found[-1:] * ((1 << (len(found) - 1).bit_length()) - len(found))


def check_answer(
    given: dict[str, Any], question: str, offered: list[int], settings: Settings
) -> int | None:
    """Check that an answer fits its question, and return the class that it is about."""
    said, label, seconds = given.get("said"), given.get("label"), given.get("seconds")
    allowed = {"unknown", "yes", "no"} if question == "yes-no" else {"unknown", "not"}
    if settings.none_of_these and question != "yes-no":
        allowed.add("none")
    if not isinstance(said, str) or said not in allowed:
        raise InvalidInput(f"said must be one of {', '.join(sorted(allowed))}.")
    if seconds is not None and not (type(seconds) in (int, float) and 0 <= seconds < 1e9):
        raise InvalidInput("seconds must be a number of at least 0.")
    if not _is_key(given.get("id")):
        raise InvalidInput("id must be a string of 8 to 64 printable ASCII characters.")
    if said == "not":
        if type(label) is not int or label not in offered:
            raise InvalidInput("label must be one of the offered classes.")
        return label
    return offered[0] if question == "yes-no" and said != "unknown" else None


def _is_key(key: Any) -> bool:
    """Check the form of the id of an answer: PostgreSQL rejects some strings."""
    return isinstance(key, str) and 8 <= len(key) <= 64 and key.isascii() and key.isprintable()


def _take(connection: sa.Connection, number: int) -> bool:
    """Reserve one of the answers wanted for an item, if one is left."""
    return connection.execute(_TAKE_ALL, {"items": [number]}).rowcount == 1


def _question(row: Any) -> Question:
    offered = json.loads(row.offered)
    return Question(row.deal, row.item, row.name, row.cells, row.question, offered)


# The SQL statements, which are built once.


def _update(table: sa.Table, key: str, **values: Any) -> Any:
    """Build an update of the row whose id is the parameter `key`."""
    return table.update().where(table.c.id == sa.bindparam(key)).values(**values)


_bind, _some = sa.bindparam, partial(sa.bindparam, expanding=True)
_HAS_DEAL = deal.id.in_(_some("deals"))
_of_item = sa.join(db.deal_table, db.item_table, deal.item == item.id)
_question_facts = (
    deal.person,
    deal.id.label("deal"),
    deal.item,
    item.name,
    item.cells,
    item.known,
    deal.question,
    deal.offered,
)
_HELD = (
    sa.select(*_question_facts, deal.until, deal.state)
    .select_from(_of_item)
    .where(
        deal.person.in_(_some("people")),
        deal.state.in_([db.LEASED, db.RELEASED, db.LATER]),
        deal.state != db.ANSWERED,  # for the index
        sa.or_(deal.state == db.LEASED, item.room > 0, item.known.is_not(None)),
    )
    .order_by(deal.state, deal.dealt, deal.id)
)
_fresh = (
    sa.select(item.id.label("item"), item.place, item.known, item.room, item.chosen)
    .where(item.place > _bind("after"))
    .order_by(item.place)
    .limit(_bind("most"))
)
_FRESH = [  # for several people, some of whom may have seen these examples
    _fresh.where(item.room > 0, item.pool == pool).with_for_update(skip_locked=True)
    for pool in (0, 1)
]
_KNOWN = len(_FRESH)
_FRESH.append(_fresh.where(item.known.is_not(None)))
_was_dealt = sa.exists().where(deal.item == item.id, deal.person == _bind("who"))
_FRESH_TO_ONE = [statement.where(~_was_dealt) for statement in _FRESH]
_DEALT = sa.select(deal.person, deal.item).where(
    deal.person.in_(_some("people")), deal.item.in_(_some("items"))
)
_INSERT_DEALS = db.deal_table.insert()
_TAKE_ALL = (
    db.item_table.update()
    .where(item.id.in_(_some("items")), item.room > 0)
    .values(room=item.room - 1)
)
_GIVE_BACK = _update(db.item_table, "item_id", room=item.room + 1)
_RANK = _update(db.item_table, "item_id", place=_bind("to"), chosen=1).where(item.pool == 1)
_RENEW = db.deal_table.update().where(_HAS_DEAL).values(until=_bind("until_"))
_SET_STATE = _update(db.deal_table, "deal_id", state=_bind("to"), until=_bind("until_"))
_LEASE_AGAIN = _update(db.deal_table, "deal_id", state=db.LEASED, until=_bind("until_")).where(
    deal.state == _bind("was")
)
_PUT_OFF = _update(db.deal_table, "deal_id", state=db.LATER, until=0.0, dealt=_bind("now"))
_ENDED = (
    sa.select(deal.id, deal.item, item.known)
    .select_from(_of_item)
    .where(deal.state == db.LEASED, deal.until < _bind("now"))
    .limit(_bind("most"))
    .with_for_update(skip_locked=True, of=db.deal_table)
)
_TO_ANSWER = (
    sa.select(deal.id, deal.person, deal.item, deal.state, deal.question, deal.offered, item.known)
    .select_from(_of_item)
    .where(_HAS_DEAL)
    .order_by(deal.id)
    .with_for_update(of=db.deal_table)
)
_SAVED = sa.select(answer.id, answer.deal).where(answer.id.in_(_some("keys")))
_INSERT_ANSWER = db.answer_table.insert()
_ARE_ANSWERED = db.deal_table.update().where(_HAS_DEAL).values(state=db.ANSWERED, until=0.0)
_ANSWERED = (
    sa.select(*_question_facts, answer.withdrawn)
    .select_from(_of_item.join(db.answer_table, answer.deal == deal.id))
    .where(answer.id == _bind("key"))
    .with_for_update(of=db.deal_table)
)
_WITHDRAW = _update(db.answer_table, "key", withdrawn=_bind("now")).where(db.IS_VALID)


def item_rows(items: Sequence[Item], settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table of items.

    The items are shuffled, and divided at random into those that are always asked about in random
    order and those that a model may choose.
    """
    index_of = {name: index for index, name in enumerate(settings.classes)}
    rng = random.Random(settings.seed)
    places = list(range(len(items)))
    rng.shuffle(places)
    for item, place in zip(items, places, strict=True):
        if item.known is not None and item.known not in index_of:
            raise InvalidData(
                f"Known classes must be classes of the task. The class of {item.name} is "
                f"{item.known!r}."
            )
        cells = item.cells
        if cells is not None:
            cells = json.dumps(cells, ensure_ascii=False, default=str)
        yield {
            "name": item.name,
            "cells": cells,
            "known": None if item.known is None else index_of[item.known],
            "place": place,
            "pool": int(rng.random() >= settings.random_share),
            "room": 0 if item.known is not None else settings.n_answers,
            "chosen": 0,
        }
