"""Checkpoints of training: one file of tensors and facts, written whole or not at all."""

import glob
import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from naysay._base.errors import InvalidModelFile

__all__ = ["read_checkpoint", "write_checkpoint"]

_FORMAT = "naysay checkpoint 1"


def write_checkpoint(path: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace the checkpoint at `path`; killed at any moment, the old or the new one is there.

    What a killed write has left beside it is removed by the next one.

    Parameters
    ----------
    tensors : dict of Tensor
    facts : dict
        Anything JSON can hold.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}-"
    for left in target.parent.glob(f"{glob.escape(prefix)}*"):
        left.unlink(missing_ok=True)
    # copies: safetensors refuses tensors that share memory or are not in the usual order
    values = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    text = json.dumps(facts)
    metadata = {"format": _FORMAT, "facts": text, "checksum": str(_checksum(text, values))}
    # bytes first: safetensors' own writing leaves files of other names when it is killed
    content = save(values, metadata)
    handle, scratch = tempfile.mkstemp(prefix=prefix, dir=target.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def read_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the tensors and facts at `path`, or None if there is no file."""
    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError("it is something else")
            names = file.keys()  # not a dict: it cannot be iterated over itself
            tensors = {name: file.get_tensor(name) for name in names}
        if metadata["checksum"] != str(_checksum(metadata["facts"], tensors)):
            raise ValueError("it is damaged")
        return tensors, json.loads(metadata["facts"])
    except (OSError, SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise InvalidModelFile(
            f"{path} must be a checkpoint of this version of naysay: {error}. Remove it to start "
            "training anew, or name another file."
        ) from None


def _checksum(text: str, tensors: dict[str, Tensor]) -> int:
    """Return one number for all of it, which damage would change."""
    total = zlib.crc32(text.encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(name.encode(), total)
        bytes_of: Any = tensor.flatten().view(torch.uint8).numpy()
        total = zlib.crc32(bytes_of, total)
    return total
