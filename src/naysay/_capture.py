"""Work on a GPU captured in one CUDA graph and replayed, and the tables that such work reads."""

import warnings
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from naysay._base.errors import NaysayWarning

Work = Callable[[], None]

_WARM_UPS = 3  # calls before the capture: libraries choose their kernels, optimisers their state


class Recorder(Protocol):
    """What can run work aside, and record it to be replayed."""

    def run_aside(self, work: Work) -> None:
        """Work now, in the surroundings that a capture will have."""
        ...

    def capture(self, work: Work) -> Work:
        """Return what does the work again; nothing is done yet."""
        ...


class CudaRecorder:
    """CUDA graphs, on one stream of their own.

    Memory that torch has taken for one stream serves no other, so a stream for each call would
    take the memory of a step once more each.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)

    def run_aside(self, work: Work) -> None:
        """Work on the other stream."""
        here = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            work()
        here.wait_stream(self.stream)

    def capture(self, work: Work) -> Work:
        """Return the replay of a graph, which has memory of its own."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):  # gives back what the warm-up has taken
            work()
        return graph.replay


class Captured:
    """Work without arguments, captured after a few calls and replayed from then on.

    The work must read all that changes between calls from tensors that stay where they are. Work
    that cannot be captured, because it looks at numbers on the way, is run as written, with a
    warning.
    """

    def __init__(self, work: Work, recorder: Recorder) -> None:
        self.work = work
        self.recorder = recorder
        self.n_calls = 0  # in this process: a resumed training has steps behind it, but no kernels

    def __call__(self) -> None:
        self.n_calls += 1
        if self.n_calls <= _WARM_UPS:
            self.recorder.run_aside(self.work)
            return
        if self.n_calls == _WARM_UPS + 1:
            self._capture()
        self.work()

    def _capture(self) -> None:
        try:
            self.work = self.recorder.capture(self.work)
        except RuntimeError as error:
            warnings.warn(
                "This network or loss cannot be captured in a CUDA graph, so training is slower: "
                f"{str(error).splitlines()[0]}",
                NaysayWarning,
                stacklevel=3,
            )


class Tables:
    """Tensors with a row for each step of an epoch; which is next is counted beside them.

    Their memory stays where it is from epoch to epoch, so that captured work may read it.
    """

    def __init__(self) -> None:
        self.tables: list[Tensor] = []
        self.number = torch.zeros(0)

    def fill(self, tables: Sequence[Tensor]) -> None:
        """Take the tables of another epoch, of the same shapes as those before."""
        if not self.tables:
            self.tables = [table.clone(memory_format=torch.contiguous_format) for table in tables]
            self.number = torch.zeros(1, dtype=torch.int64, device=tables[0].device)
            return
        for own, given in zip(self.tables, tables, strict=True):
            own.copy_(given)
        self.number.zero_()

    def next_rows(self) -> list[Tensor]:
        """Return the row of the next step from each table, without a look at its number."""
        rows = [table.index_select(0, self.number)[0] for table in self.tables]
        self.number += 1
        return rows
