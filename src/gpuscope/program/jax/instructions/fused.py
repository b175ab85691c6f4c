"""Fusions: generated kernels that read their operands, compute, and write their results.

XLA's emitters (openxla/xla `xla/backends/gpu/codegen/emitters`) and its Triton ones read what a
fusion uses: a slice of an operand where that is all that is sliced from it, and they write an
update in place (`xla/service/gpu/ir_emission_utils.cc`, `CanEmitFusedDynamicUpdateSliceInPlace`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuscope.program.jax.hlo import Computation, Instruction
from gpuscope.program.jax.instructions.products import fused_product
from gpuscope.program.jax.walk import Value, Walk, instruction
from gpuscope.program.types import FUSED, TensorSpec

__all__ = ["kernel_of"]

_NAMES = {
    "exponential": "exp",
    "exponential-minus-one": "exp",
    "log": "log",
    "log-plus-one": "log",
    "logistic": "sigmoid",
    "tanh": "tanh",
    "erf": "erf",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "divide": "div",
    "power": "pow",
    "sine": "sin",
    "cosine": "cos",
    "gather": "index",
    "dynamic-slice": "index",
    "pad": "constant_pad_nd",
    "concatenate": "cat",
}
"""XLA's opcodes as `gpuscope.cost.fused` counts their instructions."""

_NOTHING = frozenset(
    (
        "parameter constant bitcast broadcast get-tuple-element tuple reshape slice iota "
        "transpose copy dynamic-update-slice scatter"
    ).split()
)
"""Opcodes that are loads, stores or index arithmetic."""

_UPDATED = frozenset(("dynamic-update-slice", "scatter"))

_WHOLE = frozenset("tuple concatenate dynamic-update-slice scatter sort dot convolution".split())
"""Opcodes that read all of their operands, whatever is wanted of them."""

_ALIGNED = 8
"""Elements of a row that XLA's threads load at once."""

_SINGLE = tuple(
    (
        "copy transpose broadcast iota reduce convert slice pad concatenate dynamic-slice "
        "dynamic-update-slice gather select reverse reduce-window add multiply subtract "
        "divide compare scatter select-and-scatter map copy-start exponential tanh "
        "maximum minimum and or not negate"
    ).split()
)


@instruction("fusion")
def fusion(walk: Walk, given: Instruction) -> None:
    """A fusion, by what it holds: a product, a sort, or element by element."""
    body = walk.computation(given.called())
    if any(each.opcode in ("dot", "scaled-dot") for each in body.instructions):
        fused_product(walk, given, body)
        return
    ordered = next((each for each in body.instructions if each.opcode == "sort"), None)
    if ordered is not None:
        sort(walk, given)
        return
    kernel_of(walk, given, body)


@instruction(*_SINGLE)
def single(walk: Walk, given: Instruction) -> None:
    """An instruction by itself is a fusion of one."""
    inputs = [
        Instruction(name, "parameter", (value.array,), (), {}, number)
        for number, name in enumerate(dict.fromkeys(given.operands))
        for value in walk.values.get(name, ())[:1]
    ]
    kernel_of(walk, given, Computation(given.name, (*inputs, given)))


@instruction("sort")
def sort(walk: Walk, given: Instruction) -> None:
    """CUB's radix sort, or XLA's own bitonic one: as PyTorch's sort of the same rows."""
    inputs = [value.spec for value in walk.operands(given)]
    outputs = [value.spec for value in walk.result(given)]
    walk.emit("aten::sort", inputs or outputs, outputs)


def kernel_of(walk: Walk, given: Instruction, body: Computation) -> None:
    """The one kernel that computes a computation."""
    operands = walk.operands(given)
    inputs = _reads(body, operands)
    made = walk.result(given)
    outputs = _writes(body, made)
    walk.emit(FUSED, inputs, outputs, facts(given, body, outputs))


def facts(
    given: Instruction, body: Computation, outputs: Sequence[TensorSpec]
) -> Mapping[str, object]:
    """What `gpuscope.cost.fused` wants to know of a kernel."""
    looped = given.attributes.get("kind") == "kLoop"
    rows, columns, reduction = _loops(body, outputs, looped)
    whole = rows * columns
    counted = [
        each
        for each in body.instructions
        if each.opcode not in _NOTHING and each.array.numel * 8 >= whole
    ]
    return {
        "kernel": given.name,
        "emitter": _emitter(given, body),
        "operators": tuple(_NAMES.get(each.opcode, each.opcode) for each in counted),
        "count": max(len(counted), 1),
        "rows": rows,
        "columns": columns,
        "reduction": reduction,
        "splits": 1,
        "finals": 0,
        "passes": 1,
    }


def _emitter(given: Instruction, body: Computation) -> str:
    """Which of XLA's ways of making a kernel it is (`HloFusionAnalysis::EmitterFusionKind`)."""
    opcodes = {each.opcode for each in body.instructions}
    kind = given.attributes.get("kind")
    if kind == "kCustom" and "triton" in given.attributes.get("backend_config", ""):
        return "triton"
    if "scatter" in opcodes:
        return "scatter"
    if kind == "kInput":
        return "reduce" if "reduce" in opcodes else "transpose"
    return "loop"


def _loops(body: Computation, outputs: Sequence[TensorSpec], looped: bool) -> tuple[int, int, str]:
    """Rows, columns, and which of them are reduced: by the largest reduction in it.

    In a loop fusion each thread reduces what its own element needs.
    """
    by_name = body.by_name
    found = [
        (by_name[each.operands[0]].array, each)
        for each in body.instructions
        if each.opcode == "reduce" and each.operands[0] in by_name
    ]
    if not found or looped:
        return max((spec.numel for spec in outputs), default=1) or 1, 1, ""
    source, largest = max(found, key=lambda pair: pair[0].numel)
    reduced = set(largest.integers("dimensions"))
    columns = max(1, source.numel // max(1, largest.array.numel))
    minor = next((d for d in source.layout if source.shape[d] > 1), -1)
    rows = max(1, largest.array.numel)
    if minor not in reduced and columns < _ALIGNED:
        return rows, 1, ""
    if minor not in reduced:
        return rows, columns, "outer"
    while columns % _ALIGNED and rows % 2 == 0:  # pieces of one row lie side by side
        rows, columns = rows // 2, columns * 2
    return rows, columns, "inner"


def _demand(body: Computation) -> dict[str, int]:
    """Elements of each value that the kernel computes or reads, from its results backwards."""
    by_name, root = body.by_name, body.root
    wanted = {root.name: root.array.numel}
    in_place = {each.name for each in _results(body) if each.opcode in _UPDATED}
    for each in reversed(body.instructions):
        own = wanted.get(each.name, 0)
        for place, name in enumerate(each.operands):
            given = by_name.get(name)
            if given is not None:
                kept = place == 0 and each.name in in_place
                more = _updated(each, given, by_name) if kept else _asked(each, own, given)
                wanted[name] = min(given.array.numel, wanted.get(name, 0) + more)
    return wanted


def _updated(user: Instruction, given: Instruction, by_name: Mapping[str, Instruction]) -> int:
    """Elements that an update in place reads of what it updates."""
    if user.opcode == "dynamic-update-slice":
        return 0  # what is not updated stays as it is
    update = by_name.get(user.operands[-1])
    return update.array.numel if update else given.array.numel


def _asked(user: Instruction, own: int, given: Instruction) -> int:
    """Elements of an operand that an instruction wants for so many of its own."""
    whole = given.array.numel
    if user.opcode in _WHOLE:
        return whole
    if user.opcode in ("reduce", "reduce-window", "select-and-scatter"):
        return min(whole, max(own, own * whole // max(1, user.array.numel)))
    return min(own, whole)


def _results(body: Computation) -> list[Instruction]:
    """What makes each of a computation's results, changes of format stepped over."""
    by_name, root = body.by_name, body.root
    found = []
    for name in root.operands if root.opcode == "tuple" else (root.name,):
        given = by_name[name]
        while given.opcode in ("bitcast", "convert", "copy") and given.operands[0] in by_name:
            given = by_name[given.operands[0]]
        found.append(given)
    return found


def _reads(body: Computation, operands: Sequence[Value]) -> list[TensorSpec]:
    """The operands as the kernel reads them."""
    wanted = _demand(body)
    specs = []
    for parameter, value in zip(body.parameters, operands, strict=False):
        elements = wanted.get(parameter.name, 0)
        if elements >= value.array.numel:
            specs.append(value.spec)
        elif elements:
            specs.append(value.read(elements))
    return specs


def _writes(body: Computation, made: Sequence[Value]) -> list[TensorSpec]:
    """The results as the kernel writes them: of one that is updated in place, the update."""
    specs = []
    for value, given in zip(made, _results(body), strict=False):
        update = None
        if given.opcode in _UPDATED:
            place = 1 if given.opcode == "dynamic-update-slice" else -1
            update = body.by_name.get(given.operands[place])
        specs.append(value.spec if update is None else value.read(update.array.numel))
    return specs
