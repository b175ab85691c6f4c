"""Distinct operator calls of a trace: shapes and dtypes, phase, module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuscope.program.types import Op, TensorSpec
from gpuscope.timeline.kineto.inputs import inputs_of
from gpuscope.timeline.kineto.table import Numbers, Spec
from gpuscope.timeline.kineto.vocabulary import (
    BACKWARD,
    INPUT,
    KIND,
    MODULE_MARK,
    OPTIMIZER,
    PHASES,
    PYTHON_MODULE,
    phase_mark,
)
from gpuscope.timeline.nesting import climb, nearest
from gpuscope.timeline.types import Events, Ints


def phases(events: Events, names: Sequence[str], parent: Ints) -> Ints:
    """Index into `PHASES` of every event's phase: that of the nearest event that opens one."""
    by_name = np.fromiter((phase_mark(name) for name in names), np.int64, len(names))
    mark = np.where(events.kind >= KIND["operator"], by_name[events.name], 0)
    near = nearest(parent, mark > 0)
    return np.where(near >= 0, mark[np.maximum(near, 0)], 0)


def modules(events: Events, names: Sequence[str], parent: Ints) -> tuple[Ints, list[str]]:
    """Each event's module as a number, with the dotted path of each number; 0 is none.

    gpuscope's own marks hold whole paths. Python frames hold only "Linear_3": there the path is
    made of the frames around. Where both are there, the marks count.
    """
    is_mark = np.fromiter((name.startswith(MODULE_MARK) for name in names), bool, len(names))
    module = events.kind == KIND["module"]
    if (module & is_mark[events.name]).any():
        module &= is_mark[events.name]
    number: Numbers[str] = Numbers()
    path = np.full(len(events), number[""], np.int64)
    rows = np.flatnonzero(module)
    if len(rows):
        above = nearest(parent, module, own=False)[rows]
        known = np.zeros(len(events), bool)
        while len(rows):
            ready = (above < 0) | known[np.maximum(above, 0)]
            if not ready.any():
                break
            now, up = rows[ready], above[ready]
            around = np.where(up >= 0, path[np.maximum(up, 0)], 0)
            path[now] = _paths(events.name[now], around, names, number)
            known[now] = True
            rows, above = rows[~ready], above[~ready]
        near = nearest(parent, module)
        path = np.where(near >= 0, path[np.maximum(near, 0)], 0)
    return path, list(number)


def _paths(name: Ints, around: Ints, names: Sequence[str], number: Numbers[str]) -> Ints:
    """Numbers of the paths of modules with these names within these."""
    paths = list(number)
    pairs, inverse = np.unique(around * len(names) + name, return_inverse=True)
    found = []
    for pair in pairs.tolist():
        outer, own = paths[pair // len(names)], names[pair % len(names)]
        if own.startswith(MODULE_MARK):
            found.append(number[own.removeprefix(MODULE_MARK)])
        else:
            inner = own.removeprefix(PYTHON_MODULE)
            found.append(number[f"{outer}.{inner}" if outer else inner])
    numbers: Ints = np.array(found, np.int64)[inverse.reshape(-1)]
    return numbers


def differentiated(events: Events, phase: Ints, sequence: Ints, parent: Ints, module: Ints) -> Ints:
    """Modules with those of backward operators filled in.

    A backward node carries the sequence number of the forward operator that made it: of those
    with the number, the one called last, since the number is taken when the node is made.
    """
    operator = events.kind == KIND["operator"]
    made = np.flatnonzero(operator & (sequence >= 0) & (phase != BACKWARD) & (phase != OPTIMIZER))
    nodes = operator & (sequence >= 0) & (phase == BACKWARD)
    if not len(made) or not nodes.any():
        return module
    lanes, counts = np.unique(events.lane[made], return_counts=True)
    made = made[events.lane[made] == lanes[np.argmax(counts)]]
    numbers, first_from_end = np.unique(sequence[made][::-1], return_index=True)
    forward = made[::-1][first_from_end]
    near = nearest(parent, nodes)
    wanted = np.flatnonzero((near >= 0) & (module == 0))
    of = sequence[near[wanted]]
    at = np.minimum(np.searchsorted(numbers, of), len(numbers) - 1)
    found = np.where(numbers[at] == of, module[forward[at]], 0)
    module = module.copy()
    module[wanted] = found
    return module


def distinct_ops(
    events: Events,
    names: Sequence[str],
    spec: Ints,
    specs: Sequence[Spec],
    phase: Ints,
    module: Ints,
    paths: Sequence[str],
) -> tuple[Ints, tuple[Op, ...]]:
    """One `Op` for each distinct call, and which one each operator event is (-1 for others)."""
    rows = np.flatnonzero(events.kind == KIND["operator"])
    column = np.full(len(events), -1, np.int64)
    if not len(rows):
        return column, ()
    key = (events.name[rows] * max(1, len(specs)) + spec[rows]) * len(PHASES) + phase[rows]
    key = key * len(paths) + module[rows]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # numbered in order of appearance
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    column[rows] = number[inverse.reshape(-1)]
    known: dict[int, tuple[tuple[TensorSpec, ...], tuple[str, ...]]] = {}
    ops = []
    for index, row in enumerate(rows[first[order]].tolist()):
        number_of = int(spec[row])
        if number_of not in known:
            known[number_of] = inputs_of(specs[number_of])
        tensors, concrete = known[number_of]
        ops.append(
            Op(
                index=index,
                name=names[int(events.name[row])],
                inputs=tensors,
                args={"concrete_inputs": concrete} if concrete else {},
                module=paths[int(module[row])],
                phase=PHASES[int(phase[row])],  # type: ignore[arg-type]
                autograd=False,
            )
        )
    return column, tuple(ops)


def loads(
    events: Events, names: Sequence[str], phase: Ints, parent: Ints, rows: Ints, operator: Ints
) -> Ints:
    """Phases with operators that copy from the host marked as input, where nothing else is known.

    The small copies of a library's own bookkeeping, told by its ranges, are no input.

    Args:
        events: all of them.
        names: their string table.
        phase: from `phases`.
        parent: from `nesting.parents`.
        rows: device events.
        operator: the operator of each of those, or -1.
    """
    inward = np.fromiter((is_inward(name) for name in names), bool, len(names))
    copies = (events.kind[rows] == KIND["memcpy"]) & inward[events.name[rows]] & (operator >= 0)
    callers = np.unique(operator[copies])
    library = np.fromiter((name.startswith(_LIBRARY) for name in names), bool, len(names))
    callers = callers[climb(parent, library[events.name], callers) < 0]
    phase = phase.copy()
    phase[callers] = np.where(phase[callers] == 0, INPUT, phase[callers])
    return phase


_LIBRARY = ("FSDP::", "DistributedDataParallel.")


def is_inward(name: str) -> bool:
    """Whether a copy of this name goes from the host to a device."""
    return "HtoD" in name or "HostToDevice" in name or "HOST_TO_DEVICE" in name
