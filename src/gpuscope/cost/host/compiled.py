"""What the host spends inside `torch.compile`d code: a generated wrapper instead of dispatch.

A call of a compiled function checks its guards (sizes, types and flags of every parameter and
input), enters the generated wrapper, and there launches kernel after kernel: no module, no
dispatcher, no autograd node per operator. A call that wants gradients also wraps what it saves;
the backward pass is one autograd node, but every parameter's gradient is still accumulated by a
node of its own. The constants are measured (benchmarks/compiled_kernels.py, cases "kernels",
"library" and "layers", validation/recordings/h200/micro/compiled.jsonl.gz) on a host whose eager
calls took 1.4 times those of the calibrated one, and divided by that (`host.compiled.*`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from gpuscope.cost.registry import Constants
from gpuscope.cost.types import HostCost
from gpuscope.program.types import FUSED, Op, Program

_PHASES = ("forward", "backward")


class CompiledHost:
    """Host cost of the operators of a step that Inductor compiled.

    Args:
        constants: calibrated `host.compiled.*` constants.
        program: fused, see `gpuscope.program.fusion`.
        parameters: gradients that the step makes.
    """

    def __init__(self, constants: Constants, program: Program, parameters: int) -> None:
        get = constants.value
        scale = get("host.scale")
        self.active = any(op.name == FUSED for op in program.ops)
        self.marked = any(op.region for op in program.ops)
        self.kernel_s = get("host.compiled.per_kernel_s") * scale
        self.library_s = get("host.compiled.library_s") * scale
        self.launch_s = get("host.launch_s") * scale
        self.scalar_s = get("host.compiled.scalar_s") * scale
        begins = _begins(program.ops, self.marked) if self.active else {}
        shares = _shares(program, parameters) if begins else {}
        graphs = Counter(region for region, phase in begins.values() if phase == "backward")
        parts = Counter(begins.values())
        self._begins = {
            index: _call_s(
                get,
                phase,
                graphs[region] / parts[region, phase] if phase == "forward" else 0.0,
                shares.get(region, 0) / parts[region, phase],
            )
            * scale
            for index, (region, phase) in begins.items()
        }
        self.call_s: dict[tuple[int, str], float] = {}
        for index, call in begins.items():
            self.call_s[call] = self.call_s.get(call, 0.0) + self._begins[index]

    def covers(self, op: Op) -> bool:
        """Whether the operator is issued by generated code."""
        return self.active and _compiled(op, self.marked)

    def cost(self, op: Op, launches: int) -> HostCost:
        """Host time of one operator inside of generated code that makes `launches` launches."""
        before = self._begins.get(op.index, 0.0)
        if op.name == FUSED:
            return HostCost(before, self.kernel_s, 0.0)
        if not launches:
            return HostCost(before + self.scalar_s, self.launch_s, 0.0)
        before += max(self.library_s - self.launch_s, 0.0)
        return HostCost(before, self.launch_s, 0.0)


def _call_s(get: Callable[[str], float], phase: str, graphs: float, parameters: float) -> float:
    """Host time of entering a compiled graph of so many parameters.

    Args:
        graphs: for a forward pass, how many backward graphs it has, each of a forward graph of
            its own (`DistributedDataParallel` cuts them at its buckets); 0 without gradients.
    """
    if phase == "backward":
        once = get("host.compiled.backward_s")
        return once + parameters * get("host.compiled.gradient_s")
    each = get("host.compiled.guard_s")
    if not graphs:
        return get("host.compiled.call_s") + parameters * each
    each += get("host.compiled.save_s")
    return graphs * get("host.compiled.forward_s") + parameters * each


def _compiled(op: Op, marked: bool) -> bool:
    if op.sync:
        return False
    return op.region > 0 if marked else op.phase in _PHASES


def _begins(ops: Sequence[Op], marked: bool) -> dict[int, tuple[int, str]]:
    """Operators that a compiled function, or its backward pass, begins with, by index."""
    begins: dict[int, tuple[int, str]] = {}
    before: tuple[int, str] | None = None
    for op in ops:
        graph = (op.region, op.phase) if _compiled(op, marked) else None
        if graph is not None and graph != before:
            begins[op.index] = graph
        before = graph
    return begins


def _shares(program: Program, parameters: int) -> dict[int, int]:
    """Parameters that each compiled call takes, by region; 0 is a step without marks."""
    held = {s.id for s in program.storages if s.category == "parameter"}
    read: dict[int, set[int]] = {}
    for op in program.ops:
        if op.phase != "backward":
            read.setdefault(op.region, set()).update(t.storage for t in op.inputs)
    shares = {region: len(found & held) for region, found in read.items() if region}
    return shares or {0: parameters}
