"""CUDA graphs that the user's code captures itself: recorded once, written down at every replay.

What runs between `capture_begin` and `capture_end` is kept as a list of operators, and does not
count as done. `replay` writes them down anew, with temporaries of their own and the number of the
replay (`Op.graph`): the host pays for one launch, the device does all the work. What a graph does
on several streams is taken as done one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpuscope.program.capture.cuda import StreamContext, current_stream
from gpuscope.program.capture.fakes import recorder
from gpuscope.program.capture.storages import Life
from gpuscope.program.capture.writer import StepWriter
from gpuscope.program.types import Op, TensorSpec

_NOT_PERMITTED = frozenset({"item", "equal"})
"""Waits of the host that CUDA refuses while a stream is being captured."""


@dataclass
class _Captured:
    """The operators of a graph, and the memory that comes and goes among them, counted from its
    beginning."""

    ops: tuple[Op, ...]
    lives: tuple[Life, ...]


class Graph:
    """`torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._captured = _Captured((), ())
        self._before: tuple[Any, ...] = ()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Operators from now on are the graph's."""
        writer = recorder()
        storages = writer.storages
        self._before = writer.ops, writer.recording, writer.seen_backward, len(storages.lives)
        writer.ops, writer.recording, writer.seen_backward = [], True, False
        writer.capturing.append(self)

    def capture_end(self) -> None:
        """Operators are the step's again.

        Raises:
            RuntimeError: the host waited for a value, which CUDA does not permit meanwhile.
        """
        writer = recorder()
        writer.capturing.remove(self)
        found = writer.ops
        writer.ops, writer.recording, writer.seen_backward, first = self._before
        made = writer.storages.lives[first:]
        passing = tuple(replace(life) for life in made if life.died is not None)
        for life in made:  # counted from the graph's beginning until now
            life.born += len(writer.ops)
            life.died = None if life.died is None else life.died + len(writer.ops)
        for op in found:
            if op.sync in _NOT_PERMITTED:
                raise RuntimeError(
                    f"operation not permitted when stream is capturing ({op.name}, {op.site})"
                )
        self._captured = _Captured(tuple(_issued_by_graph(op) for op in found), passing)

    def replay(self) -> None:
        """Write the graph's operators down again."""
        writer = recorder()
        writer.python.pause()  # what stands in for the launch is none of the step's work
        try:
            replay(writer, self._captured)
        finally:
            writer.python.resume()

    def reset(self) -> None:
        """Forget the graph."""
        self._captured = _Captured((), ())

    def pool(self) -> tuple[int, int]:
        """A name of its memory."""
        return (0, id(self))

    def instantiate(self) -> None:
        """Nothing to be done."""

    def enable_debug_mode(self) -> None:
        """Nothing to be done."""

    def debug_dump(self, path: str) -> None:
        """Nothing to be written."""


def _issued_by_graph(op: Op) -> Op:
    """An operator that costs the host nothing by itself."""
    return replace(
        op, module_calls=0, python_calls=0, python_instructions=0, autograd_nodes=0, sync=""
    )


class Capture:
    """`with torch.cuda.graph(g):`."""

    def __init__(
        self, cuda_graph: Graph, pool: Any = None, stream: Any = None, **options: Any
    ) -> None:
        self._graph = cuda_graph
        self._stream = StreamContext(torch.cuda.Stream() if stream is None else stream)

    def __enter__(self) -> None:
        self._stream.__enter__()
        self._graph.capture_begin()

    def __exit__(self, *error: object) -> None:
        try:
            self._graph.capture_end()
        finally:
            self._stream.__exit__()


def replay(writer: StepWriter, graph: _Captured) -> None:
    """Write down one launch of a graph; before the recorded step it only takes its turn."""
    stream = current_stream().stream_id
    ops, lives = graph.ops, graph.lives
    if not writer.recording:
        for op in ops:
            writer.order.issue(op.name, stream, works=not op.view)
        return
    first, known = len(writer.ops), len(writer.storages.lives)
    number = 1 + next((op.graph for op in reversed(writer.ops) if op.graph), 0)
    fresh = {life.id: known + at for at, life in enumerate(lives)}
    for life in lives:
        born, died = first + life.born, first + (life.died or 0)
        writer.storages.lives.append(replace(life, id=fresh[life.id], born=born, died=died))

    def own(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        return tuple(replace(s, storage=fresh.get(s.storage, s.storage)) for s in specs)

    for op in ops:
        given = writer.order.issue(op.name, stream, works=not op.view)
        if op.phase == "backward":
            writer.seen_backward = True
            if writer.first_backward is None:
                writer.first_backward = len(writer.ops)
        writer.ops.append(
            replace(
                op,
                index=len(writer.ops),
                inputs=own(op.inputs),
                outputs=own(op.outputs),
                stream=stream,
                waits=given,
                graph=number,
            )
        )
