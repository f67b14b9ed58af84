"""The queue of a task: which questions are dealt to whom, and which answers are kept.

Questions are leased: a question that was dealt to a person is reserved for some minutes, and no
example gets more answers than wanted. All of it happens in transactions of the caller.
"""

import json
import random
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from naysay._base.errors import InvalidInput
from naysay._base.task_tables import (
    ANSWERED,
    LATER,
    LEASED,
    RELEASED,
    answer_table,
    deal_table,
    estimate_table,
    item_table,
)
from naysay.annotation.questions import Settings

item, deal, answer = item_table.c, deal_table.c, answer_table.c
_SWEEP = 2.0  # seconds between searches for leases that ended
_REST = 2.0  # seconds before the queue of a person is searched again, when it was empty
_START = -(2**62)  # before the first place


class Question(NamedTuple):
    """A question that was dealt to a person."""

    deal: int
    item: int
    name: str
    cells: str | None  # JSON
    question: str
    offered: list[int]


class Queue:
    """Deals questions, and keeps answers; one object for each process that serves a task."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._rng = random.Random()
        self._cursors: dict[tuple[int, int], int] = {}  # how far each person is in each pool
        self._resting: dict[int, float] = {}  # when the queue of a person was found empty
        self._swept = 0.0
        self._estimate: int | None = None  # the latest one
        self._n_known: int | None = None

    def deal(
        self, connection: sa.Connection, who: int, want: int, now: float | None = None
    ) -> list[Question]:
        """Lease questions to a person until they have `want`, and list all that they have."""
        now = time.time() if now is None else now
        if now - self._swept >= _SWEEP or now < self._swept:
            self._sweep(connection, now)
        until = now + self.settings.lease
        rows = connection.execute(_HELD, {"who": who, "states": [LEASED, RELEASED], "most": 50})
        mine = rows.all()
        held = [row for row in mine if row.state == LEASED]
        if held and min(row.until for row in held) < until - self.settings.lease / 4:
            connection.execute(_RENEW, [{"deal_id": row.deal, "until_": until} for row in held])
        missing = want - len(held)
        if missing > 0 and now - self._resting.get(who, -_REST) >= _REST:
            released = [row for row in mine if row.state == RELEASED]
            held += self._deal_more(connection, who, missing, released, now)
            if len(held) < want:
                self._resting[who] = now
            else:
                self._resting.pop(who, None)
        return [_question(row) for row in held]

    def _deal_more(
        self, connection: sa.Connection, who: int, want: int, released: list[Any], now: float
    ) -> list[Any]:
        found = self._lease_again(connection, released[:want], now)
        n_known = sum(self._rng.random() < self._known_rate(connection) for _ in range(want))
        chosen: list[tuple[Any, str]] = []
        if len(found) < want and n_known:
            rows = connection.execute(_KNOWN, {"who": who, "most": min(n_known, want - len(found))})
            chosen += [(row, "known") for row in rows]
        lacking = want - len(found) - len(chosen)
        n_random = sum(self._rng.random() < self.settings.random_share for _ in range(lacking))
        # One pool stands in for the other.
        for pool, most in ((0, n_random), (1, lacking), (0, lacking)):
            taken = {row.item for row, _ in chosen}
            most = min(most, want - len(found) - len(chosen))
            rows = self._from_pool(connection, who, pool, most + len(taken)) if most else []
            rows = [row for row in rows if row.item not in taken][:most]
            chosen += [(row, "model" if row.chosen else "random") for row in rows]
        if chosen:
            found += self._lease(connection, who, chosen, now)
        if len(found) < want:
            facts = {"who": who, "states": [LATER], "most": want - len(found)}
            found += self._lease_again(connection, connection.execute(_HELD, facts).all(), now)
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
        after = self._cursors.get((who, pool), _START)
        facts = {"who": who, "pool": pool, "most": most}
        rows = connection.execute(_FRESH, {**facts, "after": after}).all()
        if len(rows) < most and after > _START:  # leases that ended may be before the cursor
            rows = connection.execute(_FRESH, {**facts, "after": _START}).all()
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
            connection.execute(_TAKE_ALL, {"items": taken})
        return [
            _Held(number, each["item"], row.name, row.cells, each["question"], each["offered"])
            for number, each, (row, _) in zip(ids, rows, chosen, strict=True)
        ]

    def _lease_again(self, connection: sa.Connection, rows: Sequence[Any], now: float) -> list[Any]:
        """Lease questions again that a person had: those whose lease ended, or put off."""
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

    def answer(
        self,
        connection: sa.Connection,
        given: Sequence[tuple[int, dict[str, Any], float]],
    ) -> list[str | InvalidInput]:
        """Save answers, each with its person and time: "saved", or why not.

        An answer has ``id`` (drawn by the page: the same id is saved once), ``deal``, ``said``,
        ``label`` and ``seconds``. "taken" means that the lease had ended and others have answered
        since; "answered", that this question has another answer. An error stands for an answer
        that does not fit its question.
        """
        deals = sorted({each["deal"] for _, each, _ in given})
        rows = {row.id: row for row in connection.execute(_TO_ANSWER, {"deals": deals})}
        states = {number: row.state for number, row in rows.items()}
        keys = {"keys": [each["id"] for _, each, _ in given if _is_key(each["id"])]}
        saved = {row.id: row.deal for row in connection.execute(_SAVED, keys)}
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
            if status is None and states[number] == ANSWERED:
                status = "answered"
            if (
                status is None
                and states[number] != LEASED
                and rows[number].known is None
                and not _take(connection, rows[number].item)
            ):
                status = "taken"
            if status is None:
                status, states[number], saved[each["id"]] = "saved", ANSWERED, number
                facts = {"id": each["id"], "deal": number, "said": each["said"], "label": label}
                new.append({**facts, "seconds": each.get("seconds"), "answered": now})
            found.append(status)
        if new:
            connection.execute(_INSERT_ANSWER, new)
            connection.execute(_ARE_ANSWERED, {"deals": [each["deal"] for each in new]})
        return found

    def _check(
        self, row: Any, who: int, given: dict[str, Any], saved: dict[str, int]
    ) -> tuple[str | None, int | None]:
        """Check an answer; return "saved" if it is already, and the class that it is about."""
        if row is None or row.person != who:
            raise InvalidInput("There is no such question for this person.")
        if given["id"] in saved:
            if saved[given["id"]] != given["deal"]:
                raise InvalidInput("This id belongs to the answer to another question.")
            return "saved", None
        return None, check_answer(given, row.question, json.loads(row.offered), self.settings)

    def undo(
        self, connection: sa.Connection, who: int, key: str, now: float | None = None
    ) -> Question | None:
        """Withdraw an answer of a person, and lease them its question; None if there is none."""
        now = time.time() if now is None else now
        row = connection.execute(_ANSWERED, {"key": key}).first() if _is_key(key) else None
        if row is None or row.person != who:
            return None
        if row.withdrawn is None:
            connection.execute(_WITHDRAW, {"key": key, "now": now})
            until = now + self.settings.lease
            connection.execute(_SET_STATE, {"deal_id": row.deal, "to": LEASED, "until_": until})
        return _question(row)

    def later(self, connection: sa.Connection, who: int, number: int) -> bool:
        """Put a question off: nothing is recorded, and it comes again when no other is left."""
        row = connection.execute(_TO_ANSWER, {"deals": [number]}).first()
        if row is None or row.person != who or row.state != LEASED:
            return False
        connection.execute(_PUT_OFF, {"deal_id": number, "now": time.time()})
        if row.known is None:
            connection.execute(_GIVE_BACK, {"item_id": row.item})
        return True

    def reopen(self, connection: sa.Connection, keys: Sequence[str]) -> int:
        """Withdraw answers that look wrong; their questions are asked again. Return how many."""
        n_reopened = 0
        for key in filter(_is_key, keys):
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

    def rank(self, connection: sa.Connection, places: Sequence[tuple[int, int]]) -> None:
        """Put items that a model may choose at places in the order of questions."""
        order = [{"item_id": number, "to": place} for number, place in places]
        connection.execute(_RANK, order)


def check_answer(
    given: dict[str, Any], question: str, offered: list[int], settings: Settings
) -> int | None:
    """Check that an answer fits its question, and return the class that it is about."""
    said, label, seconds = given.get("said"), given.get("label"), given.get("seconds")
    allowed = {"unknown", "yes", "no"} if question == "yes-no" else {"unknown", "not"}
    if settings.none_of_these and question != "yes-no":
        allowed.add("none")
    if not isinstance(said, str) or said not in allowed:
        raise InvalidInput(f"The answer must be one of {', '.join(sorted(allowed))}.")
    if seconds is not None and not (type(seconds) in (int, float) and 0 <= seconds < 1e9):
        raise InvalidInput("seconds must be a number that is not negative.")
    if not _is_key(given.get("id")):
        raise InvalidInput("id must be a text of 8 to 64 characters of ASCII.")
    if said == "not":
        if type(label) is not int or label not in offered:
            raise InvalidInput("The label must be one of the classes that were offered.")
        return label
    return offered[0] if question == "yes-no" and said != "unknown" else None


def _is_key(key: Any) -> bool:
    """Check the form of the id of an answer; PostgreSQL would refuse some texts."""
    return isinstance(key, str) and 8 <= len(key) <= 64 and key.isascii() and key.isprintable()


def _take(connection: sa.Connection, number: int) -> bool:
    """Take one of the answers wanted about an item, if there is one left."""
    return connection.execute(_TAKE_ALL, {"items": [number]}).rowcount == 1


def _question(row: Any) -> Question:
    offered = json.loads(row.offered)
    return Question(row.deal, row.item, row.name, row.cells, row.question, offered)


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
        deal.state,
        item.known,
    )
    .join_from(deal_table, item_table, deal.item == item.id)
    .where(
        deal.person == _who,
        deal.state.in_(sa.bindparam("states", expanding=True)),
        deal.state != ANSWERED,  # for the index
    )
    .order_by(deal.state, deal.dealt, deal.id)
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
_TAKE_ALL = (
    item_table.update()
    .where(item.id.in_(sa.bindparam("items", expanding=True)), item.room > 0)
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
_TO_ANSWER = (
    sa.select(deal.id, deal.person, deal.item, deal.state, deal.question, deal.offered, item.known)
    .join_from(deal_table, item_table, deal.item == item.id)
    .where(deal.id.in_(sa.bindparam("deals", expanding=True)))
    .order_by(deal.id)
    .with_for_update(of=deal_table)
)
_SAVED = sa.select(answer.id, answer.deal).where(
    answer.id.in_(sa.bindparam("keys", expanding=True))
)
_INSERT_ANSWER = answer_table.insert()
_ARE_ANSWERED = (
    deal_table.update()
    .where(deal.id.in_(sa.bindparam("deals", expanding=True)))
    .values(state=ANSWERED, until=0.0)
)
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
