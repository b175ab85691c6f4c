"""A compiled module as a `Program`: its operators in order, its memory, what the host launches.

Memory: a step holds its arguments, its results (a donated argument's memory is its result's) and
one block for everything in between, whose size XLA's buffer assignment has settled. What is alive
when comes from the instructions; what the block has beyond that at its fullest is told as its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.program.jax.compiling import Compiled
from gpuscope.program.jax.hlo import parse
from gpuscope.program.jax.lowering import Argument, Lowered
from gpuscope.program.jax.walk import Value, Walk
from gpuscope.program.types import XLA, Category, MeshDimension, Op, Program, Storage

__all__ = ["as_program"]

_LEAST_NODES = 5
"""Kernels in a row from which XLA makes a command buffer of them (`xla_gpu_graph_min_graph_size`,
openxla/xla `xla/debug_options_flags.cc`)."""

_OPTIMIZER = ("opt", "mu", "nu", "momentum", "trace", "exp_avg", "ema", "moment")

_NOT_CAPTURED = ("c10d", "sort", "wait_tensor", "convolution", "_fft", "xla::")
"""Operators that stay out of command buffers (`xla/backends/gpu/runtime/
command_buffer_conversion_pass.cc`): collectives, CUB, legacy convolutions, cuFFT."""


def as_program(compiled: Compiled, lowered: Lowered, name: str) -> Program:
    """What XLA compiled, as gpuscope costs it.

    Args:
        compiled: the module and its buffers' sizes.
        lowered: what it was made from.
        name: what the user calls it.
    """
    module = parse(compiled.hlo)
    walk = Walk(module, world=lowered.devices)
    entry = module.computations[module.entry]
    donated = dict(module.aliases)
    for given in entry.parameters:
        about = _about(lowered.arguments, given.parameter)
        buffers = [
            walk.buffer(
                array.nbytes,
                _category(about, array.dtype),
                about.name or f"args[{about.place}]",
                -1,
            )
            for array in given.arrays
        ]
        walk.values[given.name] = tuple(map(Value, given.arrays, buffers))
    places = [walk.values[each.name][0].storage for each in entry.parameters]
    results: list[int | None] = [
        places[donated[n]] if n in donated else None for n in range(max(1, len(entry.root.arrays)))
    ]
    for storage in places:
        walk.buffers[storage].kept = True
    arrays = lowered.results + len(lowered.arguments)
    walk.emit("xla::execute", (), (), {"arrays": arrays}, view=True)
    walk.begin_round()
    walk.place_results(entry, results)
    for value in walk.run(entry):
        if value.storage >= 0:
            walk.buffers[value.storage].kept = True
    ops = _graphed(walk.ops)
    storages = _settled(walk.storages(), len(ops), compiled.temp_bytes)
    highest = any(op.args.get("precision") == "highest" for op in ops)
    trains = any(op.phase == "backward" for op in ops)
    if not trains:
        ops = [replace(op, phase="forward") for op in ops]
    return Program(
        name=name,
        ops=tuple(ops),
        storages=storages,
        parameters=_count(lowered, storages),
        assumptions=(*_ASSUMED, *walk.notes, _memory(compiled)),
        unsupported=(),
        task="train" if trains else "inference",
        settings={"tf32_matmul": not highest, "tf32_cudnn": not highest, "cudnn_benchmark": True},
        rank=0,
        world_size=lowered.devices,
        groups=tuple(walk.groups),
        mesh=(MeshDimension("", lowered.devices),) if lowered.devices > 1 else (),
        engine=XLA,
    )


_ASSUMED = (
    Text(
        "XLA's own compiler made this program for the device, without one: fusions, order, "
        "partitions and buffers are its own."
    ),
    Text(
        "What XLA would have tried out on the device is taken as the library's choice: products "
        "as cuBLAS runs them, with what was fused into a large one apart."
    ),
)


def _memory(compiled: Compiled) -> Text:
    return Text(
        "Memory is what XLA's buffers take: arguments {arguments}, results {results}, of which "
        "{donated} in donated arguments, and {temp} in between. JAX reserves three quarters of the "
        "device at its start.",
        arguments=Bytes(compiled.argument_bytes),
        results=Bytes(compiled.output_bytes),
        donated=Bytes(compiled.alias_bytes),
        temp=Bytes(compiled.temp_bytes),
    )


def _about(arguments: Sequence[Argument], number: int) -> Argument:
    if number < len(arguments):
        return arguments[number]
    return Argument("constant", -1, False, "float32")


def _category(about: Argument, dtype: str) -> Category:
    """What an argument holds, by where it stands: JAX has no word for it."""
    words = about.name.lower()
    if "cache" in words:
        return "cache"
    if "float" not in dtype:
        return "input"
    if any(f"{mark}{word}" in words for word in _OPTIMIZER for mark in ("'", ".", "_")):
        return "optimizer_state"
    return "parameter" if about.donated or about.place == 0 else "input"


def _count(lowered: Lowered, storages: Sequence[Storage]) -> int:
    """Elements of the parameters, as their bytes and dtypes say."""
    sizes = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
    return sum(
        storage.nbytes // sizes.get(about.dtype, 4)
        for about, storage in zip(lowered.arguments, storages, strict=False)
        if storage.category == "parameter"
    )


def _graphed(ops: Sequence[Op]) -> list[Op]:
    """The operators with the command buffer that brings each to the device: a run of enough."""
    made = list(ops)
    run: list[int] = []
    number = 0

    def close() -> None:
        nonlocal number
        if sum(not made[at].view for at in run) >= _LEAST_NODES:
            number += 1
        keep = number if sum(not made[at].view for at in run) >= _LEAST_NODES else 0
        for at in run:
            made[at] = replace(made[at], graph=keep)
        run.clear()

    for at, op in enumerate(ops):
        if run and (op.graph != ops[run[0]].graph or any(n in op.name for n in _NOT_CAPTURED)):
            close()
        if op.graph and not any(n in op.name for n in _NOT_CAPTURED):
            run.append(at)
        else:
            made[at] = replace(op, graph=0)
    close()
    return made


def _settled(storages: Sequence[Storage], ops: int, temp_bytes: int) -> tuple[Storage, ...]:
    """The memory as XLA lays it out: results and temporaries are one block each from the start.

    What the block of temporaries has beyond what is alive in it at its fullest is told as its own.
    Where it has less (XLA puts several things in one place, in a result's, too), each thing in it
    is counted with its share.
    """
    temporary = {each.id for each in storages if each.born >= 0 and each.died is not None}
    change = [0] * (ops + 2)
    for each in storages:
        if each.id in temporary and each.died is not None:
            change[each.born] += each.nbytes
            change[each.died] -= each.nbytes
    most = max(accumulate(change))
    share = min(1.0, temp_bytes / most) if most else 1.0
    found = tuple(
        replace(each, nbytes=int(each.nbytes * share))
        if each.id in temporary
        else replace(each, born=min(each.born, 0))
        for each in storages
    )
    if most >= temp_bytes:
        return found
    label = "xla::temp"
    return (*found, Storage(len(found), temp_bytes - most, "temporary", 0, ops, "", label))
