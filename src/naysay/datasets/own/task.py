"""Read the answers of an annotation task, which `naysay annotate` writes to a database."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.task_tables import (
    EVERY_ANSWER,
    IS_VALID,
    answer_table,
    clear_errors,
    connect,
    database_url,
    deal_table,
    item_table,
    name_of,
    person_table,
    read_settings,
)
from naysay.datasets.own.answers import gather_answers
from naysay.datasets.own.data import OwnData
from naysay.datasets.own.images import ImageRecipe, plan_images
from naysay.datasets.own.recipe import Recipe, fit_recipe

_SIDE = 32  # pixels; images of different sizes are resized to it, unless a size is given


def read_task(data: str | Path, **reading: Any) -> tuple[OwnData, list[str | None]]:
    """Read the answers of an annotation task, with the examples they are about, and their ids.

    Answers "don't know" are left out. "None of these" excludes all classes that were offered. The
    ids are in the order of ``answer_row``. `reading` are parameters of `read_own`: the classes,
    ``strict``, and those about features and images.
    """
    name = name_of(database_url(data))
    with clear_errors(name):
        return _read(data, name, **reading)


def _read(
    data: str | Path,
    name: str,
    *,
    classes: Sequence[str] | None = None,
    recipe: Recipe | None = None,
    text_model: str | Path | None = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    strict: bool = True,
    **converting: Any,
) -> tuple[OwnData, list[str | None]]:
    engine = connect(data)
    try:
        with engine.connect() as connection:
            settings = read_settings(connection, name)
            if classes is not None and list(map(str, classes)) != settings["classes"]:
                raise InvalidInput(
                    f"classes (--classes) must be omitted for {name}, or be those of the task: "
                    f"{', '.join(settings['classes'])}."
                )
            rows = _rows(connection)
    finally:
        engine.dispose()
    if not any(rows["said"]):
        raise InvalidData(
            f"{name} must have answers to learn from. It has none: open the page of the task and "
            f"answer some questions: naysay annotate {name}"
        )
    names = settings["classes"]
    cells, of_row = _cells(rows, names)
    row_item = np.asarray(rows["item"])[of_row]
    known = [None if each is None else names[each] for each in rows["known"]]
    listed = pa.list_(pa.large_string())
    has_lists = any(each is not None and len(each) < len(names) for each in cells["offered"])
    has_yes_no = any(each is not None for each in cells["accepted"])
    first_row, _, answers = gather_answers(
        label=pa.array(cells["label"], pa.large_string()),
        suggested=pa.array(cells["suggested"], pa.large_string()) if has_yes_no else None,
        accepted=pa.array(cells["accepted"], pa.large_string()) if has_yes_no else None,
        offered=pa.array(cells["offered"], listed) if has_lists else None,
        true_label=pa.array([known[each] for each in of_row], pa.large_string()),
        annotator=pa.array(cells["annotator"], pa.large_string()),
        example_id=pa.array(list(map(str, row_item.tolist()))),
        classes=names,
        separator=None,
        needs_acceptances=False,
        source=name,
    )
    of_answer = np.asarray(of_row)[answers["answer_row"]]
    at_random = np.array([rows["asked_by"][each] == "random" for each in of_answer], dtype=bool)
    at_random &= np.array([rows["said"][each] != "none" for each in of_answer], dtype=bool)
    places = [of_row[each] for each in first_row]
    item_names = [rows["name"][each] for each in places]
    damaged: dict[int, str] | None = None if strict else {}
    used: Any
    if settings["kind"] == "images":
        paths = [Path(settings["root"], each) for each in item_names]
        used = _image_recipe(paths, size, mode, damaged)
        X, texts = used.apply(paths, damaged=damaged), None
    else:
        table = pa.Table.from_pylist([json.loads(rows["cells"][each]) for each in places])
        if recipe is None:
            used = fit_recipe(table, source=name, text_model=text_model, **converting)
        else:
            used = recipe.with_text_model(text_model)
        X, texts = used.apply(table, source=name), table.select(used.text)
    own = OwnData(
        X=X,
        recipe=used,
        source=name,
        row=first_row,
        ids=tuple(item_names),
        n_rows=len(of_row),
        text=texts,
        offered_at_random=True,
        asked_at_random=at_random,
        **{**answers, "answer_row": of_answer},
    )
    return own.without_examples(damaged) if damaged else own, rows["answer"]


def _cells(
    rows: Mapping[str, list[Any]], names: Sequence[str]
) -> tuple[dict[str, list[Any]], list[int]]:
    """Put each kind of answer into its cells: a label with the classes offered, or yes or no.

    "None of these" is "no" to each class offered, and takes as many rows. The second value has the
    answer that each row is from.
    """
    found: list[tuple[Any, ...]] = []
    for answer, person in enumerate(rows["person"]):
        said, offered = rows["said"][answer], rows["offered"][answer]
        label = rows["label"][answer]
        entries: list[tuple[Any, Any, Any, Any]]
        if said == "not" and rows["question"][answer] == "in order":  # "is it the first one?"
            accepted = "no" if label == offered[0] else "yes"
            entries = [(None, None, names[offered[0]], accepted)]
        elif said == "not":
            entries = [(names[label], [names[each] for each in offered], None, None)]
        elif said in ("yes", "no"):
            entries = [(None, None, names[label], said)]
        elif said == "none":
            entries = [(None, None, names[each], "no") for each in offered]
        else:
            entries = [(None, None, None, None)]
        name = (person or "").strip() or None
        found += [(*entry, name, answer) for entry in entries]
    names_of_cells = ("label", "offered", "suggested", "accepted", "annotator")
    *cells, of_row = map(list, zip(*found, strict=True))
    return dict(zip(names_of_cells, cells, strict=True)), of_row


def _image_recipe(
    paths: Sequence[Path], size: Any, mode: Any, damaged: dict[int, str] | None
) -> ImageRecipe:
    """Plan the conversion of images; those of different sizes are resized to 32 x 32."""
    try:
        return plan_images(paths, size=size, mode=mode, damaged=damaged)
    except InvalidData as error:
        if size is not None or "same size" not in str(error):
            raise
    return plan_images(paths, size=(_SIDE, _SIDE), mode=mode, damaged=damaged)


def _rows(connection: sa.Connection) -> dict[str, list[Any]]:
    """Read the valid answers in the order in which they were given, and known examples."""
    answer, deal, item, person = answer_table.c, deal_table.c, item_table.c, person_table.c
    given = sa.select(
        item.id.label("item"),
        item.name,
        item.cells,
        item.known,
        person.name.label("person"),
        deal.question,
        deal.offered,
        deal.asked_by,
        answer.said,
        answer.label,
        answer.id.label("answer"),
    )
    given = given.select_from(EVERY_ANSWER).where(IS_VALID)
    unanswered = sa.select(item.id, item.name, item.cells, item.known).where(
        item.known.is_not(None),
        ~sa.exists().where(deal.item == item.id, answer.deal == deal.id, IS_VALID),
    )
    columns: dict[str, list[Any]] = {
        key: [] for key in (str(c.key) for c in given.selected_columns)
    }
    for row in connection.execute(given.order_by(answer.answered, answer.id)):
        for key, value in zip(columns, row, strict=True):
            columns[key].append(value)
    columns["offered"] = [json.loads(each) for each in columns["offered"]]
    for row in connection.execute(unanswered.order_by(item.id)):
        for key, value in zip(columns, [*row, *[None] * (len(columns) - 4)], strict=True):
            columns[key].append(value)
    return columns
