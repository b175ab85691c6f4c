"""Collectives of a partitioned module: NCCL's, on a stream of their own where XLA starts them
before it waits for them (openxla/xla `xla/service/gpu/transforms/async_wrapper.cc`,
`xla/backends/gpu/runtime/collective_thunk.cc`)."""

from __future__ import annotations

import re
from math import prod

import numpy as np

from gpuscope.program.jax.hlo import Instruction
from gpuscope.program.jax.walk import Value, Walk, instruction, unknown

__all__ = ["ranks_of"]

_NAMES = {
    "all-reduce": "_c10d_functional::all_reduce",
    "all-gather": "_c10d_functional::all_gather_into_tensor",
    "reduce-scatter": "_c10d_functional::reduce_scatter_tensor",
    "all-to-all": "_c10d_functional::all_to_all_single",
    "ragged-all-to-all": "_c10d_functional::all_to_all_single",
    "collective-broadcast": "_c10d_functional::broadcast",
    "collective-permute": "_c10d_functional::all_to_all_single",
}

_WAIT = "_c10d_functional::wait_tensor"


@instruction(*_NAMES)
def blocking(walk: Walk, given: Instruction) -> None:
    """A collective that is waited for at once."""
    made = _start(walk, given, given.opcode, given)
    _done(walk, made)


@instruction("async")
def asynchronous(walk: Walk, given: Instruction) -> None:
    """The start of one, or the place where it is waited for."""
    if given.opcode.endswith("-done"):
        made = walk.values.get(given.operands[0], ())
        walk.values[given.name] = made
        _done(walk, made)
        return
    opcode, inner = given.opcode.removesuffix("-start"), given
    if opcode == "async":
        body = walk.computation(given.called())
        inner = body.root
        opcode = inner.opcode
        if opcode not in _NAMES:
            for parameter, value in zip(body.parameters, walk.operands(given), strict=False):
                walk.values[parameter.name] = (value,)
            walk.values[given.name] = walk.run(body)
            return
    if opcode not in _NAMES:
        unknown(walk, given)
        return
    made = _start(walk, given, opcode, inner)
    if given.config.get("collective_backend_config", {}).get("is_sync"):
        _done(walk, made)


def _start(walk: Walk, given: Instruction, opcode: str, inner: Instruction) -> tuple[Value, ...]:
    operands = walk.operands(given)
    count = len(operands)
    # A start's result names its operands, too, and what it keeps: its results follow them.
    results = given.arrays if len(given.arrays) <= count else given.arrays[count : 2 * count]
    if opcode == "all-reduce" or given is not inner:
        results = inner.arrays[:count]
    walk.result(given, results)
    made = walk.values[given.name]
    ranks = ranks_of(inner, walk.world)
    if len(ranks) > 1:
        graph, walk.graph = walk.graph, 0
        walk.emit(
            _NAMES[opcode],
            [value.spec for value in operands],
            [value.spec for value in made],
            {"group_size": len(ranks)},
            group=walk.group(ranks),
        )
        walk.graph = graph
        walk.started |= {value.storage for value in made}
    return made


def _done(walk: Walk, made: tuple[Value, ...]) -> None:
    """Let what follows wait for a collective, once."""
    waited = [value for value in made if value.storage in walk.started]
    if waited:
        walk.emit(_WAIT, [value.spec for value in waited], (), view=True)
        walk.started -= {value.storage for value in waited}


def ranks_of(given: Instruction, world: int) -> tuple[int, ...]:
    """The group that the first rank joins, from any of the ways in which XLA writes groups."""
    pairs = given.attributes.get("source_target_pairs", "")
    if pairs:
        numbers = {int(n) for n in re.findall(r"\d+", pairs)}
        return tuple(sorted(numbers)) or tuple(range(world))
    text = given.attributes.get("replica_groups", "")
    if text.startswith("mesh"):
        return _of_mesh(text)
    if "<=" in text:
        shape, _, rest = text.partition("<=")
        order, _, turned = rest.partition("T")
        sizes = [int(n) for n in re.findall(r"\d+", order)]
        ids = np.arange(prod(sizes)).reshape(sizes)
        if turned:
            ids = ids.transpose([int(n) for n in re.findall(r"\d+", turned)])
        ids = ids.reshape([int(n) for n in re.findall(r"\d+", shape)])
        return tuple(int(n) for n in next(row for row in ids if 0 in row))
    listed = re.findall(r"\{([\d, ]+)\}", text)
    groups = [tuple(int(n) for n in re.findall(r"\d+", each)) for each in listed]
    return next((each for each in groups if 0 in each), tuple(range(world)))


def _of_mesh(text: str) -> tuple[int, ...]:
    """`mesh['data'=2,'model'=4] {'model'}`: the ranks that differ in the named axes alone."""
    axes = [(name, int(size)) for name, size in re.findall(r"'([^']+)'=(\d+)", text)]
    named = set(re.findall(r"'([^']+)'", text.partition("{")[2]))
    ids = np.arange(prod(size for _, size in axes)).reshape([size for _, size in axes])
    chosen = ids[tuple(slice(None) if name in named else 0 for name, _ in axes)]
    return tuple(int(n) for n in chosen.reshape(-1))
