"""Export answers as CSV, JSON Lines, Parquet, and in the formats of crowd-kit and Label Studio."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from naysay._base.errors import InvalidInput
from naysay._base.files import replacing
from naysay.annotation.store import COLUMNS, Task

FORMATS = ("csv", "jsonl", "parquet", "crowd-kit", "label-studio")
_CROWD_KIT = {"task": "item", "worker": "annotator", "label": "label"}  # its columns, and ours
_ROWS = 10_000  # in a batch
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".json": "label-studio"}


def stream(rows: Iterator[dict[str, Any]], kind: str) -> Iterator[str]:
    """Yield answers as text, in batches of rows."""
    columns = _CROWD_KIT if kind == "crowd-kit" else dict(zip(COLUMNS, COLUMNS, strict=True))
    cells = itemgetter(*columns.values())
    if kind != "jsonl":
        yield ",".join(columns) + "\r\n"
    encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes one for each row
    while batch := list(islice(rows, _ROWS)):
        if kind == "jsonl":
            yield "".join(encode(row) + "\n" for row in batch)
        else:
            out = io.StringIO()
            csv.writer(out).writerows(map(cells, batch))
            yield out.getvalue()


def export(task: Task, out: str | Path, kind: str | None = None) -> int:
    """Write the answers of a task to a file, and return their number.

    Unless `kind` is given, the suffix of the file determines the format: .csv, .jsonl, .parquet, or
    .json for Label Studio.
    """
    path = Path(out)
    kind = kind or _SUFFIXES.get(path.suffix.lower())
    if kind not in FORMATS:
        raise InvalidInput(
            f"The format (--format) must be one of {', '.join(FORMATS)}, or the name of the file "
            f"must end in {', '.join(_SUFFIXES)}. Got {kind or path.name!r}."
        )
    n_rows = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal n_rows
        for row in task.answers():
            if kind != "crowd-kit" or row["answer"] == "not":
                n_rows += 1
                yield row

    with replacing(path, usual="answers.csv") as part:
        if kind == "parquet":
            _write_parquet(rows(), part)
        elif kind == "label-studio":
            _write_label_studio(task, rows(), part)
        else:
            with part.open("w", encoding="utf-8", newline="") as file:
                file.writelines(stream(rows(), kind))
    if kind == "label-studio":
        with replacing(path.with_suffix(".xml")) as part:
            part.write_text(labelling_config(task), "utf-8")
    return n_rows


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"seconds", "answered"}
    schema = pa.schema(
        [(name, pa.float64() if name in numbers else pa.string()) for name in COLUMNS]
    )
    with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, 5 * _ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def labelling_config(task: Task) -> str:
    """Write the labelling configuration of a Label Studio project."""
    shown = {"images": '<Image name="example" value="$image"/>'}.get(
        task.settings.kind, '<Text name="example" value="$text"/>'
    )
    return (
        f'<View>\n  {shown}\n  <Header value="$question"/>\n'
        '  <Choices name="not" toName="example" value="$offered" choice="single-radio" '
        f"showInline={quoteattr('true')}/>\n</View>\n"
    )


def _write_label_studio(task: Task, rows: Iterator[dict[str, Any]], path: Path) -> None:
    """Write one Label Studio task for each item, with its answers."""
    answers: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        answers.setdefault(row["item"], []).append(row)
    with path.open("w", encoding="utf-8") as file:
        for number, (item, name, cells) in enumerate(task.items()):
            file.write("[\n" if number == 0 else ",\n")
            file.write(json.dumps(_task(task, item, name, cells, answers.get(name, []))))
        file.write("\n]\n")


def _task(
    task: Task, item: int, name: str, cells: str | None, answers: list[dict[str, Any]]
) -> dict[str, Any]:
    """Make a Label Studio task. Each annotation contains the classes that were offered."""
    data: dict[str, Any] = {"naysay_item": name}
    if cells is None:
        folder = Path(task.settings.root).name
        data["image"] = f"/data/local-files/?d={quote(f'{folder}/{name}')}"
    else:
        columns = json.loads(cells, parse_constant=lambda _: None)  # NaN is not valid JSON
        data |= columns
        text = "\n".join(f"{key}: {value}" for key, value in columns.items())
        data.setdefault("text", text)
    question, offered = task.settings.draw(item, 0)
    data |= _shown(question, [task.settings.classes[each] for each in offered])
    annotations = []
    for row in answers:
        offered = row["offered"].split("|")
        choices = {"not": [row["label"]], "none": offered, "unknown": []}
        chosen = choices.get(row["answer"], [row["answer"]])
        shown = {"suggested": offered[0]} if row["question"] == "yes-no" else {"offered": offered}
        result = {
            "from_name": "not",
            "to_name": "example",
            "type": "choices",
            "value": {"choices": chosen},
            "meta": shown,
        }
        annotations.append(
            {
                "completed_by": {"email": row["annotator"]},
                "was_cancelled": not chosen,
                "ground_truth": False,
                "lead_time": row["seconds"],
                "created_at": datetime.fromtimestamp(row["answered"], UTC).isoformat(),
                "result": [result] if chosen else [],
            }
        )
    return {"id": item, "data": data, "annotations": annotations, "predictions": []}


def _shown(question: str, names: list[str]) -> dict[str, Any]:
    if question == "yes-no":
        about = {"question": f"Is it: {names[0]}?", "suggested": names[0]}
        return {**about, "offered": [{"value": "yes"}, {"value": "no"}]}
    first = "Which is the FIRST of these that it is NOT?"
    about = {"question": first if question == "in order" else "Which of these is it NOT?"}
    return {**about, "offered": [{"value": each} for each in names]}
