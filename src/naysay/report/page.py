"""Functions of all pages: templates, formatting of numbers, and writing the file."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from naysay._base.files import replacing
from naysay.report.pictures import make_thumbnail

_NO_BREAK = "\N{NO-BREAK SPACE}"


def render(template: str, **context: Any) -> str:
    """Render a template of this package, with all values escaped."""
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
    environment.filters |= {"percent": percent, "with_article": with_article}
    environment.filters |= {"count": "{:,}".format, "thumbnail": make_thumbnail}  # count: 1,347
    return environment


def percent(share: float, digits: int = 0) -> str:
    """Format a share as a percentage, with ``> 99 %`` for a share below 1 that rounds to 100 %.

    Examples
    --------
    >>> [percent(share).replace(_NO_BREAK, " ") for share in (0.973, 0.9999, 1.0)]
    ['97 %', '> 99 %', '100 %']
    """
    text = f"{share:.{digits}%}"[:-1]
    if share < 1 and float(text) == 100:
        text = f">{_NO_BREAK}{100 - 10**-digits:.{digits}f}"
    return f"{text}{_NO_BREAK}%"


def with_article(name: str) -> str:
    """Put the indefinite article before a name, as in ``a 7`` and ``an 8``."""
    return f"{'an' if name[:1] in tuple('8aeiouAEIOU') else 'a'}{_NO_BREAK}{name}"


def write_page(html: str, path: str | Path) -> Path:
    """Write a page and return its path; a reader never sees an incomplete page."""
    with replacing(path, usual="page.html") as part:
        part.write_text(html, encoding="utf-8", newline="\n")
    return Path(path)
