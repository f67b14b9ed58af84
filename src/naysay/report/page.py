"""What every page shares: the templates, how numbers are written, and the file."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from naysay._base.files import check_target, replacing

__all__ = ["check_page_path", "render", "write_page"]

_NO_BREAK = "\N{NO-BREAK SPACE}"


def render(template: str, **context: Any) -> str:
    """Fill a template of this package; every value is escaped."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("naysay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"percent": percent, "count": count, "with_article": with_article}
    return environment


def percent(share: float, digits: int = 0) -> str:
    """Return a share as a percentage that never rounds to a certainty it is not.

    Examples
    --------
    >>> [percent(share).replace(_NO_BREAK, " ") for share in (0.973, 0.9999, 1.0)]
    ['97 %', '> 99 %', '100 %']
    """
    text = f"{share:.{digits}%}"[:-1]
    if share < 1 and float(text) == 100:
        text = f">{_NO_BREAK}{100 - 10**-digits:.{digits}f}"
    return f"{text}{_NO_BREAK}%"


def count(number: int) -> str:
    """Return a number with its thousands apart: ``1,347``."""
    return f"{number:,}"


def with_article(name: str) -> str:
    """Return ``a 7`` or ``an 8``."""
    return f"{'an' if name[:1] in tuple('8aeiouAEIOU') else 'a'}{_NO_BREAK}{name}"


def check_page_path(path: str | Path) -> Path:
    """Return the path if a page can be written there; ask before a long computation.

    Raises
    ------
    InvalidInput
        If the path is a folder or a device, or lies in a folder that does not exist.
    """
    return check_target(path, usual="page.html")


def write_page(html: str, path: str | Path) -> Path:
    """Write a page whole or not at all: a reader never sees half of it."""
    with replacing(path, usual="page.html") as part:
        part.write_text(html, encoding="utf-8", newline="\n")
    return Path(path)
