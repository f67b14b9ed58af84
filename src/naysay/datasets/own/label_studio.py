"""Read an export of Label Studio (JSON): choices that people made, as a table of answers.

An export is a list of tasks with ``data``, the fields of an example, and ``annotations``. Each
annotation has ``result``, the choices made. A choice is a complementary label, or, where the data
name a class as ``suggested``, yes or no to it. Cancelled annotations, drafts and predictions are
ignored.
"""

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.files import IMAGE_SUFFIXES, check_memory, visible_files

_ANSWERS = ("not", "offered", "suggested", "accepted", "annotator", "task")  # columns added
# Fields that naysay writes for the page of Label Studio, which are not features.
_NO_FEATURES = ("question", "offered", "suggested", "naysay_item", "naysay_deal")
_META = {"id", "annotation_id", "annotator", "created_at", "updated_at", "lead_time"}  # JSON-MIN
_ABOUT = ("item", "seconds", "made")  # keys of `read_rows` that are not columns
NO_DATA = frozenset({*_ANSWERS, *_ABOUT})  # keys of `read_rows` that are not fields of the task
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_UPLOADED = re.compile(r"^[0-9a-f]{8}-")


def read_export(path: Path, given: Mapping[str, str]) -> tuple[pa.Table, dict[str, str]]:
    """Read an export as a table with a row for each choice, and the roles of its columns.

    `given` are roles that the caller names; ``label`` is the name of the control whose choices are
    the labels, which is needed if there are several.
    """
    rows = read_rows(path, given.get("label"))
    names = list(dict.fromkeys(name for row in rows for name in row if name not in _ABOUT))
    features = [name for name in names if name not in _ANSWERS]
    table = pa.table(
        {
            name: _column([row.get(name) for row in rows], is_list=name in ("not", "offered"))
            for name in [*features, *_ANSWERS]
        }
    )
    roles = {"example_id": "task", "annotator": "annotator", "label": "not", "offered": "offered"}
    if "accepted" in names:
        roles |= {"suggested": "suggested", "accepted": "accepted"}
    else:
        table = table.drop_columns(["suggested", "accepted"])
    pictures = [name for name in features if _are_images([row.get(name) for row in rows])]
    if pictures and "images" not in given:
        roles["images"] = pictures[0]
        images = [(row.get(pictures[0]), "annotator" in row) for row in rows]
        cells = pa.array(_find_files(images, path), pa.large_string())
        table = table.set_column(table.column_names.index(pictures[0]), pictures[0], cells)
    return table, {**roles, **{k: v for k, v in given.items() if k != "label"}}


def read_rows(path: Path, label: str | None = None) -> list[dict[str, Any]]:
    """Read an export as rows: the fields of the task, and an annotation with its choices.

    A task without choices has one row. Further keys are "item", the item that naysay wrote for the
    task, and "seconds" and "made" of the annotation.
    """
    tasks = _load(path, label)
    control = _find_control(tasks, label, path)
    rows: list[dict[str, Any]] = []
    n_choices = 0
    for number, task in enumerate(tasks, start=1):
        data = task["data"]
        base = {
            name if name not in NO_DATA else f"data_{name}": _cell(value)
            for name, value in data.items()
            if name not in _NO_FEATURES
        }
        item = data.get("naysay_item")
        id_ = next((each for each in (item, task.get("id")) if each is not None), number)
        base |= {"task": str(id_), "item": None if item is None else str(item)}
        found = False
        for annotation in task["annotations"]:
            choices, shown = _choices(annotation, control)
            if not choices:
                continue
            found = True
            seconds, made = annotation.get("lead_time"), annotation.get("created_at")
            if type(seconds) not in (int, float) or not 0 <= seconds < 1e9:
                seconds = None
            about = {"annotator": _annotator(annotation), "seconds": seconds, "made": made}
            suggested = shown.get("suggested") or data.get("suggested")
            if suggested and isinstance(suggested, str | int) and all(map(_is_yes_no, choices)):
                rows.append({**base, **about, "suggested": str(suggested), "accepted": choices[0]})
            else:
                offered = _names(shown.get("offered") or data.get("offered"))
                listed = offered if set(choices) <= set(offered) and len(offered) > 1 else None
                rows.append({**base, **about, "not": choices, "offered": listed})
        n_choices += found
        if not found:
            rows.append(base)
    if not n_choices:
        raise InvalidData(
            f"{path} must have choices of annotators. None of its {len(tasks):,} tasks has one "
            "that was not cancelled."
        )
    return rows


def _load(path: Path, label: str | None) -> list[dict[str, Any]]:
    """Load the tasks of an export, and check their form."""
    check_memory(4 * path.stat().st_size, str(path))
    try:
        text = path.read_text("utf-8-sig")
        delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
        if delimiter is None:
            tasks = json.loads(text, parse_int=_whole_number)
        else:
            tasks = _from_table(text, delimiter)
        if _HALF_CHARACTER.search(text):
            json.dumps(tasks, ensure_ascii=False).encode()  # an error unless both halves are there
    except (ValueError, RecursionError, csv.Error) as error:
        raise InvalidData(f"{path} must be JSON in UTF-8. It cannot be read: {error}.") from None
    if isinstance(tasks, dict) and "data" in tasks:  # one task
        tasks = [tasks]
    if (
        not isinstance(tasks, list)
        or not all(isinstance(task, dict) for task in tasks)
        or not tasks
    ):
        raise InvalidData(
            f"{path} must be an export of Label Studio: a list of tasks. Export the project as "
            "JSON. Tables in JSON must be JSON Lines (.jsonl), one row in each line."
        )
    if not any("data" in task for task in tasks):
        tasks = _from_min(tasks, label, path)
    for number, task in enumerate(tasks, start=1):
        annotations = task.get("annotations", task.get("completions"))
        task["annotations"] = [] if annotations is None else annotations
        if not (
            isinstance(task.get("data"), dict)
            and isinstance(task["annotations"], list)
            and all(isinstance(each, dict) for each in task["annotations"])
        ):
            raise InvalidData(
                f"Each task of {path} must have 'data' and a list of 'annotations', as in an "
                f"export of Label Studio. Task {number} does not."
            )
    return tasks


def _whole_number(digits: str) -> int | float:
    """Convert digits to an integer, or to infinity if no float holds it."""
    return int(digits) if len(digits) <= sys.float_info.max_10_exp else float(digits)


def _from_table(text: str, delimiter: str) -> list[dict[str, Any]]:
    """Convert an export as CSV or TSV to JSON-MIN: the same fields, several choices in JSON."""
    rows = []
    for row in csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter):
        cells: dict[str, Any] = {name: cell for name, cell in row.items() if name and cell}
        for name, cell in cells.items():
            if cell[:1] in "{[" or name == "lead_time":
                with suppress(ValueError, RecursionError):
                    cells[name] = json.loads(cell)
        rows.append(cells)
    return rows


def _from_min(rows: list[dict[str, Any]], label: str | None, path: Path) -> list[dict[str, Any]]:
    """Convert the shorter format JSON-MIN, in which choices are among the data."""
    fields = list(dict.fromkeys(name for row in rows for name in row if name not in _META))
    controls = [
        name
        for name in fields
        if name in ("choice", label)
        or any(isinstance(row.get(name), dict) and "choices" in row[name] for row in rows)
    ]
    if not controls and "annotation_id" in rows[0]:
        raise InvalidInput(
            f"label (--label) must name the field of {path} with the choices. It has "
            f"{shorten(fields)}."
        )
    tasks = []
    for row in rows:
        result = [
            {
                "from_name": name,
                "type": "choices",
                "value": row[name] if isinstance(row[name], dict) else {"choices": row[name]},
            }
            for name in controls
            if row.get(name)
        ]
        kept = {name: value for name, value in row.items() if name not in {*_META, *controls}}
        by = {"completed_by": row.get("annotator"), "created_at": row.get("created_at")}
        by |= {"lead_time": row.get("lead_time"), "result": result}
        tasks.append({"id": row.get("id"), "data": kept, "annotations": [by]})
    return tasks


def _results(annotation: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        return ()
    results = annotation.get("result")
    return [
        each
        for each in (results if isinstance(results, list) else ())
        if isinstance(each, dict) and isinstance(each.get("from_name"), str | None)
    ]


def _choices(
    annotation: Mapping[str, Any], control: str | None
) -> tuple[list[str], Mapping[str, Any]]:
    """List the choices of an annotation that was not cancelled, and the offered classes."""
    chosen: list[str] = []
    shown: Mapping[str, Any] = {}
    for result in _results(annotation):
        value = result.get("value")
        if result.get("type") == "choices" and result.get("from_name") == control:
            listed = value.get("choices") if isinstance(value, dict) else None
            chosen += _names(listed)
            meta = result.get("meta")
            shown = meta if isinstance(meta, dict) else shown
    return list(dict.fromkeys(chosen)), shown


def _find_control(tasks: list[dict[str, Any]], wanted: str | None, path: Path) -> str | None:
    """Find the control whose choices are the labels."""
    controls = Counter(
        result.get("from_name")
        for task in tasks
        for annotation in task["annotations"]
        for result in _results(annotation)
        if result.get("type") == "choices"
    )
    if wanted is not None and wanted not in controls:
        raise InvalidInput(
            f"label (--label) must name a control of {path} that has choices: "
            f"{shorten(sorted(map(str, controls)))}. Got {wanted!r}."
        )
    if wanted is None and len(controls) > 1:
        raise InvalidInput(
            f"label (--label) must name the control of {path} whose choices are the complementary "
            f"labels. It has {shorten(sorted(map(str, controls)))}."
        )
    return wanted if wanted is not None else next(iter(controls), None)


def _names(listed: Any) -> list[str]:
    """List names, which may be texts or objects with a value."""
    if isinstance(listed, str):
        return [listed.strip()]
    values = listed if isinstance(listed, list) else []
    texts = (each.get("value") if isinstance(each, dict) else each for each in values)
    return [str(each).strip() for each in texts if each is not None and str(each).strip()]


def _annotator(annotation: Mapping[str, Any]) -> str | None:
    """Name who made an annotation: a number, or an object with an address and a number."""
    by = annotation.get("completed_by")
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    if by is None or by == "":  # older versions: "ann@x.org, 1"
        by = str(annotation.get("created_username") or "").rpartition(",")[0].strip()
    return None if by == "" else str(by)


def _is_yes_no(choice: str) -> bool:
    return choice.lower() in ("yes", "no")


def _cell(value: Any) -> Any:
    """Convert a field to a cell; addresses of local files become paths."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and "/data/local-files/" in value:
        with suppress(ValueError):  # it is no address
            path = parse_qs(urlsplit(value).query).get("d", [""])[0]
            return unquote(path).replace("\\", "/") or value
    return value


def _are_images(cells: list[Any]) -> bool:
    """Check whether cells are paths or addresses of images."""
    texts = [cell for cell in cells if cell is not None]
    return bool(texts) and all(
        isinstance(cell, str)
        and len(cell) < 4096
        and "\n" not in cell
        and _without_query(cell).lower().endswith(IMAGE_SUFFIXES)
        for cell in texts
    )


def _without_query(address: str) -> str:
    return address.partition("?")[0] if "://" in address else address


def file_names(image: str) -> list[str]:
    """List the names that an image may have on disk, most likely first.

    Label Studio puts 8 hexadecimal digits before the name of an upload, and replaces spaces.
    """
    name = re.split(r"[/\\]", unquote(_without_query(image)))[-1]
    return [name, _UPLOADED.sub("", name)]


def stored_name(name: str) -> str:
    """Convert a name as Label Studio does for uploads."""
    return re.sub(r"[^-\w.]", "", name.strip().replace(" ", "_"))


def _find_files(images: list[tuple[Any, bool]], export: Path) -> list[str | None]:
    """Find the files of images: by their path, or by their name in the folder of the export.

    Each image comes with whether it is needed.
    """
    folder = export.parent
    nearby: dict[str, list[str]] | None = None
    found: list[str | None] = []
    for image, is_needed in images:
        if not is_needed or image is None or ("://" not in image and (folder / image).is_file()):
            found.append(image)
            continue
        if nearby is None:
            nearby = {}
            for file in visible_files(folder):
                if file.name.lower().endswith(IMAGE_SUFFIXES):
                    for key in {file.name, stored_name(file.name)}:
                        nearby.setdefault(key, []).append(str(file.relative_to(folder)))
        near = next((nearby[name] for name in file_names(image) if name in nearby), [])
        if len(near) != 1:
            how_many = "several files" if near else "no file"
            raise InvalidData(
                f"The images of {export} must be files in its folder. It has {how_many} for "
                f"{image}. Copy the images of Label Studio there, with their names."
            )
        found += near
    return found


def _column(values: list[Any], *, is_list: bool) -> pa.Array:
    if is_list:
        return pa.array(values, pa.list_(pa.large_string()))
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float}:
        return pa.array([None if each is None else float(each) for each in values])
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    return pa.array([None if each is None else str(each) for each in values], pa.large_string())
