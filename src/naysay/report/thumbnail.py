"""An image inside the page itself: a small PNG as a data address."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["make_thumbnail"]

_LARGEST = 96  # pixels on the longer side


def make_thumbnail(image: NDArray[np.uint8]) -> str:
    """Return an image of shape (channels, height, width), 1 or 3 channels, as ``data:…``.

    Examples
    --------
    >>> make_thumbnail(np.zeros((1, 8, 8), np.uint8))[:22]
    'data:image/png;base64,'
    """
    pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.thumbnail((_LARGEST, _LARGEST))
    content = io.BytesIO()
    picture.save(content, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode("ascii")
