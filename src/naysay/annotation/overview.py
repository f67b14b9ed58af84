"""The figures that the owner sees: answers per hour, classes, people, and estimates."""

import json
import time
from collections import Counter, defaultdict
from statistics import median
from typing import Any

import sqlalchemy as sa

from naysay._base import task_tables as db
from naysay.annotation.questions import Settings

item, person, deal, answer = db.item_table.c, db.person_table.c, db.deal_table.c, db.answer_table.c
_HOURS = 24
_RECENT = 2000  # latest answers of a person, for the median time per answer


def describe(connection: sa.Connection, settings: Settings) -> dict[str, Any]:
    """Compute the figures of a task as plain values for JSON."""
    now = time.time()
    given = db.answer_table.join(db.deal_table, answer.deal == deal.id)
    hour = sa.cast(sa.func.floor((now - answer.answered) / 3600), sa.Integer)
    recent = (
        sa.select(hour, sa.func.count())
        .where(db.IS_VALID, answer.answered > now - _HOURS * 3600)
        .group_by(hour)
    )
    per_hour = [0] * _HOURS
    for ago, count in connection.execute(recent):
        per_hour[_HOURS - 1 - min(max(ago, 0), _HOURS - 1)] += count
    excluded = (
        sa.select(answer.said, answer.label, sa.func.count())
        .where(db.IS_VALID)
        .group_by(answer.said, answer.label)
    )
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for said, label, count in connection.execute(excluded):
        counts[said][-1 if label is None else label] += count
    offered: Counter[int] = Counter()
    shown = sa.select(deal.offered, sa.func.count()).where(deal.state == db.ANSWERED)
    for listed, count in connection.execute(shown.group_by(deal.offered)):
        for each in json.loads(listed):
            offered[each] += count
    totals = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(item.room), 0)).where(
        item.known.is_(None)
    )
    n_items, room = connection.execute(totals).one()
    asked_by = dict(
        connection.execute(
            sa.select(deal.asked_by, sa.func.count())
            .where(deal.state == db.ANSWERED)
            .group_by(deal.asked_by)
        ).all()
    )
    estimates = connection.execute(
        sa.select(db.estimate_table).order_by(db.estimate_table.c.id.desc()).limit(200)
    ).all()[::-1]
    latest = json.loads(estimates[-1].report) if estimates else None
    if latest is not None:
        latest["made"] = estimates[-1].made
        _show_suspects(connection, latest, settings)
    return {
        "title": settings.title,
        "kind": settings.kind,
        "now": now,
        "n_items": n_items,
        "n_wanted": n_items * settings.n_answers,
        "n_answers": sum(asked_by.values()) - asked_by.get("known", 0),
        "n_known": asked_by.get("known", 0),
        "n_left": room,
        "asked_by": asked_by,
        "per_hour": per_hour,
        "classes": [
            {
                "name": name,
                "offered": offered[place],
                **{said: counts[said][place] for said in ("not", "yes", "no")},
            }
            for place, name in enumerate(settings.classes)
        ],
        "n_unknown": counts["unknown"].total(),
        "n_none": counts["none"].total(),
        "people": _people(connection, given),
        "growth": [
            {
                "made": row.made,
                "n_answers": row.n_answers,
                "accuracy": json.loads(row.report).get("accuracy") or {},
            }
            for row in estimates
        ],
        "latest": latest,
    }


def _people(connection: sa.Connection, given: Any) -> list[dict[str, Any]]:
    """Describe each person: numbers of answers, speed, and mistakes on known examples."""
    wrong = sa.or_(
        sa.and_(answer.said == "not", answer.label == item.known),
        sa.and_(answer.said == "no", answer.label == item.known),
        sa.and_(answer.said == "yes", answer.label != item.known),
    )
    is_scored = sa.and_(item.known.is_not(None), answer.said.in_(("not", "yes", "no")))
    n_all, is_wrong = sa.func.count(answer.id), sa.and_(is_scored, wrong)
    query = (
        sa.select(
            person.id,
            person.name,
            person.is_owner,
            n_all.label("n_answers"),
            n_all.filter(answer.said == "unknown").label("n_unknown"),
            sa.null().label("seconds"),  # computed below
            n_all.filter(is_scored).label("n_known"),
            n_all.filter(is_wrong).label("n_wrong"),
            sa.null().label("wrong"),  # computed below
            sa.func.max(answer.answered).label("last"),
        )
        .select_from(
            db.person_table.outerjoin(
                given.join(db.item_table, deal.item == item.id),
                sa.and_(deal.person == person.id, db.IS_VALID),
            )
        )
        .group_by(person.id, person.name, person.is_owner)
        .order_by(person.id)
    )
    pace = (
        sa.select(answer.seconds)
        .select_from(given)
        .where(deal.person == sa.bindparam("who"), db.IS_VALID, answer.seconds.is_not(None))
        .order_by(answer.answered.desc())
        .limit(_RECENT)
    )
    found = []
    for row in connection.execute(query).mappings():
        facts = dict(row)
        times = connection.execute(pace, {"who": facts.pop("id")}).scalars().all()
        facts["seconds"] = median(times) if times else None
        facts["wrong"] = _interval(row["n_wrong"], row["n_known"])
        found.append(facts)
    return found


def _interval(count: int, total: int) -> list[float] | None:
    """Compute the 95 % Wilson interval of a proportion."""
    from naysay.metrics.accuracy import wilson  # loads SciPy

    if not total:
        return None
    middle, half = wilson(count / total, 1.96**2 / total)
    return [max(middle - half, 0.0), min(middle + half, 1.0)]


def _show_suspects(connection: sa.Connection, latest: dict[str, Any], settings: Settings) -> None:
    """Add the examples of the suspicious answers, and omit answers withdrawn since."""
    suspects = latest.get("suspects") or ()
    rows = connection.execute(
        sa.select(
            *(answer.id, answer.said, answer.label),
            *(item.id.label("item"), item.name, item.cells, person.name.label("person")),
        )
        .select_from(db.EVERY_ANSWER)
        .where(db.IS_VALID, answer.id.in_([each["id"] for each in suspects]))
    )
    found = {row["id"]: row for row in rows.mappings()}
    latest["suspects"] = [
        {
            **each,
            **row,
            "cells": json.loads(row["cells"] or "null"),
            "label": settings.classes[row["label"]],
        }
        for each in suspects
        if (row := found.get(each["id"])) is not None
    ]
