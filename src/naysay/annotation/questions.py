"""The examples of an annotation task, its settings, and the classes that each question offers.

The classes that a question offers are drawn at random for each pair of an example and a person,
independently of what the example shows. Therefore all answers to one kind of question have the same
transition matrix.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.files import IMAGE_SUFFIXES, check_ordinary, printable, visible_files

QUESTIONS = ("which", "yes-no", "both")
_FEW_CLASSES = 6  # up to this many classes, all are offered by default
_N_OFFERED = 4  # the default for more classes
_MOST_OFFERED = 30  # the keys on a keyboard
_MOST_TEXT = 1 << 20  # characters in a text


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a task. They never change after the task was created."""

    classes: tuple[str, ...]
    """At least 3 names. With 2 classes, "not the one" means "the other", an ordinary label."""
    kind: str = "table"  # "images", "table" or "texts"
    root: str = ""  # folder of the images
    ask: str = "which"
    """Which of these it is not ("which"), "Is it a …?" ("yes-no"), or one of them at random."""
    n_offered: int = 0
    """Number of classes that "which" offers: all in a fixed order, or fewer in random order."""
    lists: tuple[tuple[int, ...], ...] = ()
    """The lists of a labelling scheme, which are offered instead of random classes."""
    shares: tuple[float, ...] = ()  # of the lists
    in_order: bool = False  # whether annotators are asked for the first wrong class of the list
    none_of_these: bool = False
    """Whether annotators may answer that the example belongs to none of the offered classes."""
    n_answers: int = 1  # to collect for each example, each from a different person
    known_rate: float = 0.1  # share of the questions that are about examples of known class
    random_share: float = 0.5
    """Share of the examples that are always asked about in random order. A model may choose the
    order of the others."""
    lease: float = 600.0  # seconds for which a question stays reserved for one person
    seed: int = 0
    title: str = ""
    written_by: str = field(default="", compare=False)

    @classmethod
    def of(cls, classes: Sequence[str], **given: Any) -> "Settings":
        """Check the settings, and fill in defaults for those that are not given."""
        names = tuple(name.strip() for name in classes)
        if len(names) < 3:
            raise InvalidInput(
                f"A task needs at least 3 classes (--classes). Got {len(names)}: {', '.join(names)}"
                ". With 2 classes, a complementary label says the same as an ordinary label."
            )
        is_odd = any("|" in name or name != printable(name) for name in names)
        if not all(names) or len(set(names)) != len(names) or is_odd:
            raise InvalidInput(
                "classes (--classes) must be distinct names in UTF-8 that are not empty and do not "
                "contain “|”, which separates the offered classes in the exported answers."
            )
        if given.get("ask", "which") not in QUESTIONS:
            raise InvalidInput(f"ask (--ask) must be one of {', '.join(QUESTIONS)}.")
        usual = len(names) if len(names) <= _FEW_CLASSES else _N_OFFERED
        n_offered = given.pop("n_offered", None) or usual
        if not 2 <= n_offered <= min(len(names), _MOST_OFFERED):
            raise InvalidInput(
                f"n_offered (--offered) must be from 2 to {min(len(names), _MOST_OFFERED)}. "
                f"Got {n_offered}."
            )
        for name, low, high in (
            ("n_answers", 1, 1000),
            ("known_rate", 0, 0.9),
            ("random_share", 0.05, 1),
            ("lease", 5, 86400),
        ):
            if name in given and not low <= given[name] <= high:
                raise InvalidInput(
                    f"{name} (--{name.replace('_', '-')}) must be from {low} to {high}. "
                    f"Got {given[name]}."
                )
        return cls(classes=names, n_offered=n_offered, **given)

    to_dict = asdict

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Settings":
        """Restore settings from the values of `to_dict`."""
        names = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        names["lists"] = tuple(tuple(each) for each in names.get("lists", ()))
        lists = {name: tuple(value) for name, value in names.items() if isinstance(value, list)}
        plain: dict[str, Any] = {**names, **lists}
        return cls(**plain)

    def draw(self, item: int, person: int) -> tuple[str, list[int]]:
        """Draw the question about an item for a person: its kind and the offered classes, in order.

        The same item and person always give the same question.

        Examples
        --------
        >>> Settings.of(["cat", "dog", "owl", "fox"], n_offered=2).draw(1, 1)
        ('which', [1, 0])
        """
        rng = random.Random(f"{self.seed}:{item}:{person}")
        asks_yes_no = self.ask == "yes-no" or (self.ask == "both" and rng.random() < 0.5)
        if asks_yes_no:
            return "yes-no", [rng.randrange(len(self.classes))]
        if self.lists:
            ends = list(accumulate(self.shares or [1.0] * len(self.lists)))
            drawn = rng.choices(self.lists, cum_weights=ends)[0]
            return ("in order" if self.in_order else "which"), list(drawn)
        if self.n_offered == len(self.classes):
            return "which", list(range(len(self.classes)))
        return "which", rng.sample(range(len(self.classes)), self.n_offered)


def scheme_settings(folder: Path, classes: Sequence[str] | None) -> dict[str, Any]:
    """Read the lists of a labelling scheme as settings of a task with these classes."""
    from naysay.design import FIRST_WRONG, Scheme  # loads SciPy

    found = Scheme.read(folder)
    if classes is None or set(classes) != set(found.classes):
        raise InvalidInput(
            f"--classes must be those of the scheme {folder}: {', '.join(found.classes)}."
        )
    place = [classes.index(each) for each in found.classes]
    return {
        "lists": tuple(tuple(place[each] for each in row) for row in found.lists.tolist()),
        "shares": tuple(found.shares.tolist()),
        "in_order": found.instruction is FIRST_WRONG,
        "n_offered": found.lists.shape[1],
    }


class Item(NamedTuple):
    """An example to ask annotators about."""

    name: str  # the path below the folder of images, or the row of the table
    cells: dict[str, Any] | None = None
    known: str | None = None  # its class, if it is known


def find_items(
    data: str | Path, *, true_label: str | None = None, known: str | Path | None = None
) -> tuple[str, str, list[Item]]:
    """Find the examples in a folder of images or texts, or in a table.

    Returns the kind of data ("images", "texts" or "table"), the folder of images, and the items.
    `true_label` is the column of a table that contains known classes. `known` is a table with the
    columns ``item`` and ``class``. An ``item`` is a path below the folder, or the number of a row,
    counted from 1.
    """
    path = Path(data)
    if path.is_dir():
        kind, root, items = _in_folder(path)
        if true_label is not None:
            raise InvalidInput(
                f"true_label (--true-label) names a column of a table. {path} is a folder: list "
                "known classes in a table with the columns item and class (--known)."
            )
    else:
        kind, root, items = "table", "", _in_table(data, true_label)
    if known is None:
        return kind, root, items
    classes = dict(_known_classes(Path(known)))
    unknown = sorted(classes.keys() - {item.name for item in items})
    if unknown:
        raise InvalidData(
            f"The items in {known} must be items of {path}. {unknown[0]!r} is not among its "
            f"{len(items):,} items, such as {items[0].name!r}."
        )
    return kind, root, [item._replace(known=classes.get(item.name, item.known)) for item in items]


def _in_folder(folder: Path) -> tuple[str, str, list[Item]]:
    images: list[str] = []
    texts: list[str] = []
    for file in visible_files(folder):
        path = file.relative_to(folder).as_posix()
        if path.lower().endswith(IMAGE_SUFFIXES):
            images.append(path)
        elif path.lower().endswith(".txt"):
            texts.append(path)
    if any(printable(path) != path for path in images or texts):
        raise InvalidData(f"File names in {folder} must be in UTF-8. Rename the others.")
    if images:
        return "images", str(folder.resolve()), [Item(name) for name in images]
    if texts:
        items = [Item(name, {"text": _read_text(folder / name)}) for name in texts]
        return "texts", "", items
    raise InvalidData(
        f"{folder} must contain images ({', '.join(IMAGE_SUFFIXES)}) or texts (.txt), at any depth."
        " It has none."
    )


def _read_text(path: Path) -> str:
    try:
        text = check_ordinary(path).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidData(f"{path} must be text in UTF-8. Save it again as UTF-8.") from None
    if len(text) > _MOST_TEXT:
        raise InvalidData(f"{path} must have at most {_MOST_TEXT:,} characters. Split it.")
    return text


def _in_table(data: str | Path, true_label: str | None) -> list[Item]:
    from naysay.datasets.own.columns import find_column  # loads pyarrow
    from naysay.datasets.own.tables import read_table, source_name  # loads pyarrow

    source = source_name(data)
    table = read_table(data, text=() if true_label is None else [true_label])
    known: list[Any] = [None] * len(table)
    if true_label is not None:
        cells = find_column(table, true_label, source, role="true_label").to_pylist()
        known = [None if cell is None or not str(cell).strip() else str(cell) for cell in cells]
        table = table.drop_columns([true_label])
    if not table.num_columns:
        raise InvalidData(f"{source} must have columns to show. It has only {true_label!r}.")
    rows = table.to_pylist()
    return [
        Item(str(number), row, true)
        for number, (row, true) in enumerate(zip(rows, known, strict=True), start=1)
    ]


def _known_classes(path: Path) -> Iterator[tuple[str, str]]:
    from naysay.datasets.own.columns import to_text  # loads pyarrow
    from naysay.datasets.own.tables import read_table  # loads pyarrow

    names, source = ("item", "class"), printable(path)
    table = read_table(path, text=names)
    if not {*names} <= {*table.column_names}:
        raise InvalidData(
            f"{source} must be a table with the columns item and class. It has "
            f"{shorten(table.column_names)}."
        )
    found = [to_text(table[name], name, source, longest=4096) for name in names]
    for row, (item, known) in enumerate(zip(*(each.to_pylist() for each in found), strict=True), 1):
        if item is None or known is None:
            raise InvalidData(
                f"Every row of {source} must have an item and its class. Data row {row} does not."
            )
        yield item, known
