"""Import answers from Label Studio into a task."""

import hashlib
import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from naysay._base import task_tables as db
from naysay._base.errors import InvalidData
from naysay.annotation.questions import Settings
from naysay.annotation.store import Task, find_or_add_person
from naysay.datasets.own.label_studio import NO_DATA, file_names, read_rows, stored_name


def import_label_studio(
    task: Task, path: str | Path, *, label: str | None = None
) -> dict[str, int]:
    """Import the answers of an export (JSON, CSV); return the numbers added, known and left out.

    An answer is left out if the task does not have its classes or its example. `label` names the
    control with the choices if there are several.
    """
    rows = [row for row in read_rows(Path(path), label) if "annotator" in row]
    index_of = {name: index for index, name in enumerate(task.settings.classes)}
    examples = _Examples(task)
    counts = {"added": 0, "known": 0, "left_out": 0}
    answers = []
    for row in rows:
        number = examples.find(row)
        names = row["not"] if "not" in row else [row["suggested"]]
        if number is None or not {*names} <= index_of.keys():
            counts["left_out"] += 1
        else:
            answers.append((number, row, [index_of[each] for each in names]))
    if not answers:
        raise InvalidData(
            f"{path} must contain answers about examples and classes of {task.name}. None of its "
            f"{len(rows):,} annotations does."
        )

    def work(connection: sa.Connection) -> dict[str, int]:
        people: dict[str, int] = {}
        for number, row, labels in answers:
            name = row["annotator"] or "Label Studio"
            if name not in people:
                people[name] = find_or_add_person(connection, name)
            added = _add(connection, people[name], number, row, labels, task.settings)
            counts["added" if added else "known"] += 1
        return counts

    return task.submit(work).result()


class _Examples:
    """Finds the examples of a task from the facts in an export."""

    def __init__(self, task: Task) -> None:
        self.kind = task.settings.kind
        self.numbers: dict[str, int] = {}
        self.others: dict[str, int | None] = {}  # by file name or by text; None if not unique
        for number, name, cells in task.items():
            self.numbers[name] = number
            others: set[str] = set()
            if self.kind == "images":
                others = {name.rpartition("/")[2], stored_name(name.rpartition("/")[2])}
            elif self.kind == "texts":
                others = {json.loads(cells or "{}").get("text", "")}
            for each in others:
                self.others[each] = None if each in self.others else number

    def find(self, row: dict[str, Any]) -> int | None:
        """Find the number of the example of a row, by its name in naysay, its image or its text."""
        if row["item"] is not None:
            return self.numbers.get(row["item"])
        if self.kind == "table":  # row numbers mean nothing in other projects
            return None
        for name, cell in row.items():
            if name in NO_DATA or not isinstance(cell, str):
                continue
            if self.kind == "images":
                parts = cell.split("/")
                for path in ("/".join(parts[start:]) for start in range(len(parts))):
                    if path in self.numbers:
                        return self.numbers[path]
            for each in (cell, *file_names(cell)):
                if self.others.get(each) is not None:
                    return self.others[each]
        return None


def _add(
    connection: sa.Connection,
    who: int,
    number: int,
    row: dict[str, Any],
    labels: list[int],
    settings: Settings,
) -> bool:
    """Add an answer unless this person has already been asked about the item."""
    deal, now = db.deal_table.c, time.time()
    if connection.execute(
        sa.select(deal.id).where(deal.person == who, deal.item == number)
    ).first():
        return False
    label: int | None = labels[0]
    if "accepted" in row:
        said, question, offered = str(row["accepted"]).lower(), "yes-no", labels
    elif len(labels) > 1:  # several choices mean "none of these"
        said, question, offered, label = "none", "which", labels, None
    else:
        said, question = "not", "in order" if settings.in_order else "which"
        names = row["offered"] or settings.classes
        offered = [settings.classes.index(each) for each in names if each in settings.classes]
        if settings.in_order and tuple(offered) not in settings.lists:
            question = "which"
    known = connection.execute(
        sa.select(db.item_table.c.known).where(db.item_table.c.id == number)
    ).scalar()
    facts = {"item": number, "person": who, "question": question, "offered": json.dumps(offered)}
    facts |= {"asked_by": "random" if known is None else "known", "dealt": now, "until": 0.0}
    inserted = connection.execute(
        db.deal_table.insert().returning(deal.id), {**facts, "state": db.ANSWERED}
    )
    connection.execute(
        db.answer_table.insert(),
        {
            "id": hashlib.sha256(f"{who}:{number}:label studio".encode()).hexdigest()[:32],
            "deal": inserted.scalar_one(),
            "said": said,
            "label": label,
            "seconds": row["seconds"],
            "answered": _time(row["made"]) or now,
        },
    )
    connection.execute(
        db.item_table.update()
        .where(db.item_table.c.id == number, db.item_table.c.room > 0)
        .values(room=db.item_table.c.room - 1)
    )
    return True


def _time(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
