"""The registry of official data sets. A data set is a row of a table here, not a class."""

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput
from naysay.datasets._entry import Entry
from naysay.datasets._registry_images import IMAGE_SETS
from naysay.datasets._registry_tables import TABLE_SETS

__all__ = ["REGISTRY", "find_entry"]

_ORDER = (
    *("mnist", "fashion-mnist", "usps"),
    *("waveform1", "waveform2", "satimage", "pendigits", "drive", "letter"),
    *("cifar-10", "cifar-100", "tiny-imagenet"),
)

REGISTRY: dict[str, Entry] = dict(
    sorted(
        ((entry.name, entry) for entry in IMAGE_SETS + TABLE_SETS),
        key=lambda row: _ORDER.index(row[0]),
    )
)


def find_entry(name: str) -> Entry:
    """Return the row of a data set; an unknown name is answered with those that are known."""
    try:
        return REGISTRY[name]
    except KeyError:
        raise InvalidInput(
            f"Unknown data set {shorten(name)}. Known: {', '.join(REGISTRY)}."
        ) from None
