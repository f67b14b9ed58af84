"""Data frames of pandas or polars, which are optional."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from naysay._base.errors import InvalidInput

_LIBRARIES = ("pandas", "polars")


def make_frame(
    columns: Mapping[str, Any], library: str | None = None, *, index: Sequence[str] | None = None
) -> Any:
    """Make a data frame; without `library`, of pandas if it is installed, else of polars.

    `index` names the rows. polars has no index, so that there it is a first column, ``class``.
    """
    if library not in (None, *_LIBRARIES):
        raise InvalidInput(f"library must be 'pandas' or 'polars'. Got {library!r}.")
    installed = [name for name in _LIBRARIES if find_spec(name) is not None]
    if not installed or (library is not None and library not in installed):
        wanted = library or "pandas or polars"
        raise InvalidInput(f"to_frame needs {wanted}, which is not installed: pip install it.")
    if (library or installed[0]) == "pandas":
        import pandas

        return pandas.DataFrame(dict(columns), index=None if index is None else list(index))
    import polars

    first = {} if index is None else {"class": list(index)}
    return polars.DataFrame({**first, **columns})
