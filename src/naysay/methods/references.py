"""The publications that the methods come from.

`naysay.methods` refers to them by key, such as "Yu et al. 2018". The docstrings of
`naysay.functional` and docs/methods.md use the same links.
"""

import csv
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["REFERENCES", "Reference", "linked"]


@dataclass(frozen=True)
class Reference:
    """A publication with a permanent link.

    The link is the DOI of the published version, or of the arXiv version if the publisher assigns
    none. If there is neither, it is the publisher's page.
    """

    authors: str
    title: str
    venue: str
    link: str

    def __str__(self) -> str:
        return f"{self.authors}: {self.title}. {self.venue}. {self.link}"


with files("naysay.methods").joinpath("references.csv").open(encoding="utf-8") as _file:
    #: All publications by key, from references.csv.
    REFERENCES: dict[str, Reference] = {
        row.pop("key"): Reference(**row) for row in csv.DictReader(_file, delimiter=";")
    }


def linked(source: str) -> str:
    """Turn keys separated by semicolons into Markdown links; unknown keys stay as they are.

    Examples
    --------
    >>> linked("Liu et al. 2023; Me 2024")
    '[Liu et al. 2023](https://proceedings.mlr.press/v206/liu23g.html); Me 2024'
    """
    return "; ".join(
        f"[{key}]({REFERENCES[key].link})" if key in REFERENCES else key
        for key in source.split("; ")
    )
