"""Read an export of Label Studio (JSON): choices that people made, as a table of answers.

An export is a list of tasks with ``data``, the fields of an example, and ``annotations``. Each
annotation has ``result``, the choices made. A choice is a complementary label, or, where the data
name a class as ``suggested``, yes or no to it. Cancelled annotations, drafts and predictions say
nothing.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.files import check_memory

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
_ANSWERS = ("not", "offered", "suggested", "accepted", "annotator", "task")  # columns added
# Fields that naysay writes for the page of Label Studio, which are no features.
_NO_FEATURES = ("question", "offered", "suggested", "naysay_item", "naysay_deal")
_META = {"id", "annotation_id", "annotator", "created_at", "updated_at", "lead_time"}  # JSON-MIN


def read_export(path: Path, given: Mapping[str, str]) -> tuple[pa.Table, dict[str, str]]:
    """Read an export as a table with a row for each choice, and the roles of its columns.

    `given` are roles that the caller names; ``label`` is the name of the control whose choices are
    the labels, which is needed if there are several.
    """
    tasks = _load(path)
    control = _find_control(tasks, given.get("label"), path)
    rows: list[dict[str, Any]] = []
    for number, task in enumerate(tasks, start=1):
        data = task["data"]
        features = {f"{name}": _cell(value) for name, value in data.items()}
        for name in _NO_FEATURES:
            features.pop(name, None)
        offered = _names(data.get("offered"))
        suggested = data.get("suggested") or None
        base = {**features, "task": str(data.get("naysay_item") or task.get("id") or number)}
        found = False
        for annotation in task["annotations"]:
            choices = _choices(annotation, control)
            if not choices:
                continue
            found = True
            by = {"annotator": _annotator(annotation.get("completed_by"))}
            if suggested is not None and all(_is_yes_no(each) for each in choices):
                rows.append({**base, **by, "suggested": suggested, "accepted": choices[0]})
            else:
                listed = offered if set(choices) <= set(offered) and len(offered) > 1 else None
                rows.append({**base, **by, "not": choices, "offered": listed})
        if not found:
            rows.append(base)
    if not any("not" in row or "accepted" in row for row in rows):
        raise InvalidData(
            f"{path} must have choices of annotators. None of its {len(tasks):,} tasks has one "
            "that was not cancelled."
        )
    names = list(dict.fromkeys(name for row in rows for name in row))
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
    pictures = [name for name in features if _are_images(table[name].to_pylist())]
    if pictures and "images" not in given:
        roles["images"] = pictures[0]
    return table, {**roles, **{k: v for k, v in given.items() if k != "label"}}


def _load(path: Path) -> list[dict[str, Any]]:
    """Load the tasks of an export, and check their form."""
    check_memory(4 * path.stat().st_size, str(path))
    try:
        tasks = json.loads(path.read_text("utf-8-sig"))
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidData(f"{path} must be JSON in UTF-8. It cannot be read: {error}.") from None
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
        tasks = [_from_min(task) for task in tasks]
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


def _from_min(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row of the shorter format JSON-MIN, in which choices are among the data."""
    found = {
        name: value["choices"] if isinstance(value, dict) else [value]
        for name, value in row.items()
        if (isinstance(value, dict) and "choices" in value) or name == "choice"
    }
    result = [
        {"from_name": name, "type": "choices", "value": {"choices": choices}}
        for name, choices in found.items()
    ]
    by = row.get("annotator")
    data = {name: value for name, value in row.items() if name not in {*_META, *found}}
    return {
        "id": row.get("id"),
        "data": data,
        "annotations": [{"completed_by": by, "result": result}] if result else [],
    }


def _results(annotation: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        return ()
    results = annotation.get("result")
    return [each for each in results if isinstance(each, dict)] if isinstance(results, list) else ()


def _choices(annotation: Mapping[str, Any], control: str | None) -> list[str]:
    """List the choices of an annotation that was not cancelled."""
    chosen: list[str] = []
    for result in _results(annotation):
        value = result.get("value")
        if result.get("type") == "choices" and result.get("from_name") == control:
            listed = value.get("choices") if isinstance(value, dict) else None
            chosen += _names(listed)
    return list(dict.fromkeys(chosen))


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


def _annotator(completed_by: Any) -> str | None:
    """Name who made an annotation: a number, or an object with an address and a number."""
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    return None if completed_by is None or completed_by == "" else str(completed_by)


def _is_yes_no(choice: str) -> bool:
    return choice.lower() in ("yes", "no")


def _cell(value: Any) -> Any:
    """Convert a field to a cell; addresses of local files become paths."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and "/data/local-files/" in value:
        path = parse_qs(urlsplit(value).query).get("d", [""])[0]
        return unquote(path) or value
    return value


def _are_images(cells: list[Any]) -> bool:
    return bool(cells) and all(
        isinstance(cell, str) and cell.lower().endswith(_IMAGE_SUFFIXES) for cell in cells
    )


def _column(values: list[Any], *, is_list: bool) -> pa.Array:
    if is_list:
        return pa.array(values, pa.list_(pa.large_string()))
    if {type(value) for value in values} - {type(None)} <= {int, float, bool}:
        kinds = {type(value) for value in values} - {type(None)}
        if kinds <= {int, float}:
            return pa.array([None if each is None else float(each) for each in values])
        if kinds == {bool}:
            return pa.array(values, pa.bool_())
    return pa.array([None if each is None else str(each) for each in values], pa.large_string())
