"""Checkpoints of training: one file of tensors and facts, written whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from naysay._errors import InvalidModelFile

__all__ = ["read_checkpoint", "write_checkpoint"]

_FORMAT = "naysay checkpoint 1"


def write_checkpoint(path: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace the checkpoint at `path`; killed at any moment, the old or the new one is there.

    Parameters
    ----------
    tensors : dict of Tensor
    facts : dict
        Anything JSON can hold.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"format": _FORMAT, "facts": json.dumps(facts)}
    # copies: safetensors refuses tensors that share memory
    values = {name: value.detach().cpu().clone() for name, value in tensors.items()}
    handle, scratch = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        os.close(handle)
        save_file(values, scratch, metadata)
        with open(scratch, "rb+") as written:
            os.fsync(written.fileno())
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
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(metadata["facts"])
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise InvalidModelFile(
            f"{path} must be a checkpoint of this version of naysay: {error}. Remove it to start "
            "training anew, or name another file."
        ) from None
