"""Where a device task runs: its queue on the device, its lane in the picture.

- Kernels run on their stream.
- A copy runs on its stream, too, and occupies a copy engine, which serves one copy at a time.
- A collective runs on its communicator's own stream, one a process group, as `ProcessGroupNCCL`
  does it (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `ncclStreams_`, `syncStream`): after
  what the stream had been given that it was issued from, in the order of issue.
- Sends and receives of one `batch_isend_irecv` run on the group's stream and side by side; a single
  one has the stream of its pair of ranks (`getKeySendRecv` there).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuscope.cost.types import CostedOp, Kernel
from gpuscope.program.types import Op, ProcessGroup
from gpuscope.timeline.types import LaneKind

_COPY_LANES = {"copy_h2d": "copy H2D", "copy_d2h": "copy D2H"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task runs.

    Attributes:
        queue: number of its device queue.
        lane: number of its lane among the device lanes.
        engine: copy engine that it needs; -1 for none.
        joined: queue that it waits for besides its own; -1 for none.
        batch: number of the batch of sends and receives that it is part of; -1 for none.
    """

    queue: int
    lane: int
    engine: int = -1
    joined: int = -1
    batch: int = -1


@dataclass(slots=True)
class _Names:
    """Numbers things in the order they are first seen."""

    index: dict[str, int] = field(default_factory=dict)

    def __call__(self, name: str) -> int:
        return self.index.setdefault(name, len(self.index))


class Places:
    """Numbers queues, copy engines and lanes as a step's tasks first use them."""

    def __init__(self, items: Sequence[CostedOp], groups: Sequence[ProcessGroup]) -> None:
        """Look at the operators of a step and at the process groups that they index."""
        self.queues, self.engines, self.lanes = _Names(), _Names(), _Names()
        self.kinds: dict[str, LaneKind] = {}
        self._groups = groups
        self._labels = group_labels(groups)
        self._batch = point_to_point_batches([item.op for item in items])
        self._known: dict[tuple[str, int, int, int, str, int], Place] = {}

    def stream(self, stream: int) -> int:
        """The queue of a stream."""
        return self.queues(f"stream {stream}")

    def __call__(self, kernel: Kernel, op: Op, position: int) -> Place:
        """Where `kernel` of the operator at `position` runs."""
        link = kernel.lane == "link"
        group, peer = (op.group, op.peer) if link else (-1, -1)
        way = (("from" if "recv" in op.name else "to") if peer >= 0 else "") if link else ""
        batch = self._batch.get(position, -1) if peer >= 0 else -1
        key = (kernel.lane, kernel.stream, group, peer, way, batch)
        if key not in self._known:
            self._known[key] = self._new(kernel, group, peer, way, batch)
        return self._known[key]

    def _new(self, kernel: Kernel, group: int, peer: int, way: str, batch: int) -> Place:
        if kernel.lane == "link":
            return self._link(kernel.stream, group, peer, way, batch)
        copy = _COPY_LANES.get(kernel.lane)
        queue = self.stream(kernel.stream)
        if copy is not None:
            return Place(queue, self._lane(copy, "copy"), engine=self.engines(copy))
        return Place(queue, self._lane(f"stream {kernel.stream}", "stream"))

    def _link(self, stream: int, group: int, peer: int, way: str, batch: int) -> Place:
        joined = self.stream(stream)
        named = 0 <= group < len(self._groups)
        label = f"link {self._labels[group]}" if named else "link"
        queue = f"group {group}" if named else "link"
        if peer >= 0:
            label = f"{label} {way} {peer}"
            queue = queue if batch >= 0 else f"{queue} pair {peer}"
        return Place(self.queues(queue), self._lane(label, "link"), joined=joined, batch=batch)

    def _lane(self, name: str, kind: LaneKind) -> int:
        self.kinds[name] = kind
        return self.lanes(name)


def group_labels(groups: Sequence[ProcessGroup]) -> tuple[str, ...]:
    """What to call each group: its label, its name where it has none or shares it with another."""
    plain = [group.label or group.name for group in groups]
    return tuple(
        f"{text} {group.name}".strip() if plain.count(text) > 1 and text != group.name else text
        for text, group in zip(plain, groups, strict=True)
    )


def point_to_point_batches(ops: Sequence[Op]) -> dict[int, int]:
    """Sends and receives that are issued as one, by position in `ops`: the first one's position.

    Those of one `batch_isend_irecv` have the same "batch" in `Op.args`. Without one, each is a call
    of its own: pairs do not wait for each other.
    """
    found: dict[int, int] = {}
    run: list[int] = []
    for position, op in enumerate(ops):
        if op.view:
            continue
        if op.peer >= 0 and run and _goes_on(ops, run, op):
            run.append(position)
        else:
            _close(ops, run, found)
            run = [position] if op.peer >= 0 else []
    _close(ops, run, found)
    return found


def _goes_on(ops: Sequence[Op], run: list[int], op: Op) -> bool:
    first = ops[run[0]]
    batch = first.args.get("batch")
    same = (first.group, first.stream, batch) == (op.group, op.stream, op.args.get("batch"))
    return batch is not None and same and not any(wait in run for wait in op.waits)


def _close(ops: Sequence[Op], run: list[int], found: dict[int, int]) -> None:
    if run and ops[run[0]].args.get("batch") is not None:
        found.update((position, run[0]) for position in run)
