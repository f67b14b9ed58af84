"""Add answers that were given in Label Studio to a task."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from naysay._base.errors import InvalidData
from naysay._base.task_tables import ANSWERED, answer_table, deal_table, item_table, person_table
from naysay.annotation.store import Task
from naysay.datasets.own.label_studio import read_export


def import_label_studio(task: Task, path: str | Path) -> dict[str, int]:
    """Add the answers of a JSON export; return how many were added, known, and left out.

    An answer is left out if its classes are not those of the task.
    """
    table, roles = read_export(Path(path), {})
    index_of = {name: index for index, name in enumerate(task.settings.classes)}
    names = {name: number for number, name, _ in task.items()}
    short: dict[str, int | None] = {}
    for name, number in names.items():
        short[Path(name).name] = None if Path(name).name in short else number
    rows = table.to_pylist()
    counts = {"added": 0, "known": 0, "left_out": 0}
    answers = []
    for row in rows:
        if not (row["not"] or row.get("accepted")):
            continue
        found = _find(row, roles, names, short)
        given = [index_of.get(each) for each in row["not"] or [row.get("suggested")]]
        if found is None or None in given:
            counts["left_out"] += len(given)
            continue
        answers += [(found, row, each) for each in given]
    if not answers:
        raise InvalidData(
            f"{path} must have answers about the examples and classes of {task.name}. None of its "
            f"{len(rows):,} rows is about one of them."
        )

    def work(connection: sa.Connection) -> dict[str, int]:
        people: dict[str, int] = {}
        for number, row, label in answers:
            name = row["annotator"] or "Label Studio"
            if name not in people:
                people[name] = _person(connection, name)
            added = _add(connection, people[name], number, row, label, index_of)
            counts["added" if added else "known"] += 1
        return counts

    return task.submit(work).result()


def _find(
    row: dict[str, Any], roles: dict[str, str], names: dict[str, int], short: dict[str, Any]
) -> int | None:
    if row["task"] in names:
        return names[row["task"]]
    image = row.get(roles.get("images", ""))
    return None if image is None else names.get(image) or short.get(Path(image).name)


def _person(connection: sa.Connection, name: str) -> int:
    query = sa.select(person_table.c.id).where(person_table.c.name == name)
    found = connection.execute(query).scalar()
    if found is None:
        row = {"name": name, "is_owner": False, "joined": time.time()}
        connection.execute(person_table.insert(), row)
        found = connection.execute(query).scalar_one()
    return found


def _add(
    connection: sa.Connection,
    who: int,
    number: int,
    row: dict[str, Any],
    label: int,
    index_of: dict[str, int],
) -> bool:
    """Add an answer, unless this person has answered a question about the item."""
    deal = deal_table.c
    held = connection.execute(
        sa.select(deal.id).where(deal.person == who, deal.item == number)
    ).scalar()
    if held is not None:
        return False
    said = "not" if row["not"] else str(row["accepted"]).lower()
    offered = [index_of[each] for each in row["offered"] or () if each in index_of]
    if said == "not" and label not in offered:
        offered = list(range(len(index_of)))
    now = time.time()
    question = {"question": "which" if said == "not" else "yes-no"}
    question["offered"] = json.dumps(offered if said == "not" else [label])
    facts = {"item": number, "person": who, "asked_by": "random", "dealt": now, "until": 0.0}
    inserted = connection.execute(
        deal_table.insert().returning(deal.id), {**facts, **question, "state": ANSWERED}
    )
    key = hashlib.sha256(f"{who}:{number}:label studio".encode()).hexdigest()[:32]
    connection.execute(
        answer_table.insert(),
        {"id": key, "deal": inserted.scalar_one(), "said": said, "label": label, "answered": now},
    )
    connection.execute(
        item_table.update()
        .where(item_table.c.id == number, item_table.c.room > 0)
        .values(room=item_table.c.room - 1)
    )
    return True
