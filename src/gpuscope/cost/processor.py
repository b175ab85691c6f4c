"""Nodes of a graph on a processor: arithmetic, bytes, and what every node takes.

A node's operators are costed together. Arithmetic: products and convolutions at a share of the
vector units' peak that depends on their shape, other nodes at the clocks of an element. Bytes: each
tensor that is read or written once, at the rate of the cache that holds the model: between two uses
of a buffer the run goes through all of its weights. Products hide the smaller of both behind the
larger, loops over elements do not. How many threads share a node follows ONNX Runtime's rules.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from gpuscope.hardware.processors import Processor
from gpuscope.program.types import Op, Program, TensorSpec

__all__ = ["NodeCost", "node_costs"]

_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_int_mm"})
_CONVOLUTION = "aten::convolution"
_LOOKUPS = frozenset({"aten::embedding", "aten::gather", "aten::index", "aten::index_select"})

_L2_SHARE = 0.75
"""Of the L2, what a node's tensors can have of it."""

_INTEGERS = frozenset({"int8", "uint8"})


@dataclass(frozen=True, slots=True)
class NodeCost:
    """One node of the graph.

    Attributes:
        name: of its module. kind: its operator.
        ops: what it does; the first has its inputs.
        flops, nbytes: of its products and convolutions; read and written.
        threads: that share it.
        arithmetic_s, memory_s: what its calculations, and its bytes alone take.
        duration_s: of the node.
    """

    name: str
    kind: str
    ops: tuple[Op, ...]
    flops: float
    nbytes: float
    threads: int
    arithmetic_s: float
    memory_s: float
    duration_s: float


def node_costs(program: Program, on: Processor, node_s: float) -> tuple[NodeCost, ...]:
    """What each node of a captured graph takes, in order.

    Args:
        program: as its engine runs it.
        on: the processor; all its cores are used.
        node_s: what every node takes beside its work.
    """
    kinds = {each.path: each.class_name for each in program.modules}
    weights = {each.id: each.nbytes for each in program.storages if each.category == "parameter"}
    machine = _Machine(on, weights)
    groups: list[list[Op]] = []
    for op in program.ops:
        if groups and groups[-1][0].module == op.module:
            groups[-1].append(op)
        else:
            groups.append([op])
    return tuple(machine.cost(kinds.get(ops[0].module, ""), ops, node_s) for ops in groups)


class _Machine:
    """A processor with a model whose weights it reads in every run."""

    def __init__(self, on: Processor, weights: Mapping[int, int]) -> None:
        self.on, self.weights = on, weights
        self.resident = sum(weights.values())

    def cost(self, kind: str, ops: Sequence[Op], node_s: float) -> NodeCost:
        kind = kind or ops[0].name.rpartition("::")[2]
        working = [op for op in ops if not op.view]
        products = [op for op in working if op.name in _PRODUCTS or op.name == _CONVOLUTION]
        flops = sum(map(_flops, products))
        read, fixed, written = self._bytes(working)
        elements = max((s.numel for op in working for s in (*op.inputs, *op.outputs)), default=0)
        clocks = 0.0 if products else elements * self._clocks(kind)
        threads = self._threads(kind, flops, clocks, read + fixed + written)
        alone_s = clocks / _table()["threads"]["clock_hz"] / threads
        arithmetic_s = alone_s + sum(self._product_s(op, threads) for op in products)
        memory_s = self._memory_s(read + written, fixed, threads)
        took = max(arithmetic_s, memory_s) if products else arithmetic_s + memory_s
        if threads > 1:
            table = _table()["threads"]
            fork_s = table["fork_s"] + table["fork_thread_s"] * threads
            took = took / table["even"] + fork_s
        return NodeCost(
            name=ops[0].module,
            kind=kind,
            ops=tuple(working or ops),
            flops=flops,
            nbytes=read + fixed + written,
            threads=threads,
            arithmetic_s=arithmetic_s,
            memory_s=memory_s,
            duration_s=node_s + took,
        )

    def _clocks(self, kind: str) -> float:
        """Clocks of an element on one core; 0 where its bytes are all."""
        found = _table()["clocks"].get(kind)
        if found is None:
            return 0.0
        wide = found["bits"] / self.on.vector_bits if found["bits"] else 1.0
        return float(found["clocks"]) * wide

    def _threads(self, kind: str, flops: float, clocks: float, nbytes: float) -> int:
        table = _table()["threads"]
        if flops:
            return max(1, min(self.on.cores, int(flops / 2 / table["product_macs"]) + 1))
        if kind in _table()["alone"]["kinds"]:
            return 1
        # Eigen counts 11/64 of a clock a byte, and the calculations.
        asked = nbytes * 11 / 64 + clocks
        more = (asked - table["startup_clocks"]) / table["clocks"] + 0.9
        return max(1, min(self.on.cores, int(more)))

    def _bytes(self, ops: Sequence[Op]) -> tuple[float, float, float]:
        """Read of what was made, of weights, and written; what a node makes for itself is not."""
        made: set[int] = set()
        seen: set[int] = set()
        read = fixed = written = 0.0
        for op in ops:
            for spec in op.inputs:
                if spec.storage in made or spec.storage in seen:
                    continue
                seen.add(spec.storage)
                nbytes = _looked_up(op, spec) if op.name in _LOOKUPS else spec.touched_bytes
                if spec.storage in self.weights:
                    fixed += nbytes
                else:
                    read += nbytes
            made |= {spec.storage for spec in op.outputs}
        if ops:
            written = sum(spec.nbytes for spec in ops[-1].outputs)
        return read, fixed, written

    def _memory_s(self, moved: float, fixed: float, threads: int) -> float:
        return (moved + fixed) / self._rate(self.resident + moved, threads)

    def _rate(self, footprint: float, threads: int) -> float:
        """Bytes a second, read and written together, of what lies in so large a place."""
        on = self.on
        if footprint <= _L2_SHARE * on.l2_bytes * threads:
            return threads * on.l2_bytes_per_s
        if footprint <= on.l3_bytes:
            return threads * on.l3_bytes_per_s
        return min(threads * on.core_memory_bytes_per_s, on.memory_bytes_per_s)

    def _product_s(self, op: Op, threads: int) -> float:
        dtype = "int8" if op.inputs[0].dtype in _INTEGERS else "fp32"
        one = self.on.core_flops_per_s.get(dtype, self.on.core_flops_per_s["fp32"])
        whole = self.on.flops_per_s.get(dtype, self.on.flops_per_s["fp32"])
        rate = min(threads * one, whole)
        return _flops(op) / (rate * self._reached(op))

    def _reached(self, op: Op) -> float:
        reached: Mapping[str, float] = _table()["reached"]
        if op.name == _CONVOLUTION:
            return _convolution_share(op)
        a, b = _operands(op)
        rows, columns = a.shape[-2], b.shape[-1]
        size = float(b.shape[-2] * columns * b.itemsize)
        full = reached["product"]
        if size > _L2_SHARE * self.on.l2_bytes:
            full = reached["product_beyond"]
        # Kernels make a block of as many columns as two registers hold.
        block = 2 * self.on.vector_bits // 32
        filled = columns / (-(-columns // block) * block)
        return full * filled * rows / (rows + reached["rows"])


def _convolution_share(op: Op) -> float:
    reached: Mapping[str, float] = _table()["reached"]
    weight, groups = op.inputs[1], int(str(op.args.get("groups", 1) or 1))
    if groups > 1:
        return reached["depthwise" if weight.shape[1] == 1 else "grouped"]
    summed = prod(weight.shape[1:])
    full = reached["convolution" if len(weight.shape) == 4 else "convolution_plain"]
    return full * summed / (summed + reached["deep"])


def _operands(op: Op) -> tuple[TensorSpec, TensorSpec]:
    own = op.inputs[1:3] if op.name in ("aten::addmm", "aten::baddbmm") else op.inputs[:2]
    return own[0], own[1]


def _flops(op: Op) -> float:
    if op.name == _CONVOLUTION:
        return 2.0 * op.outputs[0].numel * prod(op.inputs[1].shape[1:])
    return 2.0 * op.outputs[0].numel * _operands(op)[0].shape[-1]


def _looked_up(op: Op, spec: TensorSpec) -> float:
    """Of a table, the rows that are read."""
    made = max((each.nbytes for each in op.outputs), default=0)
    return float(min(spec.touched_bytes, made))


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
